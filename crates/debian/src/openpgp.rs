//! OpenPGP's keys and signatures (RFC 9580), as far as Debian's archive uses them: keys of version 4 for RSA and
//! Ed25519, signatures with SHA-2. Everything else is not accepted; nothing is decrypted, and nothing is signed.
//!
//! The arithmetic is that of `ring`. The complete implementations of OpenPGP for Rust take longer to compile than the
//! rest of this crate, for ciphers that no archive uses.

use crate::cleartext;
use crate::error::Error;
use ring::digest::{digest, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use ring::signature::{
    RsaPublicKeyComponents, UnparsedPublicKey, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
};

/// Kinds of signatures.
mod kind {
    pub const TEXT: u8 = 0x01;
    pub const CERTIFICATIONS: std::ops::RangeInclusive<u8> = 0x10..=0x13;
    pub const SUBKEY: u8 = 0x18;
    pub const BACK: u8 = 0x19;
    pub const DIRECT: u8 = 0x1f;
    pub const KEY_REVOKED: u8 = 0x20;
    pub const SUBKEY_REVOKED: u8 = 0x28;
}

/// Kinds of packets.
mod tag {
    pub const SIGNATURE: u8 = 2;
    pub const KEY: u8 = 6;
    pub const USER: u8 = 13;
    pub const SUBKEY: u8 = 14;
}

/// Algorithms of keys.
mod algorithm {
    pub const RSA: [u8; 2] = [1, 3];
    pub const EDDSA: u8 = 22;
    pub const ED25519: u8 = 27;
}

/// The object identifier of Ed25519 in keys for [`algorithm::EDDSA`].
const CURVE: [u8; 9] = [0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1];
/// The flag of a key that may sign data.
const MAY_SIGN: u8 = 2;
/// By how many seconds the clocks of a signer and of this host may differ.
const SKEW: u64 = 86_400;

/// Keys by which signatures are accepted.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: Vec<Key>,
}

/// A key that may sign data.
#[derive(Debug, Clone)]
struct Key {
    material: Material,
    fingerprint: [u8; 20],
    /// Seconds since 1970.
    created: u64,
    expires: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Ed25519([u8; 32]),
}

/// A key packet.
#[derive(Debug, Clone)]
struct KeyPacket<'a> {
    body: &'a [u8],
    created: u64,
    material: Material,
    fingerprint: [u8; 20],
}

impl Keyring {
    /// Adds the keys of a file, binary or in ASCII armor. Keys that cannot be used are left out.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let bytes = cleartext::keys(bytes)?;
        let packets = packets(&bytes)?;
        let mut rest = packets.as_slice();
        while let Some(first) = rest.iter().position(|p| p.0 == tag::KEY) {
            rest = &rest[first..];
            let end = rest[1..].iter().position(|p| p.0 == tag::KEY);
            let (certificate, more) = rest.split_at(end.map_or(rest.len(), |e| e + 1));
            self.extend(Keyring {
                keys: certificate_keys(certificate),
            });
            rest = more;
        }
        Ok(())
    }

    /// Adds the keys of another keyring; those that are here already stay as they are.
    pub fn extend(&mut self, other: Keyring) {
        for key in other.keys {
            if !self.keys.iter().any(|k| k.fingerprint == key.fingerprint) {
                self.keys.push(key);
            }
        }
    }

    /// Whether there is no key that may sign.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The text of a file signed in the clear, if one of the keys has made one of its signatures. `now` is in seconds
    /// since 1970; `what` names the file in errors.
    pub fn verify(&self, bytes: &[u8], now: u64, what: &str) -> Result<String, Error> {
        let wrong = |why: String| Error::Signature {
            what: what.to_string(),
            why,
        };
        let signed = cleartext::parse(bytes).map_err(&wrong)?;
        let mut reasons = Vec::new();
        for (kind, body) in packets(&signed.signatures).map_err(&wrong)? {
            if kind != tag::SIGNATURE {
                continue;
            }
            match self.check(body, &signed.covered, now) {
                Ok(()) => return Ok(signed.text),
                Err(why) => reasons.push(why),
            }
        }
        if reasons.is_empty() {
            reasons.push("it holds none".into());
        }
        Err(wrong(reasons.join("; ")))
    }

    fn check(&self, body: &[u8], covered: &[u8], now: u64) -> Result<(), String> {
        let signature = Signature::parse(body)?;
        if signature.kind != kind::TEXT {
            return Err("a signature is not one of a text".into());
        }
        let issuer = signature.issuer.ok_or("a signature names no key")?;
        let found = self.keys.iter().find(|k| issuer.is(&k.fingerprint));
        let key = found.ok_or_else(|| {
            format!(
                "the key {} is not in the keyring (a newer one is in Debian's package debian-archive-keyring)",
                issuer.text()
            )
        })?;
        let name = hex(&key.fingerprint);
        if key.expires.is_some_and(|e| e <= now) {
            return Err(format!("the key {name} has expired"));
        }
        if signature.created > now + SKEW {
            return Err(format!(
                "by the key {name} in the future: is this host's clock right?"
            ));
        }
        let too_old = key.created > signature.created;
        if too_old || signature.expires.is_some_and(|e| e <= now) {
            return Err(format!("that by the key {name} is not valid at this time"));
        }
        if signature.is_by(&key.material, covered) {
            Ok(())
        } else {
            Err(format!("it is not by the key {name}: the text was changed"))
        }
    }
}

