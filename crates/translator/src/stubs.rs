//! Code that all blocks share: the way in and out, calls of Rust, the table of jumps.

use crate::arena::Arena;
use crate::calls::{exit, Calls, NO_LINK, SYSTEM};
use crate::jumps::JUMP_ENTRIES;
use crate::regs::*;
use crate::Error;
use dynasmrt::x64::X64Relocation;
use dynasmrt::{dynasm, DynamicLabel, DynasmApi, DynasmLabelApi, VecAssembler};
use nagori_hart::engine::layout;
use nagori_hart::HartConfig;

pub(crate) type Asm = VecAssembler<X64Relocation>;

/// Offsets of the shared code in the arena.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stubs {
    /// `fn(hart, code, memory)`: runs code until it leaves.
    pub enter: usize,
    /// Leaves with pc set and no link.
    pub leave: usize,
    /// Leaves at page offset `eax` by link `ecx`.
    pub leave_link: usize,
    /// Leaves at pc `rax`.
    pub leave_indirect: usize,
    /// Leaves for the interpreter to go on with instruction `edx`.
    pub leave_rest: usize,
    /// Executes instruction `edx`.
    pub op: usize,
    /// Executes load or store `edx`, which missed the filter.
    pub miss: usize,
    /// Fetches the line of `edx`.
    pub line: usize,
    /// Waits for results before block `edx`.
    pub pending: usize,
    /// Waits for registers that instruction `edx` needs and whose lines are on their way, or looks whether its block
    /// needs any.
    pub late: usize,
    /// Waits for the units that instruction `edx` needs and whose results come late.
    pub units: usize,
    /// Resolves branch `eax` with `rdx`.
    pub branch: usize,
    /// Goes to the code of pc `rax`.
    pub dispatch: usize,
    /// DTLB entry `dl` was used; keeps `rax` and `rcx`.
    pub touch: usize,
    /// Makes an entry of the branch target buffer for `rcx`, which leads to `rdx`; keeps `rax`.
    pub insert: usize,
    /// As `insert`, for an indirect jump.
    pub learn: usize,
    /// Takes the host's exception flags for the guest's.
    pub fp_start: usize,
}

