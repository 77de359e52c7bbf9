use super::frame::{hex, packet};
use super::toy::{packets, Toy, BASE, MOST, SMALL};
use super::*;
use proptest::prelude::*;

struct Session {
    stub: Stub,
    toy: Toy,
}

impl Session {
    fn new(harts: usize) -> Session {
        Session {
            stub: Stub::new(0),
            toy: Toy::new(harts),
        }
    }

    /// Sends bytes; the packets that come back.
    fn raw(&mut self, bytes: &[u8]) -> Vec<String> {
        self.stub.take(bytes, &mut self.toy);
        self.output()
    }

    fn output(&mut self) -> Vec<String> {
        let out = std::mem::take(self.stub.output());
        let all = packets(&out).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&out)));
        let text = |p: &Vec<u8>| String::from_utf8_lossy(p).into_owned();
        all.iter().map(text).collect()
    }

    /// Sends a packet, which is answered by one.
    fn ask(&mut self, content: &str) -> String {
        let mut all = self.raw(&packet(content.as_bytes()));
        assert_eq!(all.len(), 1, "{content}: {all:?}");
        all.remove(0)
    }

    /// Sends a packet that makes the machine run.
    fn go(&mut self, content: &str) {
        assert_eq!(
            self.raw(&packet(content.as_bytes())),
            Vec::<String>::new(),
            "{content}"
        );
        assert!(self.stub.is_running(), "{content}");
    }

    fn halt(&mut self, why: Halt) -> String {
        self.stub.halted(why);
        self.output().concat()
    }
}

#[test]
fn odd_packets_are_refused_and_change_nothing() {
    let mut s = Session::new(2);
    let (points, memory) = (s.toy.points.clone(), s.toy.memory.clone());
    let long = format!("M80000100,4:{}", "0".repeat(10));
    let general = "0".repeat(33 * 16);
    let (short, more) = (format!("G{}", &general[2..]), format!("G{general}00"));
    for odd in [
        "Hg-1",
        "Hgp-1.-1",
        "Hg3",
        "Hgp2.1",
        "Hg",
        "H",
        "Hx1",
        "Hgp1.",
        "Hc9",
        "T0",
        "T-1",
        "T3",
        "T",
        "Tp1.ffffffffffffffffff",
        "vCont",
        "vCont;",
        "vCont;t",
        "vCont;s:0",
        "vCont;s:",
        "vCont;s:9",
        "vCont;c:9",
        "vCont;s:p2.1",
        "vCont;s:1;",
        "vCont;r80000000",
        "vCont;r9,8:1",
        "vCont;rzz,4:1",
        "vCont;S:1",
        "vCont;Szz:1",
        "vCont;x",
        "vCont;c;;c",
        "mzz,4",
        "m80000000",
        "m,",
        "m80000000,",
        "m80000000,-1",
        "m80000000,4,",
        "m0,4",
        "m1ffffffffffffffff,1",
        "M80000100,4:0102",
        "M80000100,1:0102",
        "M80000100,1:0",
        "M80000100,1:zz",
        "M80000100:00",
        "M80000ffe,4:01020304",
        "M0,1:00",
        "X80000100,2:a",
        "X80000100",
        "G",
        "G00",
        &short,
        &more,
        "g1",
        "pzz",
        "p",
        "p42",
        "p100000000",
        "P",
        "P1",
        "P1=",
        "P1=00",
        "P1=000000000000000000",
        "Pffffffff=",
        "P1041=0000",
        "Z0",
        "Z0,",
        "Z0,80000000",
        "Z0,zz,2",
        "Z0,80000000,3",
        "Z0,80000000,2;X",
        "Z2,80000100",
        "Z2,80000100,0",
        "Z2,ffffffffffffffff,2",
        "z2,80000100",
        "qRcmd,zz",
        "qRcmd,0",
        "czz",
        "szz",
        "C",
        "Czz",
        "C05;",
        "D;",
        "D;2",
        "Dx",
        "?x",
        "vKill;",
        "vKill;2",
        "qThreadExtraInfo,",
        "qThreadExtraInfo,9",
        "qXfer:features:read:target.xml:0",
        "qXfer:features:read:other.xml:0,10",
        "qXfer:features:read:target.xml:fffff,10",
        "\u{fc}",
        "m\u{fc}",
        &long,
    ] {
        let answer = s.ask(odd);
        assert!(
            answer.len() == 3 && answer.starts_with('E'),
            "{odd}: {answer}"
        );
        assert!(s.stub.left().is_none() && !s.stub.is_running(), "{odd}");
    }
    assert_eq!((&s.toy.points, &s.toy.memory), (&points, &memory));
    for unknown in [
        "",
        "!",
        "Z5,0,0",
        "QNonStop:1",
        "vRun",
        "vContinue",
        "qOffsets",
        "qXfer:auxv:read::0,9",
    ] {
        assert_eq!(s.ask(unknown), "", "{unknown}");
    }
}

