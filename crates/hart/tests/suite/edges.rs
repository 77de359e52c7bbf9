//! Cases at the edges that random programs meet too seldom.

use crate::common::bare::{Bare, BASE, OPEN, TRAP};
use crate::common::guest::{Sv39, SUPER_ALL, USER_ALL};
use crate::common::{i, n, r, rocket, s};
use nagori_hart::trap::{cause, status};
use nagori_hart::world::Bus;
use nagori_isa::Op;

const NOP: u32 = 0x13;

fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

#[test]
fn code_runs_to_the_end_of_the_address_space() {
    both(|timed| {
        let mut b = Bare::new(rocket(), timed, &[]);
        let (page, tables) = (BASE + 0x2000, BASE + 0x4000);
        let mut t = Sv39::new(b.w.ram(), BASE, tables);
        t.map(0xffff_ffff_ffff_f000, page, 4096, SUPER_ALL);
        let satp = t.satp();
        b.put(page + 0xff0, &[NOP; 4]);
        b.enter(1, 0xffff_ffff_ffff_fff0, satp, 0, OPEN);
        assert_eq!(b.run_to_trap(), (cause::FETCH_PAGE, 0, 0), "timed {timed}");
        // An instruction whose second half would lie at address 0.
        b.put(page + 0xffc, &[0x0013_0001]);
        b.enter(1, 0xffff_ffff_ffff_fffc, satp, 0, OPEN);
        assert_eq!(
            b.run_to_trap(),
            (cause::FETCH_PAGE, u64::MAX - 1, 0),
            "timed {timed}"
        );
    });
}

#[test]
fn protection_at_the_end_of_the_physical_space() {
    both(|timed| {
        for a in [u64::MAX - 1, u64::MAX - 7, u64::MAX - 3] {
            let mut b = Bare::new(rocket(), timed, &[]);
            b.enter(3, a & !1, 0, 0, OPEN);
            assert_eq!(b.run_to_trap(), (cause::FETCH_ACCESS, a & !1, a & !1));
            let mut b = Bare::new(rocket(), timed, &[i(Op::Ld, 5, 6, 0)]);
            b.enter(3, BASE, 0, 0, OPEN);
            b.h.set_reg(6, a & !7);
            assert_eq!(b.run_to_trap(), (cause::LOAD_ACCESS, BASE, a & !7));
        }
    });
}

#[test]
fn no_address_passes_an_empty_filter() {
    // All address bits set, in every context: misaligned, whatever the filter holds.
    both(|timed| {
        for mode in [0u64, 1, 3] {
            for bits in [0, status::MXR, status::SUM, status::MXR | status::SUM] {
                for (word, c) in [
                    (i(Op::Ld, 5, 6, 0), cause::LOAD_MISALIGNED),
                    (s(Op::Sd, 5, 6, 0), cause::STORE_MISALIGNED),
                ] {
                    let mut b = Bare::new(rocket(), timed, &[]);
                    b.put(BASE + 0x1000, &[word]);
                    b.enter(mode, BASE + 0x1000, 0, bits, OPEN);
                    b.h.set_reg(6, u64::MAX);
                    assert_eq!(
                        b.run_to_trap(),
                        (c, BASE + 0x1000, u64::MAX),
                        "mode {mode}, mstatus {bits:#x}"
                    );
                }
            }
        }
    });
}

#[test]
fn protection_holds_inside_code_that_was_decoded_before() {
    both(|timed| {
        let at = BASE + 0x1000;
        let words = [NOP, NOP, NOP, NOP, n(Op::Ecall)];
        let mut b = Bare::new(rocket(), timed, &[]);
        b.put(at, &words);
        // The machine may run all of it ...
        b.enter(3, at, 0, 0, (0, 0, 0));
        assert_eq!(b.run_to_trap().0, cause::ECALL_U + 3);
        // ... the supervisor only the first two instructions (TOR).
        b.enter(1, at, 0, 0, ((at + 8) >> 2, 0, 0x0f));
        assert_eq!(
            b.run_to_trap(),
            (cause::FETCH_ACCESS, at + 8, at + 8),
            "timed {timed}"
        );
        // Both again, now that the supervisor's part has been decoded.
        b.enter(1, at, 0, 0, OPEN);
        assert_eq!(b.run_to_trap().0, cause::ECALL_U + 1);
        b.enter(1, at, 0, 0, ((at + 8) >> 2, 0, 0x0f));
        assert_eq!(
            b.run_to_trap(),
            (cause::FETCH_ACCESS, at + 8, at + 8),
            "timed {timed}"
        );
        // An instruction of four bytes of which half is allowed.
        b.put(at + 0x800, &[0x0013_0001, 0x0073_0000, 0]);
        b.enter(3, at + 0x800, 0, 0, (0, 0, 0));
        assert_eq!(b.run_to_trap().0, cause::ECALL_U + 3);
        b.enter(1, at + 0x800, 0, 0, ((at + 0x804) >> 2, 0, 0x0f));
        assert_eq!(
            b.run_to_trap(),
            (cause::FETCH_ACCESS, at + 0x802, at + 0x804),
            "timed {timed}"
        );
    });
}

