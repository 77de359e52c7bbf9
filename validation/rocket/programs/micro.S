# The rows of rocket_timing.csv: loops around single operations, warm.
.include "region.inc"

.macro b_add_dep
    add  t0, t0, t1
.endm
.macro b_add_free
    add  t0, t1, t2
    add  t3, t1, t2
.endm
.macro b_none
.endm
.macro b_mul_small
    mul  t0, t1, t0
    and  t0, t0, t2
.endm
.macro b_mul_large
    mul  t0, t0, t3
    or   t0, t0, t4
.endm
.macro b_mul_free
    mul  t0, t1, t2
    mul  t3, t1, t2
    mul  t4, t1, t2
    mul  t5, t1, t2
.endm
.macro b_div
    div  t0, t1, t2
    add  t1, t1, t0
    sub  t1, t1, t0
.endm
.macro b_divw
    remw t0, t1, t2
    add  t1, t1, t0
    sub  t1, t1, t0
.endm
.macro b_chase
    ld   t0, 0(t0)
.endm
.macro b_load_use
    ld   t1, 0(s0)
    add  t1, t1, t1
.endm
.macro b_byte_use
    lb   t1, 0(s0)
    add  t1, t1, t1
.endm
.macro b_store
    sd   t1, 0(s0)
.endm
.macro b_store_load_other
    sd   t1, 0(s0)
    ld   t2, 64(s0)
.endm
.macro b_store_load_same
    sd   t1, 0(s0)
    ld   t2, 0(s0)
.endm
.macro b_store_load_alias
    sd   t1, 0(s0)
    ld   t2, 0(s1)
.endm
.macro b_store_load_data
    sd   t1, 0(s0)
    ld   t1, 0(s0)
.endm
.macro b_not_taken
    bnez x0, 1f
1:
.endm
.macro b_taken
    beqz x0, 1f
    .balign 8
1:
.endm
.macro b_alternate
    xori t0, t0, 1
    beqz t0, 1f
    nop
1:
.endm
.macro b_random
    slli t1, t0, 13
    xor  t0, t0, t1
    srli t1, t0, 7
    xor  t0, t0, t1
    slli t1, t0, 17
    xor  t0, t0, t1
    andi t1, t0, 1
    beqz t1, 1f
    nop
1:
.endm
.macro b_call
    call leaf
.endm
.macro b_call_nops
    call leaf_nops
.endm
.macro b_fadd_d
    fadd.d ft0, ft0, ft1
.endm
.macro b_fmul_d
    fmul.d ft0, ft0, ft2
.endm
.macro b_fmadd_d
    fmadd.d ft0, ft0, ft2, ft3
.endm
.macro b_fadd_d_free
    fadd.d ft4, ft1, ft2
    fadd.d ft5, ft1, ft2
    fadd.d ft6, ft1, ft2
    fadd.d ft7, ft1, ft2
.endm
.macro b_fadd_s
    fadd.s fa0, fa0, fa1
.endm
.macro b_fmul_s
    fmul.s fa0, fa0, fa2
.endm
.macro b_fdiv_d
    fdiv.d ft0, ft0, ft4
.endm
.macro b_fdiv_s
    fdiv.s fa0, fa0, fa4
.endm
.macro b_fsqrt_d
    fsqrt.d ft5, ft6
.endm
.macro b_fsqrt_s
    fsqrt.s fa5, fa6
.endm
.macro b_amoadd
    amoadd.d t0, t1, (s0)
.endm
.macro b_amoadd_aqrl
    amoadd.d.aqrl t0, t1, (s0)
.endm
.macro b_lr_sc
    lr.d t0, (s0)
    sc.d t2, t0, (s0)
.endm
.macro b_fence
    fence rw, rw
.endm
.macro b_store_fence
    sd   t1, 0(s0)
    fence rw, rw
.endm
.macro b_fence_i
    fence.i
.endm
.macro b_csrr
    csrr t0, mscratch
    add  t0, t0, t0
.endm
.macro b_csrw
    csrw mscratch, t0
.endm
.macro b_sfence
    sfence.vma
.endm
.macro b_ecall
    ecall
.endm
.macro b_uart
    lbu  t0, 5(s2)
    add  t0, t0, t0
.endm
.macro b_clint
    lw   t0, 0(s3)
    add  t0, t0, t0
.endm
.macro b_plic
    lw   t0, 0(s4)
    add  t0, t0, t0
.endm

