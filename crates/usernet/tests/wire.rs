//! Two machines on one wire.

use nagori_usernet::{Frame, Link, Wire};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NOW: Duration = Duration::ZERO;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    (folder, path)
}

fn frame(n: u8, len: usize) -> Frame {
    Frame::plain(vec![n; len])
}

fn until(what: &str, mut f: impl FnMut() -> bool) {
    let began = Instant::now();
    while !f() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn frames_go_both_ways() {
    let (_folder, path) = place();
    let mut a = Wire::listen(&path).unwrap();
    assert!(!a.is_up());
    // Nobody is there: frames are lost.
    a.send(NOW, frame(9, 60));
    let mut b = Wire::connect(&path).unwrap();
    until("a peer", || {
        a.poll(NOW).unwrap();
        a.is_up()
    });
    let mut got = Vec::new();
    for i in 0..200u8 {
        a.send(NOW, frame(i, 14 + usize::from(i) * 40));
        b.send(NOW, frame(255 - i, 64));
    }
    until("all frames", || {
        a.poll(NOW).unwrap();
        b.poll(NOW).unwrap();
        got.extend(std::iter::from_fn(|| b.receive()));
        got.len() == 200
    });
    for (i, f) in got.iter().enumerate() {
        assert!(*f == frame(i as u8, 14 + i * 40));
    }
    until("the first frame of the other", || {
        a.poll(NOW).unwrap();
        a.receive().is_some_and(|f| f == frame(255, 64))
    });
    drop(b);
    until("the end", || {
        a.poll(NOW).unwrap();
        !a.is_up()
    });
    // And another one may come.
    let _c = Wire::connect(&path).unwrap();
    until("a peer", || {
        a.poll(NOW).unwrap();
        a.is_up()
    });
    drop(a);
    assert!(!path.exists(), "the socket is taken away");
}

#[test]
fn a_machine_that_does_not_read_makes_the_other_wait() {
    let (_folder, path) = place();
    let mut a = Wire::listen(&path).unwrap();
    let peer = UnixStream::connect(&path).unwrap();
    until("a peer", || {
        a.poll(NOW).unwrap();
        a.is_up()
    });
    let mut sent = 0usize;
    while a.is_ready() {
        a.send(NOW, frame(1, 1000));
        a.poll(NOW).unwrap();
        sent += 1;
        assert!(sent < 100_000, "nothing stops the guest");
    }
    peer.set_nonblocking(true).unwrap();
    let mut peer = peer;
    let mut read = 0;
    until("all bytes", || {
        a.poll(NOW).unwrap();
        read += peer.read(&mut vec![0; 1 << 20]).unwrap_or(0);
        read == sent * 1004
    });
    assert!(a.is_ready());
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let (_folder, path) = place();
    let mut a = Wire::listen(&path).unwrap();
    let mut peer = UnixStream::connect(&path).unwrap();
    // One frame byte by byte, one that is too short to be one, one that is too long.
    for b in [&[0, 0, 0, 14][..], &[7; 14], &[0, 0, 0, 1, 9]].concat() {
        peer.write_all(&[b]).unwrap();
        a.poll(NOW).unwrap();
    }
    until("the frame", || {
        a.poll(NOW).unwrap();
        a.receive() == Some(frame(7, 14))
    });
    peer.write_all(&[1, 0, 0, 0]).unwrap();
    until("the end", || {
        a.poll(NOW).unwrap();
        !a.is_up()
    });
    assert_eq!(a.receive(), None);
}

#[test]
fn places_that_are_taken_or_left() {
    let (_folder, path) = place();
    let e = Wire::connect(&path).err().unwrap().to_string();
    assert!(e.contains("must be started first"), "{e}");
    // Left by a program that is gone.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = Wire::listen(&path).unwrap();
    let e = Wire::listen(&path).err().unwrap().to_string();
    assert!(e.contains("cannot listen"), "{e}");
    drop(first);
    // A file that is not a socket must not be removed.
    std::fs::write(&path, "precious").unwrap();
    assert!(Wire::listen(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}
