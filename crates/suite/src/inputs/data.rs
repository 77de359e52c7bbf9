//! Texts, pictures and sequences.

use super::random::Random;
use std::fmt::Write as _;

/// Words that a text draws from.
const WORDS: usize = 4096;
/// Pixels of a picture.
const WIDTH: usize = 176;
const HEIGHT: usize = 144;
/// Bases of a line of FASTA, and of a read.
const LINE: usize = 70;
const READ: usize = 100;
/// Bases of the genome for each read.
const PER_READ: u64 = 200;

/// Invented words, the frequent ones first and short.
fn words(r: &mut Random) -> Vec<String> {
    const CONSONANTS: &[u8] = b"bcdfghklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    let mut all = Vec::new();
    for i in 0..WORDS {
        let syllables = 1 + u64::from(i > 16) + u64::from(i > 256) * r.below(3);
        let mut word = String::new();
        for _ in 0..syllables {
            word.push(CONSONANTS[r.below(CONSONANTS.len() as u64) as usize].into());
            word.push(VOWELS[r.below(VOWELS.len() as u64) as usize].into());
            if r.below(3) == 0 {
                word.push(CONSONANTS[r.below(CONSONANTS.len() as u64) as usize].into());
            }
        }
        all.push(word);
    }
    all
}

/// A word's number: the frequency of number k is about proportional to 1 / k.
fn zipf(r: &mut Random) -> usize {
    let bits = r.below(13);
    (((1 << bits) - 1 + r.below(1 << bits)) as usize).min(WORDS - 1)
}

/// About `bytes` of text, in lines.
pub fn text(bytes: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let words = words(&mut r);
    let mut out = String::new();
    let mut column = 0;
    while (out.len() as u64) < bytes {
        let word = &words[zipf(&mut r)];
        out.push_str(word);
        column += word.len() + 1;
        let end = if r.below(12) == 0 { "." } else { "" };
        out.push_str(end);
        out.push(if column > 70 { '\n' } else { ' ' });
        column *= usize::from(column <= 70);
    }
    out.push('\n');
    out.into_bytes()
}

/// Records of a shop, nested, with attributes.
pub fn xml(records: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let words = words(&mut r);
    let mut out = String::from("<?xml version=\"1.0\"?>\n<shop>\n");
    for i in 0..records {
        let (kind, price) = (&words[r.below(24) as usize], 100 + r.below(100_000));
        let _ = write!(
            out,
            "<item id=\"i{i}\" kind=\"{kind}\"><price>{}.{:02}</price><name>",
            price / 100,
            price % 100
        );
        for _ in 0..2 + r.below(6) {
            let _ = write!(out, "{} ", words[zipf(&mut r)]);
        }
        out.push_str("</name><tags>");
        for _ in 0..r.below(5) {
            let _ = write!(
                out,
                "<tag weight=\"{}\">{}</tag>",
                r.below(100),
                words[zipf(&mut r)]
            );
        }
        let _ = writeln!(out, "</tags><stock>{}</stock></item>", r.below(500));
    }
    out.push_str("</shop>\n");
    out.into_bytes()
}

/// Pictures of squares that move over a gradient, with noise.
pub fn video(pictures: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let mut out = format!("YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    let shapes: Vec<[u64; 6]> = (0..12)
        .map(|_| {
            let (x, y) = (r.below(WIDTH as u64), r.below(HEIGHT as u64));
            [
                x,
                y,
                1 + r.below(4),
                1 + r.below(3),
                8 + r.below(32),
                r.below(256),
            ]
        })
        .collect();
    for n in 0..pictures {
        out.extend(b"FRAME\n");
        for y in 0..HEIGHT as u64 {
            for x in 0..WIDTH as u64 {
                let inside = |s: &&[u64; 6]| {
                    let (sx, sy) = (
                        (s[0] + n * s[2]) % WIDTH as u64,
                        (s[1] + n * s[3]) % HEIGHT as u64,
                    );
                    x.wrapping_sub(sx) < s[4] && y.wrapping_sub(sy) < s[4]
                };
                let base = shapes.iter().find(inside).map_or((x + y) / 2, |s| s[5]);
                out.push((base + r.below(6)).min(255) as u8);
            }
        }
        for plane in 0..2 {
            for y in 0..HEIGHT / 2 {
                out.extend((0..WIDTH / 2).map(|x| (96 + (x + y * (plane + 1)) % 64) as u8));
            }
        }
    }
    out
}

/// Bases with repeats, as genomes have them.
fn bases(n: usize, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let mut all: Vec<u8> = Vec::with_capacity(n);
    while all.len() < n {
        // A part is new, or a copy of an earlier one with changes.
        let length = 200 + r.below(800) as usize;
        if all.len() > 4000 && r.below(4) == 0 {
            let from = r.below((all.len() - 1000) as u64) as usize;
            for i in from..from + length {
                let base = if r.below(20) == 0 {
                    b"ACGT"[r.below(4) as usize]
                } else {
                    all[i]
                };
                all.push(base);
            }
        } else {
            all.extend((0..length).map(|_| b"ACGT"[r.below(4) as usize]))
        }
    }
    all.truncate(n);
    all
}

/// A genome as FASTA.
pub fn genome(n: u64, seed: u64) -> Vec<u8> {
    let mut out = b">seeded\n".to_vec();
    for line in bases(n as usize, seed).chunks(LINE) {
        out.extend(line);
        out.push(b'\n');
    }
    out
}

/// Reads of that genome with errors, as FASTQ, half of them from the other strand.
pub fn reads(n: u64, seed: u64) -> Vec<u8> {
    let all = bases((n * PER_READ) as usize, seed);
    let mut r = Random::new(!seed);
    let mut out = Vec::new();
    for i in 0..n {
        let from = r.below((all.len() - READ) as u64) as usize;
        let mut read = all[from..from + READ].to_vec();
        if r.below(2) == 0 {
            read.reverse();
            for b in &mut read {
                *b = match b {
                    b'A' => b'T',
                    b'C' => b'G',
                    b'G' => b'C',
                    _ => b'A',
                };
            }
        }
        for b in &mut read {
            if r.below(50) == 0 {
                *b = b"ACGT"[r.below(4) as usize];
            }
        }
        out.extend(format!("@r{i}\n").bytes());
        out.extend(read);
        out.extend(b"\n+\n");
        out.extend([b'I'; READ]);
        out.push(b'\n');
    }
    out
}

/// Keys and values as `mdb_load -T` reads them, in no order.
pub fn pairs(n: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let mut out =
        String::from("VERSION=3\nformat=print\ntype=btree\nmapsize=268435456\nHEADER=END\n");
    for _ in 0..n {
        let _ = write!(out, " {:016x}\n ", r.next());
        for _ in 0..4 {
            let _ = write!(out, "{:016x}", r.next());
        }
        out.push('\n');
    }
    out.push_str("DATA=END\n");
    out.into_bytes()
}