program
    la   s0, buffer
    li   t0, 4096
    add  s1, s0, t0
    li   s2, 0x10000000
    li   s3, 0x02000000
    li   s4, 0x0c000004
    li   t0, 1
    fcvt.d.l ft1, t0
    fcvt.d.l ft2, t0
    fcvt.d.l ft0, t0
    fcvt.d.l ft3, x0
    fcvt.s.l fa1, t0
    fcvt.s.l fa2, t0
    fcvt.s.l fa0, t0
    li   t0, 3
    fcvt.d.l ft4, t0
    fcvt.s.l fa4, t0
    fcvt.d.l ft6, t0
    fcvt.s.l fa6, t0

    measure "addi+bnez loop", b_none, 1000, 1
    measure "add dependent", b_add_dep, 100, 16
    measure "add independent", b_add_free, 100, 8
    li   t0, 3
    li   t1, 5
    li   t2, 0x7f
    measure "mul dependent small", b_mul_small, 50, 4
    li   t3, 0x1234567812345679
    li   t4, 1
    slli t4, t4, 62
    measure "mul dependent large", b_mul_large, 50, 4
    li   t1, 100
    li   t2, 7
    measure "mul independent", b_mul_free, 50, 2
    measure "div 100/7", b_div, 20, 2
    li   t1, 1
    slli t1, t1, 40
    measure "div 2^40/7", b_div, 20, 2
    li   t1, -1
    srli t1, t1, 1
    li   t2, 1
    measure "div large", b_div, 20, 2
    li   t2, 0
    measure "div by zero", b_div, 20, 2
    li   t1, 100000
    li   t2, 7
    measure "remw", b_divw, 20, 2
    sd   s0, 0(s0)
    mv   t0, s0
    measure "ld chase", b_chase, 100, 8
    measure "ld then use", b_load_use, 100, 4
    measure "lb then use", b_byte_use, 100, 4
    measure "sd hit", b_store, 100, 8
    measure "sd then ld other line", b_store_load_other, 100, 4
    measure "sd then ld same", b_store_load_same, 100, 4
    measure "sd then ld alias", b_store_load_alias, 100, 4
    measure "sd then ld data dependent", b_store_load_data, 100, 4
    measure "branch not taken", b_not_taken, 100, 8
    measure "branch taken", b_taken, 100, 8
    li   t0, 0
    measure "branch alternating", b_alternate, 300, 1
    li   t0, 88172645463325252
    measure "branch random", b_random, 600, 1
    measure "call+ret", b_call, 100, 2
    measure "call+nops+ret", b_call_nops, 100, 2
    measure "fadd.d", b_fadd_d, 50, 4
    measure "fmul.d", b_fmul_d, 50, 4
    measure "fmadd.d", b_fmadd_d, 50, 4
    measure "fadd.d independent", b_fadd_d_free, 50, 2
    measure "fadd.s", b_fadd_s, 50, 4
    measure "fmul.s", b_fmul_s, 50, 4
    measure "fdiv.d", b_fdiv_d, 20, 1
    measure "fdiv.s", b_fdiv_s, 20, 1
    measure "fsqrt.d", b_fsqrt_d, 20, 1
    measure "fsqrt.s", b_fsqrt_s, 20, 1
    li   t1, 1
    measure "amoadd", b_amoadd, 50, 4
    measure "amoadd.aqrl", b_amoadd_aqrl, 50, 4
    measure "lr+sc", b_lr_sc, 50, 4
    measure "fence", b_fence, 100, 4
    measure "sd+fence", b_store_fence, 100, 4
    measure "fence.i", b_fence_i, 20, 1
    measure "csrr", b_csrr, 50, 4
    measure "csrw", b_csrw, 50, 4
    measure "sfence.vma", b_sfence, 50, 2
    csrr s6, mtvec
    la   t0, handler
    csrw mtvec, t0
    measure "ecall+mret", b_ecall, 50, 2
    csrw mtvec, s6
    measure "UART load", b_uart, 30, 2
    measure "CLINT load", b_clint, 30, 2
    measure "PLIC load", b_plic, 30, 2
    call misses
end_program

    .balign 64
leaf:
    ret
    .balign 64
leaf_nops:
    nop
    nop
    ret
    .balign 64
handler:
    csrr t0, mepc
    addi t0, t0, 4
    csrw mepc, t0
    mret

# Misses of the data cache, one line after the other through 64 KiB, four times what the cache holds.
.macro walk name, instruction
    li   s11, 2
1:
    la   t0, area
    li   s10, 1024
    begin "\name"
2:
    \instruction t1, 0(t0)
    addi t0, t0, 64
    addi s10, s10, -1
    bnez s10, 2b
    end
    addi s11, s11, -1
    bnez s11, 1b
.endm
misses:
    mv   s5, ra
    walk "load miss clean", ld
    walk "store miss dirty", sd
    # Loads whose victims are all dirty: they are made so in between.
    li   s11, 2
3:
    la   t0, area
    li   s10, 256
4:
    sd   s10, 0(t0)
    addi t0, t0, 64
    addi s10, s10, -1
    bnez s10, 4b
    la   t0, area + 16384
    li   s10, 256
    begin "load miss dirty"
5:
    ld   t1, 0(t0)
    addi t0, t0, 64
    addi s10, s10, -1
    bnez s10, 5b
    end
    addi s11, s11, -1
    bnez s11, 3b
    jr   s5

    .bss
    .balign 4096
buffer:
    .skip 8192
    .balign 4096
area:
    .skip 65536