#[test]
fn protection_of_the_first_half_of_an_instruction() {
    both(|timed| {
        // Entry 0 takes four bytes away; the instruction begins in them.
        let at = BASE + 0x1000;
        let mut b = Bare::new(rocket(), timed, &[]);
        b.put(at, &[0x0001_0001, 0x0013_0001, 0x0001_0000, n(Op::Ecall)]);
        b.enter(1, at, 0, 0, ((at + 4) >> 2, u64::MAX >> 10, 0x1f10));
        assert_eq!(b.run_to_trap(), (cause::FETCH_ACCESS, at + 4, at + 4));
        b.enter(1, at + 2, 0, 0, ((at + 4) >> 2, u64::MAX >> 10, 0x1f10));
        assert_eq!(b.run_to_trap(), (cause::FETCH_ACCESS, at + 4, at + 4));
        // The second half alone is allowed.
        b.put(at, &[0x0001_0001, 0x0013_0001, 0x0001_0000, n(Op::Ecall)]);
        b.put(at + 4, &[0x0013_0001]);
        b.enter(1, at + 6, 0, 0, ((at + 4) >> 2, u64::MAX >> 10, 0x1f10));
        assert_eq!(
            b.run_to_trap(),
            (cause::FETCH_ACCESS, at + 6, at + 6),
            "timed {timed}"
        );
    });
}

#[test]
fn faults_of_a_crossing_instruction_name_the_second_page() {
    both(|timed| {
        let mut b = Bare::new(rocket(), timed, &[]);
        let (page, tables) = (BASE + 0x2000, BASE + 0x8000);
        let mut t = Sv39::new(b.w.ram(), BASE, tables);
        t.map(0x4000, page, 4096, USER_ALL);
        t.map(0x6000, page + 0x1000, 4096, USER_ALL);
        t.map(0x7000, page + 0x2000, 4096, USER_ALL);
        let satp = t.satp();
        // addi a1, a1, 1 across the boundary, then ecall.
        b.put(page + 0xffc, &[0x8593_0001, 0x0073_0015]);
        b.put(page + 0x1ffc, &[0x8593_0001, 0x0073_0015]);
        b.put(page + 0x1004, &[0]);
        b.put(page + 0x2000, &[0x0073_0025]);
        b.enter(0, 0x4ffc, satp, 0, OPEN);
        assert_eq!(b.run_to_trap(), (cause::FETCH_PAGE, 0x4ffe, 0x5000));
        // Mapped behind one another at other addresses: the second half is that of the second page.
        b.enter(0, 0x6ffc, satp, 0, OPEN);
        b.h.set_reg(11, 0);
        assert_eq!(
            b.run_to_trap(),
            (cause::ECALL_U, 0x7002, 0),
            "timed {timed}"
        );
        assert_eq!(b.h.reg(11), 2);
    });
}

#[test]
fn sub_page_protection_of_data() {
    both(|timed| {
        let data = BASE + 0x3000;
        // TOR: up to data + 0x20 everything, from there on nothing for S.
        for (at, ok) in [
            (0x0u64, true),
            (0x18, true),
            (0x20, false),
            (0x40, false),
            (0x18, true),
        ] {
            let mut b = Bare::new(rocket(), timed, &[]);
            // Load twice: the second one may come from the filter.
            b.put(
                BASE + 0x1000,
                &[
                    i(Op::Ld, 5, 6, 0),
                    s(Op::Sd, 5, 7, 0),
                    i(Op::Ld, 5, 7, 0),
                    n(Op::Ecall),
                ],
            );
            b.enter(1, BASE + 0x1000, 0, 0, ((data + 0x20) >> 2, 0, 0x0f));
            b.h.set_reg(6, data);
            b.h.set_reg(7, data + at);
            let want = if ok {
                (cause::ECALL_U + 1, BASE + 0x100c)
            } else {
                (cause::STORE_ACCESS, BASE + 0x1004)
            };
            let (c, pc, _) = b.run_to_trap();
            assert_eq!((c, pc), want, "at {at:#x}");
        }
    });
}