#[test]
fn every_stop_names_its_thread_and_selects_it() {
    let mut s = Session::new(3);
    let hart = |s: &mut Session| s.ask(&format!("p{SMALL:x}"));
    s.toy.registers[2][1] = 0x1234;
    assert_eq!(s.ask("?"), "T05thread:1;");
    s.go("vCont;c");
    assert_eq!(s.halt(Halt::Break { hart: 1, pc: BASE }), "T05thread:2;");
    assert_eq!(hart(&mut s), "01");
    // Ctrl-C: the thread is the one that is named, whatever was selected before.
    for go in [
        "c",
        "vCont;c",
        "vCont;c:p1.-1",
        "C02",
        "vCont;C02",
        "c80000000",
    ] {
        assert_eq!(s.ask("Hg3"), "OK");
        s.go(go);
        assert_eq!(s.raw(b"\x03"), ["T02thread:3;"], "{go}");
        assert_eq!((hart(&mut s), s.ask("qC")), ("02".into(), "QC3".into()));
        assert_eq!(s.ask("?"), "T02thread:3;");
    }
    assert_eq!(s.ask("p1"), "3412000000000000");
    let watch = Halt::Watch {
        hart: 0,
        kind: WatchKind::Access,
        addr: 0x8000_0010,
    };
    s.go("c");
    assert_eq!(s.halt(watch), "T05thread:1;awatch:80000010;");
    s.go("vCont;s:2");
    assert_eq!(s.halt(Halt::Step { hart: 1 }), "T05thread:2;");
    assert_eq!(hart(&mut s), "01");
    // With names of processes and reasons, once the debugger has said that it knows them.
    assert!(s
        .ask("qSupported:multiprocess+;swbreak+;hwbreak+;xmlRegisters=i386")
        .contains("PacketSize=4000"));
    assert_eq!(s.ask("Z1,80000000,4"), "OK");
    s.go("vCont;s:p1.3;c");
    assert_eq!(s.toy.steps, [(2, 0..0)]);
    assert_eq!(
        s.halt(Halt::Break { hart: 2, pc: BASE }),
        "T05thread:p1.3;hwbreak:;"
    );
    assert_eq!(s.ask("Z0,80000000,2"), "OK");
    s.go("c");
    assert_eq!(
        s.halt(Halt::Break { hart: 2, pc: BASE }),
        "T05thread:p1.3;swbreak:;"
    );
    s.go("c");
    assert_eq!(s.raw(b"\x03"), ["T02thread:p1.3;"]);
    s.go("c");
    assert_eq!(s.halt(Halt::Off(300)), "Wff;process:1");
    assert_eq!(s.halt(Halt::Over), "", "once");
}

#[test]
fn actions_are_those_of_the_first_that_is_about_a_hart() {
    let mut s = Session::new(3);
    for (packet, steps) in [
        ("vCont;c", vec![]),
        ("vCont;s", vec![(0, 0..0), (1, 0..0), (2, 0..0)]),
        ("vCont;s:2;c", vec![(1, 0..0)]),
        ("vCont;c;s:2", vec![]),
        (
            "vCont;r80000000,80000010:3;s:-1",
            vec![(0, 0..0), (1, 0..0), (2, BASE..BASE + 16)],
        ),
        ("vCont;S05:p1.1;C05:p1.-1", vec![(0, 0..0)]),
        ("s", vec![(0, 0..0)]),
    ] {
        s.go(packet);
        assert_eq!(s.toy.steps, steps, "{packet}");
        s.halt(Halt::Step { hart: 0 });
    }
    // `c` and `s` have a thread of their own, and an address.
    assert_eq!(s.ask("Hc2"), "OK");
    s.go("s80000040");
    assert_eq!((s.toy.steps[0].0, s.toy.registers[1][32]), (1, BASE + 0x40));
}