/// The keys of a certificate that may sign data: the primary key and its subkeys, as their newest self-signatures say.
fn certificate_keys(packets: &[(u8, &[u8])]) -> Vec<Key> {
    let Some(primary) = packets.first().and_then(|p| KeyPacket::parse(p.1).ok()) else {
        return Vec::new();
    };
    let head = primary.hashed();
    let (mut direct, mut certified): (Option<Signature<'_>>, Option<Signature<'_>>) = (None, None);
    let mut found = Vec::new();
    let mut at = 1;
    while at < packets.len() {
        let (kind, body) = packets[at];
        let end = packets[at + 1..].iter().position(|p| p.0 != tag::SIGNATURE);
        let next = end.map_or(packets.len(), |e| at + 1 + e);
        // Signatures directly behind the key have no other packet before them.
        let first = if kind == tag::SIGNATURE { at } else { at + 1 };
        let signatures: Vec<Signature<'_>> = { packets[first..next].iter() }
            .filter_map(|p| Signature::parse(p.1).ok())
            .filter(|s| s.issuer.is_none_or(|i| i.is(&primary.fingerprint)))
            .collect();
        match kind {
            tag::SIGNATURE => {
                for s in signatures {
                    let valid = s.is_by(&primary.material, &head);
                    if s.kind == kind::KEY_REVOKED && valid {
                        return Vec::new();
                    }
                    if s.kind == kind::DIRECT && valid {
                        newer(&mut direct, s);
                    }
                }
            }
            tag::USER => {
                let mut data = head.clone();
                data.push(0xb4);
                data.extend((body.len() as u32).to_be_bytes());
                data.extend(body);
                for s in signatures {
                    let own = kind::CERTIFICATIONS.contains(&s.kind);
                    if own && s.is_by(&primary.material, &data) {
                        newer(&mut certified, s);
                    }
                }
            }
            tag::SUBKEY => found.extend(subkey(&primary, &head, body, signatures)),
            _ => {}
        }
        at = next;
    }
    // Without a self-signature nothing is known about the key. A direct-key signature may say no more than who may
    // revoke the key.
    let own: Vec<Signature<'_>> = [certified, direct].into_iter().flatten().collect();
    if own.is_empty() {
        return Vec::new();
    }
    let expires = own
        .iter()
        .filter_map(|s| s.key_expires(primary.created))
        .min();
    // What the primary key certifies is worth as much as itself.
    for key in &mut found {
        key.expires = [key.expires, expires].into_iter().flatten().min();
    }
    let flags = own.iter().find_map(|s| s.flags);
    if flags.is_none_or(|f| f & MAY_SIGN != 0) {
        found.push(primary.key(expires));
    }
    found
}

fn newer<'a>(newest: &mut Option<Signature<'a>>, s: Signature<'a>) {
    if newest.as_ref().is_none_or(|n| n.created <= s.created) {
        *newest = Some(s);
    }
}

/// A subkey that may sign, if the primary key says so, and the subkey that it belongs to it.
fn subkey(
    primary: &KeyPacket<'_>,
    head: &[u8],
    body: &[u8],
    signatures: Vec<Signature<'_>>,
) -> Option<Key> {
    let key = KeyPacket::parse(body).ok()?;
    let data = [head, &key.hashed()].concat();
    let mut newest = None;
    for s in signatures {
        if !s.is_by(&primary.material, &data) {
            continue;
        }
        match s.kind {
            kind::SUBKEY_REVOKED => return None,
            kind::SUBKEY => newer(&mut newest, s),
            _ => {}
        }
    }
    let binding = newest?;
    let back = binding.embedded.and_then(|b| Signature::parse(b).ok());
    let bound = back.is_some_and(|b| b.kind == kind::BACK && b.is_by(&key.material, &data));
    let signs = binding.flags.is_some_and(|f| f & MAY_SIGN != 0);
    (bound && signs).then(|| key.key(binding.key_expires(key.created)))
}

