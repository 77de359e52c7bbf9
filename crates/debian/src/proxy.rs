//! Plain HTTP by a proxy: it is asked for the whole address. `ureq` only asks proxies for tunnels, which most of them
//! refuse for other ports than that of HTTPS.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use ureq::Proxy;

/// How often an answer may name another address.
const REDIRECTS: usize = 5;
/// Most bytes and fields of an answer's head.
const HEAD: usize = 64 << 10;
const FIELDS: usize = 100;

/// An answer.
pub(crate) struct Answer {
    /// HTTP's status code.
    pub status: u16,
    pub body: Box<dyn Read>,
}

/// Asks `proxy` for what is at `url`, from byte `from` on.
pub(crate) fn get(proxy: &Proxy, url: &str, from: u64, patience: Duration) -> io::Result<Answer> {
    let mut url = url.to_string();
    for _ in 0..REDIRECTS {
        let (status, next, body) = once(proxy, &url, from, patience)?;
        match (status, next) {
            (301 | 302 | 303 | 307 | 308, Some(next)) if next.starts_with("http://") => url = next,
            _ => return Ok(Answer { status, body }),
        }
    }
    Err(io::Error::other("too many answers name another address"))
}

type Once = (u16, Option<String>, Box<dyn Read>);

fn once(proxy: &Proxy, url: &str, from: u64, patience: Duration) -> io::Result<Once> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    // Of this version, so that the answer is not in chunks and the connection is closed behind it.
    let mut request = format!(
        "GET {url} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: nagori/{}\r\nConnection: close\r\n",
        env!("CARGO_PKG_VERSION")
    );
    if from > 0 {
        request += &format!("Range: bytes={from}-\r\n");
    }
    if let Some(user) = proxy.username() {
        let who = STANDARD.encode(format!("{user}:{}", proxy.password().unwrap_or_default()));
        request += &format!("Proxy-Authorization: Basic {who}\r\n");
    }
    request += "\r\n";
    let mut stream = connect(proxy.host(), proxy.port(), patience)?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader)?;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let whole = answer
        .parse(&head)
        .map_err(|e| io::Error::other(e.to_string()))?;
    let status = answer.code.filter(|_| whole.is_complete());
    let status = status.ok_or_else(|| io::Error::other("the proxy's answer has no status"))?;
    let field = |name: &str| {
        let found = answer
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found
            .and_then(|h| std::str::from_utf8(h.value).ok())
            .map(str::trim)
    };
    let next = field("location").map(String::from);
    let body: Box<dyn Read> = match field("content-length").and_then(|l| l.parse().ok()) {
        Some(length) => Box::new(reader.take(length)),
        None => Box::new(reader),
    };
    Ok((status, next, body))
}

fn connect(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::other(format!("the proxy {host} has no address"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The bytes of an answer before its body.
fn head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = reader.take(HEAD as u64);
    loop {
        let n = limited.read_until(b'\n', &mut head)?;
        if n == 0 {
            return Err(io::Error::other("the proxy's answer ends in its head"));
        }
        if head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n") {
            return Ok(head);
        }
    }
}
