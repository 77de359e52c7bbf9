//! Measures the server without a guest: reads and writes of a file, and walks.

use nagori_ninep::wire::{Bytes, Names, Text};
use nagori_ninep::{Folder, Limits, Request, Server};
use std::time::Instant;

const PIECE: usize = 500_000;
const PIECES: u64 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("f"), vec![7; PIECE * PIECES as usize])?;
    let mut server = Server::new(Limits::default());
    server.connect(Folder::open(dir.path(), true)?)?;
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    let mut call = |r: Request<'_>| {
        r.encode(1, &mut request);
        server.handle(&request, &mut reply).map(|()| reply.len())
    };
    let (msize, version) = (512 << 10, Text(b"9P2000.L"));
    call(Request::Version { msize, version })?;
    let (fid, afid, n_uname, uname, aname) = (0, !0, 0, Text(b""), Text(b""));
    call(Request::Attach {
        fid,
        afid,
        uname,
        aname,
        n_uname,
    })?;
    let names = Names(vec![Text(b"f")]);
    let (newfid, flags) = (1, 2);
    call(Request::Walk { fid, newfid, names })?;
    call(Request::Lopen { fid: 1, flags })?;

    let count = PIECE as u32;
    let begin = Instant::now();
    for i in 0..PIECES {
        let offset = i * u64::from(count);
        let read = Request::Read {
            fid: 1,
            offset,
            count,
        };
        assert_eq!(call(read)?, PIECE + 11);
    }
    let megabytes = PIECE as f64 * PIECES as f64 / 1e6;
    println!(
        "read   {:.0} MB/s",
        megabytes / begin.elapsed().as_secs_f64()
    );

    let data = vec![1; PIECE];
    let begin = Instant::now();
    for i in 0..PIECES {
        let (offset, data) = (i * u64::from(count), Bytes(&data));
        call(Request::Write {
            fid: 1,
            offset,
            data,
        })?;
    }
    println!(
        "write  {:.0} MB/s",
        megabytes / begin.elapsed().as_secs_f64()
    );

    let begin = Instant::now();
    for _ in 0..10_000 {
        let names = Names(vec![Text(b"f")]);
        let (fid, newfid, mask) = (0, 2, !0);
        call(Request::Walk { fid, newfid, names })?;
        call(Request::Getattr { fid: 2, mask })?;
        call(Request::Clunk { fid: 2 })?;
    }
    let each = begin.elapsed().as_secs_f64() * 1e6 / 10_000.0;
    println!("walk, attributes, clunk  {each:.1} us");
    Ok(())
}