impl Stubs {
    /// Offsets and names, for listings.
    pub fn names(&self) -> [(usize, &'static str); 17] {
        let Stubs {
            enter,
            leave,
            leave_link,
            leave_indirect,
            leave_rest,
            op,
            miss,
            line,
            pending,
            late,
            units,
            branch,
            dispatch,
            touch,
            insert,
            learn,
            fp_start,
        } = *self;
        [
            (enter, "enter"),
            (leave, "leave"),
            (leave_link, "leave_link"),
            (leave_indirect, "leave_indirect"),
            (leave_rest, "leave_rest"),
            (op, "op"),
            (miss, "miss"),
            (line, "line"),
            (pending, "pending"),
            (late, "late"),
            (units, "units"),
            (branch, "branch"),
            (dispatch, "dispatch"),
            (touch, "touch"),
            (insert, "insert"),
            (learn, "learn"),
            (fp_start, "fp_start"),
        ]
    }
}

/// Calls a function with the hart, `rcx` and `rdx`. Keeps what code of branches uses.
fn enter(a: &mut Asm, call: usize) {
    dynasm!(a; .arch x64
        ; push rax; push rsi; push rdi; push r8; push r9; push r10; push r11
        ; lea rdi, [rbp - BIAS as i32]
        ; mov rsi, rcx
        ; mov rax, QWORD call as i64
        ; call rax
        ; pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rax
        ; ret
    );
}

fn store_pinned(a: &mut Asm) {
    for (g, h) in PINNED {
        dynasm!(a; .arch x64; mov [rbp + x(g)], Rq(h));
    }
}

fn load_pinned(a: &mut Asm) {
    for (g, h) in PINNED {
        dynasm!(a; .arch x64; mov Rq(h), [rbp + x(g)]);
    }
}

fn save_cycle(a: &mut Asm) {
    dynasm!(a; .arch x64; mov rcx, r15; add rcx, [rbp + STOP]; mov [rbp + CYCLE], rcx);
}

fn load_cycle(a: &mut Asm) {
    dynasm!(a; .arch x64; mov r15, [rbp + CYCLE]; sub r15, [rbp + STOP]);
}

/// Saves the host's floating-point flags, if they are the guest's.
fn save_fp(a: &mut Asm) {
    let none = a.new_dynamic_label();
    dynasm!(a; .arch x64
        ; cmp BYTE [rbp + FP_LIVE], 0
        ; je =>none
        ; stmxcsr [rbp + MXCSR]
        ; =>none
    );
}

/// Leaves `rdx` = the entry of pc `rax` in the table of jumps, or goes to `miss`. Keeps `rax`.
pub(crate) fn find_jump(a: &mut Asm, miss: DynamicLabel) {
    dynasm!(a; .arch x64
        ; mov edx, eax
        ; and edx, ((JUMP_ENTRIES - 1) * 2) as i32
        ; shl edx, 4
        ; add rdx, [rbp + JUMPS]
        ; cmp rax, [rdx]
        ; jne =>miss
        ; mov rcx, [rbp + CONTEXT]
        ; cmp rcx, [rdx + 8]
        ; jne =>miss
    );
}

/// Masks that `touch` applies to the pseudo-LRU bits of a set of ways: and, or.
fn plru_masks(ways: u32) -> Vec<(u64, u64)> {
    (0..ways)
        .map(|way| {
            let probe = |start: u64| nagori_hart::tlb::Plru::after_touch(ways, start, way);
            (probe(u64::MAX), probe(0))
        })
        .collect()
}

/// Writes the shared code into an empty arena, for a core.
pub(crate) fn write(arena: &mut Arena, calls: &Calls, config: &HartConfig) -> Result<Stubs, Error> {
    let (sectors, supers) = (config.dtlb.sectors, config.dtlb.superpages);
    let index = config.predictor.bht_entries;
    let mut a = Asm::new(arena.next());
    let mut s = Stubs::default();
    let base = arena.used();
    macro_rules! here {
        ($f:ident) => {
            s.$f = base + a.offset().0
        };
    }
    let l_leave = a.new_dynamic_label();
    let l_indirect = a.new_dynamic_label();
    let l_synced = a.new_dynamic_label();

    here!(enter);
    dynasm!(a; .arch x64
        ; push rbp; push rbx; push r12; push r13; push r14; push r15
        ; sub rsp, 8
        ; lea rbp, [rdi + BIAS as i32]
        ; mov r14, rdx
        ; mov rax, rsi
    );
    load_cycle(&mut a);
    load_pinned(&mut a);
    dynasm!(a; .arch x64; jmp rax);

    here!(leave_link);
    dynasm!(a; .arch x64
        ; movsxd rax, eax
        ; add rax, [rbp + PAGE]
        ; mov [rbp + PC], rax
        ; mov [rbp + LINK], rcx
        ; jmp =>l_leave
    );
    here!(leave_rest);
    dynasm!(a; .arch x64
        ; mov eax, edx
        ; mov [rbp + INFO], rax
        ; mov QWORD [rbp + EXIT], exit::REST as i32
        ; jmp =>l_leave
    );
    here!(leave);
    dynasm!(a; .arch x64
        ; mov eax, SYSTEM as i32
        ; mov [rbp + LINK], rax
        ; jmp =>l_leave
    );
    here!(leave_indirect);
    dynasm!(a; .arch x64
        ; =>l_indirect
        ; mov [rbp + PC], rax
        ; mov eax, NO_LINK as i32
        ; mov [rbp + LINK], rax
        ; =>l_leave
    );
    store_pinned(&mut a);
    save_cycle(&mut a);
    save_fp(&mut a);
    dynasm!(a; .arch x64
        ; =>l_synced
        ; add rsp, 8
        ; pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp
        ; ret
    );

    for (place, f) in [
        (&mut s.op, calls.op),
        (&mut s.miss, calls.miss),
        (&mut s.line, calls.line),
        (&mut s.pending, calls.pending),
        (&mut s.late, calls.late),
        (&mut s.units, calls.units),
    ] {
        *place = base + a.offset().0;
        let out = a.new_dynamic_label();
        store_pinned(&mut a);
        save_cycle(&mut a);
        save_fp(&mut a);
        dynasm!(a; .arch x64
            ; lea rdi, [rbp - BIAS as i32]
            ; mov esi, edx
            ; sub rsp, 8
            ; mov rax, QWORD f as i64
            ; call rax
            ; add rsp, 8
        );
        load_cycle(&mut a);
        dynasm!(a; .arch x64; test eax, eax; jne =>out);
        load_pinned(&mut a);
        dynasm!(a; .arch x64
            ; ret
            ; =>out
            ; add rsp, 8
            ; jmp =>l_synced
        );
    }

    here!(branch);
    save_cycle(&mut a);
    dynasm!(a; .arch x64
        ; push rsi; push rdi; push r8; push r9; push r10; push r11
        ; sub rsp, 8
        ; lea rdi, [rbp - BIAS as i32]
        ; mov esi, eax
        ; mov rax, QWORD calls.branch as i64
        ; call rax
        ; add rsp, 8
        ; pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi
        ; add r15, rax
        ; ret
    );

    here!(dispatch);
    let other_page = a.new_dynamic_label();
    find_jump(&mut a, l_indirect);
    dynasm!(a; .arch x64
        ; and rax, -4096
        ; cmp rax, [rbp + PAGE]
        ; jne =>other_page
        ; jmp QWORD [rdx + 16]
        ; =>other_page
        ; mov rcx, [rdx + 16]
        ; mov [rsp - 16], rcx
        ; mov [rbp + PAGE], rax
        ; mov ecx, [rbp + PAGE_KEY]
        ; and ecx, 0x18
        ; or rcx, rax
        ; mov [rbp + PAGE_KEY], rcx
        ; mov rcx, rax
        ; shr rcx, 2 + index.trailing_zeros() as i8
        ; and ecx, 3
        ; mov edx, eax
        ; shr edx, 2
        ; and edx, (index - 1) as i32
        ; xor ecx, edx
        ; mov [rbp + PAGE_INDEX], rcx
        ; shr eax, 1
        ; and eax, SLOT_MASK
        ; mov [rbp + FETCH_SLOTS], rax
        ; jmp QWORD [rsp - 16]
    );

    // A branch whose last half is at `rcx` and which leads to `rdx` gets an entry of the branch target
    // buffer. Keeps `rax`.
    here!(insert);
    enter(&mut a, calls.insert);
    here!(learn);
    enter(&mut a, calls.learn);

    here!(fp_start);
    dynasm!(a; .arch x64
        ; mov DWORD [rsp - 16], 0x1f80
        ; ldmxcsr [rsp - 16]
        ; mov BYTE [rbp + FP_LIVE], 1
        ; ret
    );

    here!(touch);
    let (table, sup, out) = (
        a.new_dynamic_label(),
        a.new_dynamic_label(),
        a.new_dynamic_label(),
    );
    dynasm!(a; .arch x64
        ; mov [rbp + LAST_WAY], dl
        ; push rax
        ; push rcx
        ; movzx edx, dl
        ; shl edx, 4
        ; lea rcx, [=>table]
        ; cmp edx, (nagori_hart::tlb::SUPER_WAY as i32) << 4
        ; jae =>sup
        ; mov rax, [rbp + DTLB_PLRU]
        ; and rax, [rcx + rdx]
        ; or rax, [rcx + rdx + 8]
        ; mov [rbp + DTLB_PLRU], rax
        ; =>out
        ; pop rcx
        ; pop rax
        ; ret
        ; =>sup
        ; cmp edx, (nagori_hart::tlb::NO_WAY as i32) << 4
        ; je =>out
        ; mov rax, [rbp + DTLB_SUPER_PLRU]
        ; and rax, [rcx + rdx]
        ; or rax, [rcx + rdx + 8]
        ; mov [rbp + DTLB_SUPER_PLRU], rax
        ; jmp =>out
        ; .align 16
        ; =>table
    );
    let mut masks = plru_masks(sectors);
    masks.resize(nagori_hart::tlb::SUPER_WAY as usize, (u64::MAX, 0));
    masks.extend(plru_masks(supers));
    for (and, or) in masks {
        dynasm!(a; .arch x64; .u64 and; .u64 or);
    }
    let code = a.finalize().map_err(|_| Error::Full)?;
    arena.add(&code).ok_or(Error::Full)?;
    arena.keep();
    Ok(s)
}

/// Distances of filter entries, as bits of an address shifted right.
pub(crate) const SLOT_MASK: i32 = ((nagori_hart::filter::SLOTS - 1) * layout::ENTRY) as i32;
const _: () = assert!(
    layout::ENTRY == 32,
    "an entry's distance is its slot shifted by five"
);