impl<'a> KeyPacket<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, &'static str> {
        let mut r = Reader(body);
        if r.byte()? != 4 {
            return Err("a key of another version");
        }
        let created = u64::from(r.u32()?);
        let material = match r.byte()? {
            a if algorithm::RSA.contains(&a) => Material::Rsa {
                modulus: r.mpi()?.to_vec(),
                exponent: r.mpi()?.to_vec(),
            },
            algorithm::EDDSA => {
                let length = usize::from(r.byte()?);
                if r.take(length)? != CURVE {
                    return Err("a key on another curve");
                }
                let point = r
                    .mpi()?
                    .strip_prefix(&[0x40])
                    .ok_or("a point of another form")?;
                Material::Ed25519(point.try_into().map_err(|_| "a point of another length")?)
            }
            algorithm::ED25519 => {
                Material::Ed25519(r.take(32)?.try_into().map_err(|_| "no point")?)
            }
            _ => return Err("a key for another algorithm"),
        };
        let mut packet = KeyPacket {
            body,
            created,
            material,
            fingerprint: [0; 20],
        };
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &packet.hashed());
        packet.fingerprint.copy_from_slice(hash.as_ref());
        Ok(packet)
    }

    /// What a signature of the key covers.
    fn hashed(&self) -> Vec<u8> {
        let mut data = vec![0x99];
        data.extend((self.body.len() as u16).to_be_bytes());
        data.extend(self.body);
        data
    }

    fn key(&self, expires: Option<u64>) -> Key {
        Key {
            material: self.material.clone(),
            fingerprint: self.fingerprint,
            created: self.created,
            expires,
        }
    }
}

/// Who has made a signature.
#[derive(Debug, Clone, Copy)]
enum Issuer {
    Id([u8; 8]),
    Fingerprint([u8; 20]),
}

impl Issuer {
    fn is(self, fingerprint: &[u8; 20]) -> bool {
        match self {
            Issuer::Id(id) => fingerprint[12..] == id,
            Issuer::Fingerprint(f) => f == *fingerprint,
        }
    }

    fn text(self) -> String {
        match self {
            Issuer::Id(id) => hex(&id),
            Issuer::Fingerprint(f) => hex(&f),
        }
    }
}

/// A signature packet of version 4.
#[derive(Debug, Clone)]
struct Signature<'a> {
    kind: u8,
    algorithm: u8,
    hash: u8,
    /// From the version to the end of what is hashed.
    hashed: &'a [u8],
    /// The numbers of the algorithm.
    numbers: &'a [u8],
    created: u64,
    expires: Option<u64>,
    /// Seconds from the key's creation on.
    key_lifetime: Option<u64>,
    issuer: Option<Issuer>,
    flags: Option<u8>,
    embedded: Option<&'a [u8]>,
}

