use super::*;
use crate::testing::{packet, subpacket, Signer, CREATED};
use proptest::prelude::*;

const NOW: u64 = CREATED as u64 + 1000;

fn ring_of(certificate: &[u8]) -> Keyring {
    let mut ring = Keyring::default();
    ring.add(certificate).unwrap();
    ring
}

#[test]
fn a_signed_text() {
    let signer = Signer::new(1);
    let ring = ring_of(&signer.certificate());
    let text = signer.clear("Suite: x\n-dash\n", CREATED + 10);
    assert_eq!(
        ring.verify(text.as_bytes(), NOW, "r").unwrap(),
        "Suite: x\n-dash\n"
    );
    // White space at the ends of lines is not signed, and not passed on.
    let spaced = text.replace("Suite: x\n", "Suite: x \t\r\n");
    assert_eq!(
        ring.verify(spaced.as_bytes(), NOW, "r").unwrap(),
        "Suite: x\n-dash\n"
    );

    let e = |ring: &Keyring, text: &str, now| {
        ring.verify(text.as_bytes(), now, "r")
            .unwrap_err()
            .to_string()
    };
    let changed = text.replace("Suite: x", "Suite: y");
    assert!(e(&ring, &changed, NOW).contains("the text was changed"));
    let other = Signer::new(2);
    let unknown = e(&ring_of(&other.certificate()), &text, NOW);
    assert!(unknown.contains("is not in the keyring"), "{unknown}");
    assert!(e(&ring, &signer.clear("a\n", CREATED - 10), NOW).contains("not valid at this time"));
    let future = e(&ring, &signer.clear("a\n", CREATED + 200_000), NOW);
    assert!(future.contains("in the future"), "{future}");
}

#[test]
fn keys_that_may_not_sign() {
    let signer = Signer::new(1);
    let with = |flags: u8, lifetime: u32| {
        let s = Signer {
            flags,
            lifetime,
            ..Signer::new(1)
        };
        ring_of(&s.certificate())
    };
    assert!(with(1, 0).is_empty(), "it only certifies");
    let text = signer.clear("a\n", CREATED + 10);
    let verify = |ring: &Keyring, now| ring.verify(text.as_bytes(), now, "r");
    let short = with(3, 2000);
    verify(&short, NOW).unwrap();
    let e = verify(&short, NOW + 2000).unwrap_err().to_string();
    assert!(e.contains("has expired"), "{e}");

    // Without a self-signature, or with a damaged one, or revoked.
    let bare = [packet(6, &signer.body), packet(13, b"test")].concat();
    assert!(ring_of(&bare).is_empty());
    let renamed = [
        packet(6, &signer.body),
        packet(13, b"tess"),
        packet(2, &signer.self_signature()),
    ];
    assert!(ring_of(&renamed.concat()).is_empty());
    let revocation = signer.sign(0x20, CREATED + 5, &[], &signer.hashed_key());
    let whole = signer.certificate();
    let key = packet(6, &signer.body).len();
    let revoked = [&whole[..key], &packet(2, &revocation), &whole[key..]].concat();
    assert!(ring_of(&revoked).is_empty());
    // Somebody else's revocation does not count.
    let foreign = Signer::new(2).sign(0x20, CREATED + 5, &[], &signer.hashed_key());
    let kept = [&whole[..key], &packet(2, &foreign), &whole[key..]].concat();
    assert!(!ring_of(&kept).is_empty());
}

#[test]
fn subkeys_belong_to_both() {
    let primary = Signer {
        flags: 1,
        ..Signer::new(1)
    };
    let sub = Signer::new(2);
    let data = [primary.hashed_key(), sub.hashed_key()].concat();
    let back = sub.sign(0x19, CREATED, &[], &data);
    let ring = |flags: u8, back: &[u8], kind: u8| {
        let more = [subpacket(27, &[flags]), subpacket(32, back)].concat();
        let binding = primary.sign(kind, CREATED, &more, &data);
        let parts = [
            primary.certificate(),
            packet(14, &sub.body),
            packet(2, &binding),
        ];
        ring_of(&parts.concat())
    };
    let text = sub.clear("a\n", CREATED + 10);
    ring(2, &back, 0x18)
        .verify(text.as_bytes(), NOW, "r")
        .unwrap();
    let stolen = primary.sign(0x19, CREATED, &[], &data);
    for (flags, back, kind) in [(12, &back, 0x18), (2, &stolen, 0x18), (2, &back, 0x28)] {
        assert!(ring(flags, back, kind).is_empty());
    }
}

#[test]
fn a_critical_subpacket_that_is_unknown() {
    let signer = Signer::new(1);
    let body = signer.sign(1, CREATED, &subpacket(0x80 | 60, &[1]), b"a");
    let e = Signature::parse(&body).unwrap_err();
    assert!(e.contains("unknown subpacket 60"), "{e}");
    let body = signer.sign(1, CREATED, &subpacket(60, &[1]), b"a");
    assert!(Signature::parse(&body).is_ok());
}

/// Debian's own keys.
#[test]
fn keys_of_the_archive() {
    let ring = crate::keys::embedded();
    let names: Vec<String> = ring
        .keys
        .iter()
        .map(|k| hex(&k.fingerprint[12..]))
        .collect();
    // The keys of Debian 12 and 13: of the archive by RSA, of the releases by Ed25519.
    for name in [
        "6ED0E7B82643E131",
        "78DBA3BC47EF2265",
        "F8D2585B8783D481",
        "762F67A0B2C39DE4",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    assert!(ring.keys.iter().all(|k| k.expires.is_some()));
}

proptest! {
    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = packets(&bytes);
        let _ = (Signature::parse(&bytes).is_ok(), KeyPacket::parse(&bytes).is_ok());
        let _ = Keyring::default().add(&[&[0x99][..], &bytes].concat());
    }

    /// No change of one byte of a signed text or of its signature is accepted.
    #[test]
    fn damage_is_noticed(at in any::<prop::sample::Index>(), change in 1u8..=255) {
        let signer = Signer::new(1);
        let ring = ring_of(&signer.certificate());
        let body = signer.sign(1, CREATED + 10, &[], b"a text");
        let mut damaged = body.clone();
        let i = at.index(damaged.len());
        damaged[i] ^= change;
        if let Ok(()) = ring.check(&damaged, b"a text", NOW) {
            // What is not hashed: the first bytes of the hash, and how many bits the numbers have.
            let numbers = Signature::parse(&body).unwrap().numbers.len();
            prop_assert!(i >= body.len() - numbers - 4, "byte {i}");
        }
    }

    #[test]
    fn damaged_certificates_do_not_panic(at in any::<prop::sample::Index>(), change in 1u8..=255) {
        let mut bytes = Signer::new(1).certificate();
        let i = at.index(bytes.len());
        bytes[i] ^= change;
        let _ = Keyring::default().add(&bytes);
    }
}
