//! The machine's end: a listening socket and its clients; it never blocks.

use crate::place::Place;
use crate::rpc::{self, Request, RpcError};
use crate::{Error, MAX_MESSAGE};
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Greatest number of clients; others wait.
pub const MAX_CLIENTS: usize = 16;
/// Number of unread answer bytes from which on nothing more is read from a client.
const MOST_UNREAD: usize = 4 * MAX_MESSAGE;
/// Number of bytes read from a client at once.
const CHUNK: usize = 64 << 10;

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// The rest of a message that was too long is being skipped.
    skipping: bool,
    output: Vec<u8>,
    /// The client sends no more.
    ended: bool,
}

/// A listening socket with its clients.
pub struct Server {
    place: Place,
    clients: Vec<Client>,
}

impl Server {
    /// Listens at a path: see [`Place::bind`].
    pub fn bind(path: &Path) -> Result<Server, Error> {
        Ok(Server {
            place: Place::bind(path)?,
            clients: Vec::new(),
        })
    }

    /// Whether somebody is connected.
    pub fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// The descriptors that become ready when there is something to do.
    pub fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        if self.clients.len() < MAX_CLIENTS {
            to.push(PollFd::new(self.place.listener(), PollFlags::IN));
        }
        for c in &self.clients {
            let mut flags = PollFlags::empty();
            if c.output.len() < MOST_UNREAD && !c.ended {
                flags |= PollFlags::IN;
            }
            if !c.output.is_empty() {
                flags |= PollFlags::OUT;
            }
            to.push(PollFd::new(&c.stream, flags));
        }
    }

    /// Accepts new clients, answers requests, sends what clients accept.
    pub fn poll(&mut self, mut answer: impl FnMut(&Request) -> Result<Value, RpcError>) {
        while self.clients.len() < MAX_CLIENTS {
            // A client that left before it was accepted, or a host out of descriptors: tried again
            // next time.
            let Ok((stream, _)) = self.place.listener().accept() else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    input: Vec::new(),
                    skipping: false,
                    output: Vec::new(),
                    ended: false,
                });
            }
        }
        self.clients.retain_mut(|c| c.serve(&mut answer));
    }

    /// Sends pending answers, as long as clients accept them at once.
    pub fn flush(&mut self) {
        self.clients.retain_mut(Client::send);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Client {
    /// Whether the client stays connected.
    fn serve(&mut self, answer: &mut impl FnMut(&Request) -> Result<Value, RpcError>) -> bool {
        let mut chunk = vec![0; CHUNK];
        while !self.ended && self.output.len() < MOST_UNREAD {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    self.input.extend_from_slice(&chunk[..n]);
                    self.messages(answer);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        // A client that has closed its side may still read answers; one that is gone fails here.
        self.send() && !(self.ended && self.output.is_empty())
    }

    /// Answers all complete messages.
    fn messages(&mut self, answer: &mut impl FnMut(&Request) -> Result<Value, RpcError>) {
        let input = std::mem::take(&mut self.input);
        let mut rest: &[u8] = &input;
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let (line, behind) = rest.split_at(end + 1);
            rest = behind;
            if std::mem::take(&mut self.skipping) || line.trim_ascii().is_empty() {
                continue;
            }
            let reply = if line.len() > MAX_MESSAGE {
                Some(too_long())
            } else {
                rpc::respond(line, &mut *answer)
            };
            self.reply(reply);
        }
        if rest.len() >= MAX_MESSAGE {
            if !std::mem::replace(&mut self.skipping, true) {
                self.reply(Some(too_long()));
            }
            rest = &[];
        }
        self.input = rest.to_vec();
    }

    fn reply(&mut self, reply: Option<Value>) {
        if let Some(v) = reply {
            self.output.extend(v.to_string().into_bytes());
            self.output.push(b'\n');
        }
    }

    /// Whether the client is still connected.
    fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return false,
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

fn too_long() -> Value {
    let text = format!("a message has at most {MAX_MESSAGE} bytes; this one is skipped");
    rpc::failure(Value::Null, &RpcError::new(rpc::INVALID_REQUEST, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;

    fn echo(r: &Request) -> Result<Value, RpcError> {
        Ok(json!(r.method))
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        (dir, path)
    }

    /// Polls until a line has come.
    fn line(server: &mut Server, from: &UnixStream) -> Value {
        from.set_nonblocking(true).unwrap();
        let mut reader = BufReader::new(from);
        let mut text = String::new();
        loop {
            server.poll(echo);
            match reader.read_line(&mut text) {
                Ok(n) if n > 0 && text.ends_with('\n') => break,
                Ok(0) => panic!("closed"),
                _ => {}
            }
        }
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn several_clients_are_answered_each() {
        let (_dir, path) = place();
        let mut server = Server::bind(&path).unwrap();
        let mut clients: Vec<UnixStream> = (0..3)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        for (i, c) in clients.iter_mut().enumerate() {
            let m = json!({"jsonrpc": "2.0", "method": format!("m{i}"), "id": i});
            writeln!(c, "{m}").unwrap();
        }
        for (i, c) in clients.iter().enumerate().rev() {
            let v = line(&mut server, c);
            assert_eq!(
                (&v["result"], &v["id"]),
                (&json!(format!("m{i}")), &json!(i))
            );
        }
        drop(clients);
        server.poll(echo);
        assert!(!server.has_clients());
    }

    #[test]
    fn messages_may_come_in_pieces_and_be_answered_after_the_client_closed_its_side() {
        let (_dir, path) = place();
        let mut server = Server::bind(&path).unwrap();
        let mut c = UnixStream::connect(&path).unwrap();
        for piece in [
            "{\"jsonrpc\":\"2.0\",",
            "\"method\":\"a\",\"id\"",
            ":1}\n\n",
        ] {
            server.poll(echo);
            c.write_all(piece.as_bytes()).unwrap();
        }
        c.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(line(&mut server, &c)["result"], "a");
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_and_the_next_one_answered() {
        let (_dir, path) = place();
        let mut server = Server::bind(&path).unwrap();
        let c = UnixStream::connect(&path).unwrap();
        let mut writer = c.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let long = vec![b'x'; 3 * MAX_MESSAGE];
            writer.write_all(&long).unwrap();
            writer
                .write_all(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"b\",\"id\":1}\n")
                .unwrap();
        });
        // The thread writes without waiting only if this end reads.
        let first = line_blocking(&mut server, &c);
        assert_eq!(first["error"]["code"], rpc::INVALID_REQUEST);
        let second = line_blocking(&mut server, &c);
        assert_eq!(second["result"], "b");
        sender.join().unwrap();
        assert!(server.clients[0].input.len() < MAX_MESSAGE);
    }

    /// As `line`, but leaves the writer's blocking mode alone and reads byte by byte.
    fn line_blocking(server: &mut Server, from: &UnixStream) -> Value {
        let mut text = Vec::new();
        let mut from = from;
        from.set_read_timeout(Some(std::time::Duration::from_millis(1)))
            .unwrap();
        while !text.ends_with(b"\n") {
            server.poll(echo);
            let mut b = [0];
            if let Ok(1) = from.read(&mut b) {
                text.push(b[0]);
            }
        }
        serde_json::from_slice(&text).unwrap()
    }
}