#[test]
fn a_machine_that_runs_answers_too() {
    let mut s = Session::new(1);
    s.go("c");
    for odd in [
        "g",
        "?",
        "m80000000,4",
        "c",
        "vCont;c",
        "Z0,80000000,2",
        "qSupported",
    ] {
        assert_eq!(s.ask(odd), "E04", "{odd}");
    }
    assert!(s.stub.is_running() && s.toy.points.is_empty());
    assert_eq!(s.raw(b"\x03"), ["T02thread:1;"]);
    assert_eq!(s.raw(b"\x03\x03"), Vec::<String>::new(), "it stands");
    for (end, left, answer) in [
        ("D", Left::Detached, vec!["OK"]),
        ("D;1", Left::Detached, vec!["OK"]),
        ("k", Left::Killed, vec![]),
        ("vKill;1", Left::Killed, vec!["OK"]),
    ] {
        for runs in [false, true] {
            let mut s = Session::new(1);
            if runs {
                s.go("c");
            }
            assert_eq!(s.raw(&packet(end.as_bytes())), answer);
            assert_eq!(s.stub.left(), Some(left));
            assert_eq!(s.raw(b"$g#67"), Vec::<String>::new(), "nobody is there");
        }
    }
}

#[test]
fn memory_is_read_in_pieces_and_written_whole() {
    let mut s = Session::new(1);
    let all = hex(&s.toy.memory);
    s.toy.memory = (0..=u8::MAX).cycle().take(4 * PACKET).collect();
    let piece = s.ask("m80000000,ffffffff");
    assert_eq!((piece.len(), &piece[..100]), (PACKET, &all[..100]));
    assert_eq!(s.ask("m80000000,ffffffffffffffff").len(), PACKET);
    assert_eq!(s.ask("m8000fffe,8"), "feff", "as far as memory goes");
    assert_eq!(s.ask("m80000000,0"), "");
    assert_eq!(s.ask("M80000004,2:abcd"), "OK");
    assert_eq!(s.ask("m80000003,4"), "03abcd06");
    let raw = packet(b"X80000000,4:a}\x03}\x04b");
    assert_eq!(s.raw(&raw), ["OK"]);
    assert_eq!(&s.toy.memory[..4], b"a#$b");
    assert_eq!(
        (s.ask("X80000000,0:"), s.ask("M80000000,0:")),
        ("OK".into(), "OK".into())
    );
}

#[test]
fn registers_descriptions_and_commands() {
    let mut s = Session::new(2);
    let general: String = (0..33).map(|i| format!("{i:02x}00000000000000")).collect();
    assert_eq!(s.ask(&format!("G{general}")), "OK");
    assert_eq!(
        (s.ask("g"), s.ask("p20")),
        (general, "2000000000000000".into())
    );
    assert_eq!(
        (s.ask("P2=0102030405060708"), s.ask("p2")),
        ("OK".into(), "0102030405060708".into())
    );
    assert_eq!((s.ask("Hg2"), s.ask("p2")), ("OK".into(), "0".repeat(16)));
    assert_eq!(s.ask("qfThreadInfo"), "m2,1");
    assert_eq!(s.ask("qsThreadInfo"), "l");
    assert_eq!(s.ask("qThreadExtraInfo,1"), hex(b"hart 0"));
    assert_eq!(
        (s.ask("T2"), s.ask("qAttached"), s.ask("Hg0")),
        ("OK".into(), "1".into(), "OK".into())
    );
    assert_eq!(
        s.ask("qXfer:features:read:target.xml:0,9"),
        "m<target>}\u{3}"
    );
    assert_eq!(
        s.ask("qXfer:features:read:target.xml:8,ffff"),
        "l}\u{3}}\u{4}}]}\n</target>"
    );
    assert_eq!(s.ask("qXfer:features:read:target.xml:15,1"), "l");
    let said = s.raw(&packet(format!("qRcmd,{}", hex(b"stats")).as_bytes()));
    assert_eq!(said, [format!("O{}", hex(b"stats\n")), "OK".into()]);
    assert_eq!(s.toy.said, Some((1, "stats".into())));
}

