# Atomics, CSRs, traps, fences, waiting.
.include "region.inc"
.macro s_amo_use
    amoadd.d t0, t1, (s0)
    add  t2, t0, t0
.endm
.macro s_amo_apart
    amoadd.d t0, t1, (s0)
    amoadd.d t2, t1, (s1)
.endm
.macro s_amoswap_w
    amoswap.w t0, t1, (s0)
.endm
.macro s_amo_then_load
    amoor.d t0, t1, (s0)
    ld   t2, 0(s0)
.endm
.macro s_lr_use
    lr.d t0, (s0)
    add  t2, t0, t0
.endm
.macro s_increment
1:
    lr.d t0, (s0)
    addi t0, t0, 1
    sc.d t2, t0, (s0)
    bnez t2, 1b
.endm
.macro s_spin
1:
    amoswap.w.aq t0, t1, (s0)
    bnez t0, 1b
    amoswap.w.rl x0, x0, (s0)
.endm
.macro s_cycle
    csrr t0, mcycle
    csrr t2, minstret
.endm
.macro s_rdcycle_use
    rdcycle t0
    add  t2, t0, t0
.endm
.macro s_csrw_mepc
    csrw mepc, t0
.endm
.macro s_csrw_mie
    csrw mie, x0
.endm
.macro s_csrs_mstatus
    csrs mstatus, x0
.endm
.macro s_csr_swap
    csrrw t0, mscratch, t0
.endm
.macro s_illegal
    .word 0
.endm
.macro s_ebreak
    .option push
    .option norvc
    ebreak
    .option pop
.endm
.macro s_bad_load
    .option push
    .option norvc
    ld   t0, 0(s5)
    .option pop
.endm
.macro s_wfi
    wfi
.endm
.macro s_fence_loads
    ld   t0, 0(s0)
    fence r, rw
.endm
.macro s_fence_both
    sd   t1, 0(s0)
    fence w, w
    sd   t1, 64(s0)
.endm
.macro s_sfence_one
    sfence.vma s0, x0
.endm
.macro s_patch
    sw   t5, 0(s7)
    fence.i
.endm
program
    la   s0, buffer
    addi s1, s0, 64
    li   t1, 1
    measure "amo then use", s_amo_use, 50, 4
    measure "amo two lines", s_amo_apart, 50, 2
    measure "amoswap.w", s_amoswap_w, 50, 4
    measure "amo then load", s_amo_then_load, 50, 2
    measure "lr then use", s_lr_use, 50, 2
    measure "lr/sc increment", s_increment, 100, 1
    sd   x0, 0(s0)
    measure "spin lock", s_spin, 100, 1
    measure "cycle and instret", s_cycle, 50, 2
    measure "rdcycle then use", s_rdcycle_use, 50, 2
    measure "csrw mepc", s_csrw_mepc, 50, 2
    measure "csrw mie", s_csrw_mie, 50, 2
    measure "csrs mstatus", s_csrs_mstatus, 50, 2
    measure "csr swap", s_csr_swap, 50, 2
    csrr s6, mtvec
    la   t0, handler
    csrw mtvec, t0
    measure "illegal instruction", s_illegal, 40, 1
    measure "ebreak", s_ebreak, 40, 1
    li   s5, 0x40
    slli s5, s5, 32
    measure "load access fault", s_bad_load, 40, 1
    csrw mtvec, s6
    # A software interrupt is pending and enabled, but not taken, so waiting ends at once.
    li   t0, 0x02000000
    li   t2, 1
    sw   t2, 0(t0)
    li   t2, 8
    csrw mie, t2
    li   t3, 100
1:
    addi t3, t3, -1
    bnez t3, 1b
    measure "wfi pending", s_wfi, 40, 2
    csrw mie, x0
    sw   x0, 0(t0)
    measure "load and fence", s_fence_loads, 50, 2
    measure "fence between stores", s_fence_both, 50, 2
    measure "sfence.vma address", s_sfence_one, 50, 2
    la   s7, patched
    lw   t5, 0(s7)
    measure "store and fence.i", s_patch, 20, 1
end_program
    .balign 64
handler:
    csrr t0, mepc
    addi t0, t0, 4
    csrw mepc, t0
    mret
    .data
    .balign 64
patched:
    nop
    nop
    .bss
    .balign 4096
buffer:
    .skip 4096
