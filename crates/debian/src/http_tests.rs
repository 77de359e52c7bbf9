use super::*;
use crate::testing::{listed, Server};

fn client(server: &Server) -> Source {
    Source::new(&server.uri(), &Proxies::none()).unwrap()
}

#[test]
fn a_transfer_that_breaks_is_continued() {
    let content: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let server = Server::new(&[("pool/a.deb", &content)]);
    server.break_after(70_000, 2);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.deb");
    client(&server)
        .file("pool/a.deb", &listed(&content), &to, &mut |_| {})
        .unwrap();
    assert_eq!(fs::read(&to).unwrap(), content);
    let from = |r: String| {
        r.trim_start_matches("bytes=")
            .trim_end_matches('-')
            .parse()
            .unwrap_or(0)
    };
    let ranges: Vec<u64> = server.ranges().into_iter().map(from).collect();
    assert!(
        ranges.len() == 3 && ranges[0] == 0 && ranges.is_sorted(),
        "{ranges:?}"
    );
    assert!(ranges[1] > 0 && ranges[2] > ranges[1], "{ranges:?}");
    assert!(!partial(&to).exists());
}

#[test]
fn what_is_not_what_was_promised_is_refused() {
    let server = Server::new(&[("a", b"content")]);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a");
    let e = |listed: &Listed| {
        client(&server)
            .file("a", listed, &to, &mut |_| {})
            .unwrap_err()
            .to_string()
    };
    let other = e(&listed(b"Content"));
    assert!(
        other.contains("is not what the signed index says"),
        "{other}"
    );
    assert!(e(&listed(b"conten")).contains("more than 6 bytes"));
    assert!(e(&listed(b"content+")).contains("it ended after 7 of 8 bytes"));
    assert!(!to.exists());
    // What an older transfer has left is thrown away, if it is of another file.
    fs::write(partial(&to), b"xyz").unwrap();
    client(&server)
        .file("a", &listed(b"content"), &to, &mut |_| {})
        .unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"content");
}

#[test]
fn what_is_not_there() {
    let server = Server::new(&[]);
    let e = client(&server).bytes("x").unwrap_err();
    assert!(matches!(e, Error::Status { status: 404, .. }), "{e}");
    for uri in [
        "mirror",
        "",
        "http:",
        "http://",
        "ftp://a/b",
        "http://a/b c",
        "file:relative",
    ] {
        let e = Source::new(uri, &Proxies::none()).err().unwrap();
        assert!(matches!(e, Error::BadMirror { .. }), "{uri}: {e}");
    }
}

#[test]
fn a_directory_is_a_mirror() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), b"content").unwrap();
    let source = Source::new(&format!("file:{}", dir.path().display()), &Proxies::none()).unwrap();
    assert_eq!(source.bytes("a").unwrap(), b"content");
    let to = dir.path().join("b");
    source
        .file("a", &listed(b"content"), &to, &mut |_| {})
        .unwrap();
    assert_eq!(fs::read(to).unwrap(), b"content");
}

#[test]
fn a_proxy_is_asked_for_whole_addresses() {
    let content = vec![7; 100_000];
    let proxy = Server::new(&[
        ("http://mirror.invalid/debian/a", b"content"),
        ("http://mirror.invalid/debian/large", &content),
    ]);
    let text = format!("Acquire::http::Proxy \"{}\";", proxy.uri());
    let proxies = Proxies::parse(&text).unwrap();
    let source = Source::new("http://mirror.invalid/debian/", &proxies).unwrap();
    assert_eq!(source.bytes("a").unwrap(), b"content");
    let e = source.bytes("b").unwrap_err();
    assert!(matches!(e, Error::Status { status: 404, .. }), "{e}");
    proxy.break_after(60_000, 1);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("large");
    source
        .file("large", &listed(&content), &to, &mut |_| {})
        .unwrap();
    assert_eq!(fs::read(&to).unwrap(), content);
}