#[test]
fn reserved_rounding_modes_are_illegal() {
    both(|timed| {
        for (frm, rm, legal) in [
            (0u8, 5u8, false),
            (0, 6, false),
            (5, 7, false),
            (7, 7, false),
            (5, 0, true),
            (4, 7, true),
        ] {
            let add = crate::common::rm(Op::FaddD, 1, 2, 3, rm);
            let mut b = Bare::new(rocket(), timed, &[add, n(Op::Ecall)]);
            b.h.state.csr.mstatus |= status::FS;
            b.h.state.csr.frm = frm;
            let want = if legal {
                (cause::ECALL_U + 3, BASE + 4, 0)
            } else {
                (cause::ILLEGAL, BASE, add as u64)
            };
            assert_eq!(b.run_to_trap(), want, "frm {frm} rm {rm}");
        }
    });
}

#[test]
fn floating_point_off_is_illegal_and_changes_nothing() {
    both(|timed| {
        for w in [
            r(Op::FsgnjD, 1, 2, 3),
            i(Op::Fld, 1, 6, 0),
            s(Op::Fsd, 1, 6, 0),
            i(Op::Csrrs, 5, 0, 1),
        ] {
            let mut b = Bare::new(rocket(), timed, &[w]);
            b.h.set_reg(6, BASE + 0x2000);
            b.h.set_freg(1, 77);
            b.h.set_freg(2, 99);
            assert_eq!(b.run_to_trap(), (cause::ILLEGAL, BASE, w as u64));
            assert_eq!(b.h.freg(1), 77);
            assert_eq!(b.w.ram().read_u64(0x2000), Some(0));
        }
    });
}

#[test]
fn a_handler_that_traps_for_ever_comes_to_its_limit() {
    both(|timed| {
        let mut b = Bare::new(rocket(), timed, &[n(Op::Ecall)]);
        b.put(TRAP, &[0]);
        b.h.run(&mut b.code, &mut b.w, 1000);
        assert!(b.h.state.cycle >= 1000 && b.h.state.cycle < 1100);
        let mut b = Bare::new(rocket(), timed, &[n(Op::Ecall)]);
        b.h.state.csr.mtvec = 0;
        b.h.run(&mut b.code, &mut b.w, 1000);
        assert!(b.h.state.cycle >= 1000 && b.h.state.cycle < 1100);
        assert_eq!(b.h.state.csr.mcause, cause::FETCH_ACCESS);
    });
}

#[test]
fn stores_to_code_are_seen_after_fence_i() {
    both(|timed| {
        // Overwrites the instruction behind the fence; runs twice, so that it is decoded the first time.
        let words = [
            s(Op::Sw, 6, 7, 0),
            n(Op::FenceI),
            i(Op::Addi, 5, 5, 1), // becomes addi x5, x5, 16
            n(Op::Ecall),
        ];
        let mut b = Bare::new(rocket(), timed, &words);
        b.h.set_reg(7, BASE + 8);
        for (word, want) in [
            (words[2], 1),
            (i(Op::Addi, 5, 5, 16), 16),
            (i(Op::Addi, 5, 5, 3), 3),
        ] {
            b.h.state.pc = BASE;
            b.h.set_reg(5, 0);
            b.h.set_reg(6, word as u64);
            b.run_to_trap();
            assert_eq!(b.h.reg(5), want, "timed {timed}");
        }
    });
}

#[test]
fn returns_change_status_as_specified() {
    use status::{MIE, MPIE, MPP, MPRV, SIE, SPIE, SPP};
    let cases = [
        // From M: instruction, mstatus before, mode and mstatus after.
        (Op::Mret, MPP | MPRV | MPIE, 3, MIE | MPIE | MPRV),
        (Op::Mret, 1 << 11 | MPRV | MPIE, 1, MIE | MPIE),
        (Op::Mret, MPRV | MIE, 0, MPIE),
        (Op::Sret, SPP | MPRV | SPIE, 1, SIE | SPIE),
        (Op::Sret, MPRV | SIE, 0, SPIE),
        (
            Op::Sret,
            SPP | SPIE | MIE | MPIE | MPP,
            1,
            SIE | SPIE | MIE | MPIE | MPP,
        ),
    ];
    both(|timed| {
        for (op, before, mode, after) in cases {
            let mut b = Bare::new(rocket(), timed, &[n(op)]);
            // The mode stays M for the first instruction; mepc and sepc lead to the trap vector.
            b.h.state.csr.mstatus = before;
            b.h.state.csr.mepc = TRAP;
            b.h.state.csr.sepc = TRAP;
            b.h.run(&mut b.code, &mut b.w, 1);
            assert_eq!(b.h.state.privilege as u64, mode, "{op:?} {before:#x}");
            assert_eq!(
                b.h.state.csr.mstatus, after,
                "{op:?} {before:#x}: {:#x}",
                b.h.state.csr.mstatus
            );
        }
    });
}

