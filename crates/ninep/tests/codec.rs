//! Encoding and decoding: every message, whole, truncated, lengthened and with wrong lengths.

use nagori_ninep::message::{Header, HEADER};
use nagori_ninep::wire::{Bytes, Names, Qid, Qids, Text};
use nagori_ninep::{Reply, Request, WireError};
use proptest::prelude::*;

/// A message of a type from the table, with its fields filled from `seed` by its own decoder: bytes
/// are appended until they decode.
fn body(seed: &[u8], accepts: impl Fn(&[u8]) -> Result<(), WireError>, kind: u8) -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, kind, 1, 2];
    let mut seed = seed.iter().copied().chain(std::iter::repeat(0));
    loop {
        let size = message.len() as u32;
        message[..4].copy_from_slice(&size.to_le_bytes());
        match accepts(&message) {
            Ok(()) => return message,
            // Names and strings of any length, but not of 64 KiB.
            Err(WireError::Short) if message.len() < 4096 => message.extend(seed.next()),
            Err(WireError::Short | WireError::Names(_)) => {
                // Too long: once more, from zeros.
                message.truncate(HEADER);
                seed = [].iter().copied().chain(std::iter::repeat(0));
                message.push(0);
            }
            Err(e) => panic!("{kind}: {e}"),
        }
    }
}

fn small() -> impl Strategy<Value = Vec<u8>> {
    // Mostly small bytes, so that lengths are short.
    prop::collection::vec(
        prop_oneof![3 => 0u8..3, 1 => any::<u8>(), 3 => Just(0u8)],
        0..200,
    )
}

proptest! {
    #[test]
    fn every_request_is_itself_again(seed in small()) {
        for &(kind, name) in Request::TABLE {
            let message = body(&seed, |m| Request::decode(m).map(drop), kind);
            let (tag, decoded) = Request::decode(&message).unwrap();
            prop_assert_eq!(decoded.kind(), kind);
            let mut again = Vec::new();
            decoded.encode(tag, &mut again);
            prop_assert_eq!(&again, &message, "{}", name);
            // Cut anywhere, it is refused, with the old size and with the right one.
            for cut in 0..message.len() {
                let mut short = message[..cut].to_vec();
                prop_assert!(Request::decode(&short).is_err());
                if cut >= HEADER {
                    short[..4].copy_from_slice(&(cut as u32).to_le_bytes());
                    prop_assert_eq!(Request::decode(&short), Err(WireError::Short), "{} at {}", name, cut);
                }
            }
            let mut long = message.clone();
            long.push(0);
            let lies = matches!(Request::decode(&long), Err(WireError::Size { .. }));
            prop_assert!(lies);
            long[..4].copy_from_slice(&(message.len() as u32 + 1).to_le_bytes());
            prop_assert_eq!(Request::decode(&long), Err(WireError::Trailing(1)));
        }
    }

    #[test]
    fn every_reply_is_itself_again(seed in small()) {
        for &(kind, name) in Reply::TABLE {
            let message = body(&seed, |m| Reply::decode(m).map(drop), kind);
            let (tag, decoded) = Reply::decode(&message).unwrap();
            let mut again = Vec::new();
            decoded.encode(tag, &mut again);
            prop_assert_eq!(&again, &message, "{}", name);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_encoded_again(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0u8..=130,
    ) {
        let _ = Request::decode(&bytes);
        if bytes.len() >= HEADER {
            let size = bytes.len() as u32;
            bytes[..4].copy_from_slice(&size.to_le_bytes());
            bytes[4] = kind;
            if let Ok((tag, request)) = Request::decode(&bytes) {
                let mut again = Vec::new();
                request.encode(tag, &mut again);
                prop_assert_eq!(again, bytes);
            } else {
                let _ = Reply::decode(&bytes);
            }
        }
    }
}

#[test]
fn messages_lie_as_linux_has_them() {
    // `ddd` and `dqd`, `dssg` and so on of net/9p/client.c; written out for the ones with most kinds of fields.
    let mut to = Vec::new();
    Request::Walk {
        fid: 1,
        newfid: 0x0203_0405,
        names: Names(vec![Text(b"a"), Text(b"bc")]),
    }
    .encode(0x1234, &mut to);
    #[rustfmt::skip]
    assert_eq!(to, [
        24, 0, 0, 0, 110, 0x34, 0x12, 1, 0, 0, 0, 5, 4, 3, 2, 2, 0, 1, 0, b'a', 2, 0, b'b', b'c',
    ]);
    Request::Write {
        fid: 9,
        offset: 1 << 40,
        data: Bytes(b"xyz"),
    }
    .encode(1, &mut to);
    #[rustfmt::skip]
    assert_eq!(to, [
        26, 0, 0, 0, 118, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, b'x', b'y', b'z',
    ]);
    let qid = Qid {
        kind: 0x80,
        version: 2,
        path: 3,
    };
    Reply::Walk {
        qids: Qids(vec![qid]),
    }
    .encode(5, &mut to);
    #[rustfmt::skip]
    assert_eq!(to, [
        22, 0, 0, 0, 111, 5, 0, 1, 0, 0x80, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    ]);
    // Sizes of the ones without strings: Tgetattr, Tsetattr, Rgetattr, Rstatfs.
    let size = |kind: u8, decode: &dyn Fn(&[u8]) -> Result<(), WireError>| {
        (HEADER..300)
            .find(|&n| {
                let mut m = vec![0; n];
                m[..4].copy_from_slice(&(n as u32).to_le_bytes());
                m[4] = kind;
                decode(&m).is_ok()
            })
            .unwrap()
    };
    let request = |m: &[u8]| Request::decode(m).map(drop);
    let reply = |m: &[u8]| Reply::decode(m).map(drop);
    assert_eq!(size(24, &request), HEADER + 12);
    assert_eq!(size(26, &request), HEADER + 60);
    assert_eq!(size(25, &reply), HEADER + 153);
    assert_eq!(size(9, &reply), HEADER + 60);
}

#[test]
fn lengths_that_lie_are_refused() {
    // A walk of 17 names, and of 65535.
    for count in [17u16, u16::MAX] {
        let mut m = vec![0, 0, 0, 0, 110, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        m.extend(count.to_le_bytes());
        m.extend([0; 200]);
        let size = m.len() as u32;
        m[..4].copy_from_slice(&size.to_le_bytes());
        assert_eq!(Request::decode(&m), Err(WireError::Names(count)));
    }
    // A write of 4 GiB in a small message.
    let mut m = vec![27, 0, 0, 0, 118, 0, 0];
    m.extend([0; 12]);
    m.extend(u32::MAX.to_le_bytes());
    m.extend([0; 4]);
    assert_eq!(Request::decode(&m), Err(WireError::Short));
    // Sizes smaller than the header, and none.
    for said in [0u32, 3, 6, 8, u32::MAX] {
        let mut m = vec![0, 0, 0, 0, 120, 0, 0];
        m[..4].copy_from_slice(&said.to_le_bytes());
        assert_eq!(Request::decode(&m), Err(WireError::Size { said, there: 7 }));
    }
    assert_eq!(Header::of(&[1, 2, 3]), Err(WireError::Short));
    // Types of older dialects, and of replies.
    for kind in [0u8, 6, 7, 99, 106, 112, 114, 117, 124, 126, 255] {
        let m = [7, 0, 0, 0, kind, 0, 0];
        assert_eq!(Request::decode(&m), Err(WireError::Type(kind)));
    }
}
