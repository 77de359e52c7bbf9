//! A client: sends a request and waits for the answer.

use crate::rpc::RpcError;
use crate::Error;
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to a machine.
pub struct Client {
    stream: BufReader<UnixStream>,
    path: String,
    asked: u64,
}

impl Client {
    /// Connects to the socket at a path.
    pub fn connect(path: &Path) -> Result<Client, Error> {
        let name = path.display().to_string();
        match UnixStream::connect(path) {
            Ok(s) => Ok(Client {
                stream: BufReader::new(s),
                path: name,
                asked: 0,
            }),
            Err(source) => Err(Error::Io {
                what: "connect to",
                path: name,
                source,
            }),
        }
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id});
        let io = |what, path: &str, source| Error::Io {
            what,
            path: path.to_string(),
            source,
        };
        writeln!(self.stream.get_mut(), "{request}").map_err(|e| io("write to", &self.path, e))?;
        let mut line = String::new();
        let n = self.stream.read_line(&mut line);
        if n.map_err(|e| io("read from", &self.path, e))? == 0 {
            return Err(Error::Closed);
        }
        let wrong = || Error::Response(line.trim_end().chars().take(200).collect());
        let mut answer: Value = serde_json::from_str(&line).map_err(|_| wrong())?;
        if let Ok(e) = serde_json::from_value::<RpcError>(answer["error"].take()) {
            return Err(Error::Refused(e));
        }
        if answer["id"] != id {
            return Err(wrong());
        }
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;
    use std::time::Duration;

    #[test]
    fn answers_and_refusals_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(matches!(Client::connect(&path), Err(Error::Io { .. })));
        let mut server = Server::bind(&path).unwrap();
        let machine = std::thread::spawn(move || {
            let mut asked = 0;
            while asked < 2 {
                server.poll(|r| {
                    asked += 1;
                    match r.method.as_str() {
                        "add" => Ok(json!(r.params["a"].as_u64().unwrap_or(0) + 1)),
                        _ => Err(RpcError::refused("not now")),
                    }
                });
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut client = Client::connect(&path).unwrap();
        assert_eq!(client.ask("add", json!({"a": 2})).unwrap(), 3);
        match client.ask("x", json!({})) {
            Err(Error::Refused(e)) => assert_eq!(e.message, "not now"),
            other => panic!("{other:?}"),
        }
        machine.join().unwrap();
        assert!(matches!(
            client.ask("add", json!({})),
            Err(Error::Closed | Error::Io { .. })
        ));
    }
}