/// What the specification says of an access to a 4 KiB page: whether it is allowed.
fn allowed(flags: u64, access: char, user: bool, sum: bool, mxr: bool) -> bool {
    let bit = |k: u32| flags >> k & 1 != 0;
    let (v, r, w, x, u, a, d) = (bit(0), bit(1), bit(2), bit(3), bit(4), bit(6), bit(7));
    if !v || w && !r || !(r || x) || !a {
        return false;
    }
    if user != u && (user || access == 'x' || !sum) {
        return false;
    }
    match access {
        'r' => r || mxr && x,
        'w' => w && d,
        _ => x,
    }
}

#[test]
fn page_permissions_in_every_combination() {
    both(|timed| {
        let page = BASE + 0x2000;
        // x5: the page; x6: where a fetch from it comes back to.
        let code = BASE + 0x1000;
        for combination in 0..1024u64 {
            let flags = combination & 255;
            let (sum, mxr) = (combination & 256 != 0, combination & 512 != 0);
            let bits = if sum { status::SUM } else { 0 } | if mxr { status::MXR } else { 0 };
            let mut b = Bare::new(rocket(), timed, &[]);
            b.put(page, &[n(Op::Ecall)]);
            b.put(code, &[i(Op::Ld, 7, 5, 0), n(Op::Ecall)]);
            b.put(code + 0x10, &[s(Op::Sd, 0, 5, 8), n(Op::Ecall)]);
            b.put(code + 0x20, &[i(Op::Jalr, 0, 5, 0)]);
            let mut t = Sv39::new(b.w.ram(), BASE, BASE + 0x8000);
            t.map(0x1000, code, 4096, USER_ALL);
            t.map(0x4000_1000, code, 4096, SUPER_ALL);
            t.map(0x6000, page, 4096, flags);
            let satp = t.satp();
            for user in [true, false] {
                for (k, access, fault) in [
                    (0, 'r', cause::LOAD_PAGE),
                    (1, 'w', cause::STORE_PAGE),
                    (2, 'x', cause::FETCH_PAGE),
                ] {
                    let mode = if user { 0 } else { 1 };
                    let from = if user { 0x1000 } else { 0x4000_1000 } + 16 * k;
                    b.enter(mode, from, satp, bits, OPEN);
                    b.h.set_reg(5, 0x6000);
                    let (c, _, tval) = b.run_to_trap();
                    let want = if allowed(flags, access, user, sum, mxr) {
                        (cause::ECALL_U + mode, 0)
                    } else {
                        (fault, 0x6000 + if access == 'w' { 8 } else { 0 })
                    };
                    assert_eq!(
                        (c, tval),
                        want,
                        "{access} user {user} flags {flags:#x} sum {sum} mxr {mxr}"
                    );
                }
                // From M by MPRV, as the mode in MPP.
                for (k, access, fault) in [(0, 'r', cause::LOAD_PAGE), (1, 'w', cause::STORE_PAGE)]
                {
                    b.enter(3, code + 16 * k, satp, bits | status::MPRV, OPEN);
                    b.h.set_reg(5, 0x6000);
                    // mret has left MPP at U: the mode wanted is set by hand, as csrw would.
                    let mode = if user { 0 } else { 1 };
                    b.put(code + 0x40 + 16 * k, &[i(Op::Csrrs, 0, 6, 0x300)]);
                    b.put(
                        code + 0x44 + 16 * k,
                        &[if k == 0 {
                            i(Op::Ld, 7, 5, 0)
                        } else {
                            s(Op::Sd, 0, 5, 8)
                        }],
                    );
                    b.put(code + 0x48 + 16 * k, &[n(Op::Ecall)]);
                    b.h.set_reg(6, mode << 11);
                    b.h.state.pc = code + 0x40 + 16 * k;
                    let (c, _, tval) = b.run_to_trap();
                    let want = if allowed(flags, access, user, sum, mxr) {
                        (cause::ECALL_U + 3, 0)
                    } else {
                        (fault, 0x6000 + 8 * k)
                    };
                    assert_eq!(
                        (c, tval),
                        want,
                        "MPRV {access} user {user} flags {flags:#x} sum {sum} mxr {mxr}"
                    );
                }
            }
        }
    });
}