impl<'a> Signature<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, String> {
        let mut r = Reader(body);
        if r.byte()? != 4 {
            return Err("a signature is of another version".into());
        }
        let (kind, algorithm, hash) = (r.byte()?, r.byte()?, r.byte()?);
        let length = usize::from(r.u16()?);
        let inner = r.take(length)?;
        let hashed = &body[..6 + length];
        let length = usize::from(r.u16()?);
        let outer = r.take(length)?;
        r.take(2)?;
        let mut s = Signature {
            kind,
            algorithm,
            hash,
            hashed,
            numbers: r.0,
            created: 0,
            expires: None,
            key_lifetime: None,
            issuer: None,
            flags: None,
            embedded: None,
        };
        let mut timed = false;
        let mut lifetime = None;
        for (part, protected) in [(inner, true), (outer, false)] {
            let mut r = Reader(part);
            while !r.0.is_empty() {
                let length = r.length()?;
                let mut sub = Reader(r.take(length)?);
                let byte = sub.byte()?;
                match (byte & 0x7f, protected) {
                    (2, true) => {
                        s.created = u64::from(sub.u32()?);
                        timed = true;
                    }
                    (3, true) => lifetime = Some(u64::from(sub.u32()?)),
                    (9, true) => s.key_lifetime = Some(u64::from(sub.u32()?)),
                    (27, true) => s.flags = sub.0.first().copied(),
                    // These prove themselves.
                    (16, _) if s.issuer.is_none() => {
                        let id = sub.0.try_into().map_err(|_| "a key's name is too short")?;
                        s.issuer = Some(Issuer::Id(id));
                    }
                    (33, _) => {
                        // A fingerprint of another version is of a key that is not here.
                        let version = sub.byte()?;
                        if version == 4 {
                            let f = sub.0.try_into().map_err(|_| "a fingerprint is too short")?;
                            s.issuer = Some(Issuer::Fingerprint(f));
                        }
                    }
                    (32, _) => s.embedded = Some(sub.0),
                    // Known, and without a meaning here.
                    (4..=7 | 11 | 12 | 16 | 21..=26 | 28..=31 | 34 | 35, _) => {}
                    (_, true) if byte & 0x80 != 0 => {
                        return Err(format!(
                            "a signature depends on the unknown subpacket {}",
                            byte & 0x7f
                        ))
                    }
                    _ => {}
                }
            }
        }
        if !timed {
            return Err("a signature has no time".into());
        }
        // Zero means never.
        s.expires = lifetime.filter(|l| *l > 0).map(|l| s.created + l);
        Ok(s)
    }

    fn key_expires(&self, created: u64) -> Option<u64> {
        self.key_lifetime.filter(|l| *l > 0).map(|l| created + l)
    }

    /// Whether the signature of `data` is by this key.
    fn is_by(&self, key: &Material, data: &[u8]) -> bool {
        let mut data = data.to_vec();
        data.extend(self.hashed);
        data.extend([4, 0xff]);
        data.extend((self.hashed.len() as u32).to_be_bytes());
        self.numbers_are_by(key, &data).unwrap_or(false)
    }

    fn numbers_are_by(&self, key: &Material, data: &[u8]) -> Result<bool, &'static str> {
        let mut r = Reader(self.numbers);
        match key {
            Material::Rsa { modulus, exponent } if algorithm::RSA.contains(&self.algorithm) => {
                let hash = match self.hash {
                    8 => &RSA_PKCS1_2048_8192_SHA256,
                    9 => &RSA_PKCS1_2048_8192_SHA384,
                    10 => &RSA_PKCS1_2048_8192_SHA512,
                    _ => return Err("another hash"),
                };
                let number = padded(r.mpi()?, modulus.len())?;
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                Ok(key.verify(hash, data, &number).is_ok())
            }
            Material::Ed25519(point) => {
                let number = match self.algorithm {
                    algorithm::EDDSA => [padded(r.mpi()?, 32)?, padded(r.mpi()?, 32)?].concat(),
                    algorithm::ED25519 => r.take(64)?.to_vec(),
                    _ => return Err("another algorithm"),
                };
                let hash: &'static Algorithm = match self.hash {
                    8 => &SHA256,
                    9 => &SHA384,
                    10 => &SHA512,
                    _ => return Err("another hash"),
                };
                let hash = digest(hash, data);
                let key = UnparsedPublicKey::new(&ED25519, point);
                Ok(key.verify(hash.as_ref(), &number).is_ok())
            }
            Material::Rsa { .. } => Err("another algorithm"),
        }
    }
}

/// With zeros before it, which numbers in packets lack.
fn padded(number: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
    let missing = length
        .checked_sub(number.len())
        .ok_or("a number is too long")?;
    Ok([&vec![0; missing], number].concat())
}

/// Packets as (tag, body).
fn packets(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, String> {
    let mut r = Reader(bytes);
    let mut found = Vec::new();
    while !r.0.is_empty() {
        let head = r.byte()?;
        if head & 0x80 == 0 {
            return Err("it is no sequence of OpenPGP packets".into());
        }
        let (tag, length) = if head & 0x40 == 0 {
            let length = match head & 3 {
                0 => usize::from(r.byte()?),
                1 => usize::from(r.u16()?),
                2 => r.u32()? as usize,
                _ => return Err("a packet has no length".into()),
            };
            ((head >> 2) & 15, length)
        } else {
            (head & 0x3f, r.length()?)
        };
        found.push((tag, r.take(length)?));
    }
    Ok(found)
}

/// The rest of a packet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        if length > self.0.len() {
            return Err("a packet is cut off");
        }
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        let b = self.take(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        let b = self.take(4)?;
        Ok(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A length as new packets and subpackets have it.
    fn length(&mut self) -> Result<usize, &'static str> {
        match self.byte()? {
            255 => Ok(self.u32()? as usize),
            a @ 192..=223 => Ok((usize::from(a) - 192) * 256 + usize::from(self.byte()?) + 192),
            // For subpackets these are two bytes as well; none is that long.
            224..=254 => Err("a packet is in parts"),
            a => Ok(usize::from(a)),
        }
    }

    /// A number, without the zeros before it.
    fn mpi(&mut self) -> Result<&'a [u8], &'static str> {
        let bits = usize::from(self.u16()?);
        let bytes = self.take(bits.div_ceil(8))?;
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        Ok(&bytes[zeros..])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

#[cfg(test)]
#[path = "openpgp_tests.rs"]
mod tests;