#[test]
fn places_to_stop_at_are_there_once() {
    let mut s = Session::new(1);
    for _ in 0..2 {
        for p in ["Z0,80000000,2", "Z1,80000000,4", "Z2,80000010,8"] {
            assert_eq!(s.ask(p), "OK");
        }
    }
    assert_eq!(s.toy.points.len(), 2);
    assert_eq!(
        (s.ask("z0,80000000,2"), s.toy.points.len()),
        ("OK".into(), 2)
    );
    for p in ["z1,80000000,4", "z2,80000010,8", "z2,80000010,8"] {
        assert_eq!(s.ask(p), "OK");
    }
    assert!(s.toy.points.is_empty());
    for i in 0..MOST {
        assert_eq!(s.ask(&format!("Z0,{i:x}0,2")), "OK");
    }
    assert_eq!(
        (s.ask("Z0,1000,2"), s.ask("z0,1000,2")),
        ("E03".into(), "OK".into()),
        "full"
    );
}

#[test]
fn acknowledgements_end_when_asked() {
    let mut s = Session::new(1);
    let mut sent = |bytes: &[u8]| {
        s.stub.take(bytes, &mut s.toy);
        String::from_utf8(std::mem::take(s.stub.output())).unwrap()
    };
    assert_eq!(sent(b"$qC#b4"), "+$QC1#c5");
    assert_eq!(sent(b"-"), "$QC1#c5");
    assert_eq!(sent(b"$qC#b5"), "-");
    assert_eq!(sent(&packet(b"QStartNoAckMode")), "+$OK#9a");
    assert_eq!(sent(b"+$qC#b4"), "$QC1#c5");
    assert_eq!(
        (sent(b"-"), sent(b"$qC#b5")),
        (String::new(), "$E01#a6".into())
    );
    let long = packet(&vec![b'm'; PACKET + 1]);
    assert_eq!(sent(&long), "$E01#a6");
}

/// A known packet, changed at random or not at all.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "qSupported:multiprocess+;swbreak+",
        "QStartNoAckMode",
        "?",
        "g",
        "p20",
        "P1=0000000000000000",
        "m80000000,10",
        "M80000100,2:0102",
        "X80000100,2:ab",
        "Z0,80000000,2",
        "z0,80000000,2",
        "Z2,80000100,8",
        "z2,80000100,8",
        "vCont?",
        "vCont;c",
        "vCont;s:p1.1;c:p1.-1",
        "vCont;r80000000,80000010:1",
        "c",
        "s80000000",
        "Hg1",
        "Hgp1.2",
        "Hc-1",
        "T1",
        "qC",
        "qfThreadInfo",
        "qThreadExtraInfo,p1.1",
        "qRcmd,7374617473",
        "qXfer:features:read:target.xml:0,ff",
        "qAttached",
    ]);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 0..4);
    let changed = (known, changes).prop_map(|(text, changes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, how, with) in changes {
            let at = at.index(bytes.len() + 1);
            // Digits and separators more often than other bytes.
            let with = if with < 128 {
                b"0123456789abcdef,;:-.=pz"[usize::from(with) % 24]
            } else {
                with
            };
            match how {
                0 => bytes.insert(at, with),
                1 if at < bytes.len() => bytes[at] = with,
                _ => bytes.truncate(at),
            }
        }
        bytes
    });
    prop_oneof![4 => changed, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn whatever_comes_is_answered(all in prop::collection::vec(content(), 1..40), harts in 1..4usize) {
        let mut s = Session::new(harts);
        for content in all {
            // `$` and `#` end contents.
            if content.iter().any(|b| matches!(b, b'$' | b'#')) {
                s.raw(&[&b"$"[..], &content, b"#00"].concat());
                s.raw(b"$#00");
            } else {
                let before = s.toy.resumed;
                let answers = s.raw(&packet(&content)).len();
                let ends = matches!(content.first(), Some(b'D' | b'k')) || content.starts_with(b"vKill;");
                prop_assert!(s.stub.left().is_none() || ends);
                if s.stub.left().is_some() {
                    return Ok(());
                }
                prop_assert!(answers >= 1 || s.toy.resumed == before + 1, "{content:?}");
            }
            if s.stub.is_running() {
                prop_assert_eq!(s.raw(b"\x03").len(), 1);
            }
        }
        prop_assert_eq!(s.ask("qAttached"), "1", "it is still there");
    }

    #[test]
    fn noise_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut s = Session::new(2);
        s.stub.take(&bytes, &mut s.toy);
    }
}
