//! Images of NVMM.

use nagori_nvmm::{Access, Domain, Geometry, Image};
use std::io::Write;
use std::os::unix::fs::FileExt;

/// Bytes of NVMM: small, so that a file is made quickly.
const LEN: u64 = 64 << 10;
/// Bytes of header and state.
const PAGES: usize = 8192;

fn geometry() -> Geometry {
    Geometry {
        base: 0xc000_0000,
        len: LEN,
        machine: "fuzz".into(),
    }
}

/// An image: bytes of header and state that are changed (a place of two bytes and its new value each, until a place
/// beyond them), then the undo area. It is refused, or what is read before it is opened for writing is what is found
/// afterwards.
pub fn nvmm_image(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let mut image = Image::create(&path, &geometry()).expect("room");
    let at = image.header().undo_at();
    let content = image.header().data_at();
    image.begin(Domain::Adr).expect("room");
    drop(image);
    let file = std::fs::File::options().read(true).write(true).open(&path);
    let file = file.expect("a file of ours");
    let mut rest = data;
    while let [low, high, value, more @ ..] = rest {
        let place = usize::from(u16::from_le_bytes([*low, *high]));
        rest = more;
        if place >= PAGES {
            break;
        }
        file.write_all_at(&[*value], place as u64).expect("room");
    }
    file.write_all_at(rest, at).expect("room");
    file.write_all_at(&[5; 300], content + 100).expect("room");
    let Ok(image) = Image::open(&path, Access::Read) else {
        return;
    };
    let mut before = vec![0; LEN as usize];
    image.read(0, &mut before).expect("it was opened");
    let _ = image.verify();
    drop(image);
    let image = Image::open(&path, Access::Write).expect("it could be read");
    let mut after = vec![0; LEN as usize];
    image.read(0, &mut after).expect("it was opened");
    assert!(before == after, "the undo area was put back differently");
    image.close().expect("room");
    let image = Image::open(&path, Access::Read).expect("it was closed");
    assert!(image.verify().expect("it was closed").wrong.is_empty());
}

/// An undo area with slots, behind no changes.
pub(crate) fn seed() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let mut image = Image::create(&path, &geometry()).expect("room");
    let mut undo = image.begin(Domain::None).expect("room");
    undo.set(128, Some(&[7; 8])).expect("room");
    undo.set_all(&[(128, Some([8; 8])), (640, Some([9; 8]))])
        .expect("room");
    undo.set(640, None).expect("room");
    let at = image.header().undo_at();
    drop((undo, image));
    let mut area = vec![0; 4 * 128];
    let file = std::fs::File::open(&path).expect("a file of ours");
    file.read_exact_at(&mut area, at).expect("slots");
    // The epoch is 1.
    let mut bytes = vec![0x10, 0x10, 1, 0xff, 0xff, 0];
    bytes.write_all(&area).expect("memory");
    bytes
}
