# Units beside one another: the divider of integers and that of floating point, results that come while an access
# misses, and chains through the divider.
.include "region.inc"
.macro d_rem_fdiv
    remu t3, t2, t0
    fdiv.d ft3, ft0, ft1
    add  t4, t4, t3
.endm
.macro d_rem_fdiv_fadd
    remu t3, t2, t0
    fdiv.d ft3, ft0, ft1
    fadd.d ft4, ft3, ft3
    add  t4, t4, t3
.endm
.macro d_fdiv_rem
    fdiv.d ft3, ft0, ft1
    remu t3, t2, t0
    fadd.d ft4, ft3, ft3
    add  t4, t4, t3
.endm
.macro d_fdiv_rem_use
    fdiv.d ft3, ft0, ft1
    remu t3, t2, t0
    add  t4, t4, t3
    fadd.d ft4, ft3, ft3
.endm
.macro d_short_rem_fdiv
    fdiv.d ft3, ft0, ft1
    divu t3, t0, s2
    add  t4, t4, t3
    fadd.d ft4, ft3, ft3
.endm
.macro d_rem_fadd
    remu t3, t2, t0
    fadd.d ft3, ft0, ft1
    fadd.d ft4, ft3, ft1
    add  t4, t4, t3
.endm
.macro d_fdiv_fdiv
    fdiv.d ft3, ft0, ft1
    fdiv.d ft4, ft1, ft0
    fadd.d ft3, ft3, ft4
.endm
.macro d_fdiv_mul
    fdiv.d ft3, ft0, ft1
    mul  t3, t2, t0
    add  t4, t4, t3
    fadd.d ft4, ft3, ft3
.endm
.macro d_sqrt_rem
    fsqrt.s ft3, fa0
    remw t3, t2, t0
    xor  t4, t4, t3
    fadd.s ft4, ft3, ft3
.endm
.macro d_rem_rem_fdiv
    remu t3, t0, s2
    fdiv.s ft3, fa0, fa1
    remu t4, t2, s2
    add  t4, t4, t3
    fsgnj.s ft4, ft3, ft3
.endm

.macro e_fdiv_fadd
    fdiv.d ft3, ft0, ft1
    fadd.d ft4, ft3, ft3
.endm
.macro e_fdiv_fadd_8
    fdiv.d ft3, ft0, ft1
    fadd.d ft4, ft3, ft3
    .rept 8
    nop
    .endr
.endm
.macro e_fdiv_fld
    fdiv.d ft3, ft0, ft1
    fld  ft5, 0(s0)
    fadd.d ft4, ft3, ft3
.endm
.macro e_fdiv_fmv
    fdiv.d ft3, ft0, ft1
    fmv.x.d t1, ft3
.endm
.macro e_fdiv_fmul_s
    fdiv.s ft3, fa0, fa1
    fmul.s ft4, ft3, fa0
.endm
.macro e_fsqrt_fsub
    fsqrt.d ft3, ft1
    fsub.d ft4, ft3, ft0
    nop
.endm
.macro e_chain
    fdiv.d ft3, ft0, ft1
    fadd.d ft3, ft3, ft1
    fdiv.d ft3, ft0, ft3
    fadd.d ft3, ft3, ft1
.endm
.macro e_fadd_j_fdiv
    fadd.d ft4, ft0, ft1
    j    1f
    nop
1:  fdiv.d ft3, ft0, ft1
    fsd  ft3, 0(s0)
.endm

# Four loads of lines that are not there, and something between.
.macro four_loads between
    ld   t0, 0(a0)
    \between
    ld   t1, 64(a0)
    \between
    ld   t2, 128(a0)
    \between
    ld   t3, 192(a0)
    addi a0, a0, 256
    add  t0, t0, t1
    add  t0, t0, t2
    add  t0, t0, t3
.endm
.macro missing name, between
    .balign 64
    li   s11, 2
7772:
    la   a0, lines
    li   s10, 100
    begin "\name"
7773:
    four_loads "\between"
    addi s10, s10, -1
    bnez s10, 7773b
    end
    addi s11, s11, -1
    bnez s11, 7772b
.endm
program
    .option push
    .option norvc
    la   s0, buffer
    li   t0, 7
    li   t2, -1
    li   s2, 3
    li   s3, 77
    li   s4, 64
    li   s5, 0x123456789
    fcvt.d.l ft0, t0
    fcvt.d.l ft1, s3
    fcvt.s.l fa0, t0
    fcvt.s.l fa1, s3
    fsd  ft0, 0(s0)
    measure "remu, fdiv, use of remu", d_rem_fdiv, 100, 1
    measure "remu, fdiv, use of both", d_rem_fdiv_fadd, 100, 1
    measure "fdiv, remu, use of both", d_fdiv_rem, 100, 1
    measure "fdiv, remu, use of remu first", d_fdiv_rem_use, 100, 1
    measure "fdiv, short divu, use of both", d_short_rem_fdiv, 100, 1
    measure "remu, fadd, use of both", d_rem_fadd, 100, 1
    measure "fdiv, fdiv, use of both", d_fdiv_fdiv, 100, 1
    measure "fdiv, mul, use of both", d_fdiv_mul, 100, 2
    measure "fsqrt.s, remw, use of both", d_sqrt_rem, 100, 2
    measure "remu, fdiv.s, remu, use of all", d_rem_rem_fdiv, 100, 1
    measure "fdiv, fadd of it", e_fdiv_fadd, 100, 1
    measure "fdiv, fadd of it, 8 nop", e_fdiv_fadd_8, 100, 1
    measure "fdiv, fld, fadd of it", e_fdiv_fld, 100, 1
    measure "fdiv, fmv of it", e_fdiv_fmv, 100, 1
    measure "fdiv.s, fmul of it", e_fdiv_fmul_s, 100, 2
    measure "fsqrt, fsub of it, nop", e_fsqrt_fsub, 100, 2
    measure "fdiv, fadd, fdiv, fadd", e_chain, 50, 2
    measure "fadd, j, fdiv, fsd of it", e_fadd_j_fdiv, 50, 1
    missing "four misses", ""
    missing "four misses, mul unused", "mul a4, s4, s4"
    missing "four misses, mul used", "mul a4, s4, s4; add a5, a4, a4"
    missing "four misses, large mul used", "mulh a4, s5, s5; add a5, a4, a4"
    missing "four misses, divu unused", "divu a4, s5, s4"
    missing "four misses, fdiv unused", "fdiv.d ft3, ft0, ft1"
    missing "four misses, mul used behind", "mul t4, s4, s4; ld t5, 32(a0); add t4, t4, t5"
    .option pop
end_program
    .bss
    .balign 4096
buffer:
    .skip 4096
lines:
    .skip 65536
