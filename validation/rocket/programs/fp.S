# Chains of floating point, and what passes between it, integers and memory.
.include "region.inc"
.macro f_fmv_chain
    fmv.d ft0, ft1
    fmv.d ft1, ft0
.endm
.macro f_compare
    flt.d t0, ft1, ft2
    add  t1, t0, t0
.endm
.macro f_compare_branch
    flt.d t0, ft1, ft2
    bnez t0, 1f
    nop
1:
.endm
.macro f_to_int
    fcvt.l.d t0, ft1
    add  t1, t0, t0
.endm
.macro f_round_trip
    fcvt.d.l ft0, t0
    fcvt.l.d t0, ft0
.endm
.macro f_move_round_trip
    fmv.d.x ft0, t0
    fmv.x.d t0, ft0
.endm
.macro f_load_use
    fld  ft0, 0(s0)
    fadd.d ft1, ft0, ft2
.endm
.macro f_load_store
    fld  ft0, 0(s0)
    fsd  ft0, 64(s0)
.endm
.macro f_flw_use
    flw  fa0, 0(s0)
    fadd.s fa1, fa0, fa2
.endm
.macro f_dot
    fld  ft0, 0(s0)
    fld  ft1, 64(s0)
    fmadd.d ft2, ft0, ft1, ft2
.endm
.macro f_mixed
    fadd.d ft0, ft1, ft2
    fadd.s fa0, fa1, fa2
    fsgnj.d ft3, ft1, ft2
    fmul.s fa3, fa1, fa2
.endm
.macro f_widen
    fcvt.d.s ft0, fa0
    fcvt.s.d fa0, ft0
.endm
.macro f_div_behind
    fadd.d ft0, ft1, ft2
    fdiv.d ft3, ft0, ft2
.endm
.macro f_div_zero
    fdiv.d ft3, ft4, ft2
.endm
.macro f_div_and_add
    fdiv.d ft3, ft1, ft2
    fadd.d ft5, ft1, ft2
    fadd.d ft6, ft1, ft2
.endm
.macro f_horner
    fmul.d ft0, ft0, ft1
    fadd.d ft0, ft0, ft2
.endm
.macro f_flags
    fadd.d ft0, ft1, ft2
    frflags t0
.endm
program
    la   s0, buffer
    li   t0, 3
    fcvt.d.l ft1, t0
    fcvt.s.l fa1, t0
    li   t0, 7
    fcvt.d.l ft2, t0
    fcvt.s.l fa2, t0
    fcvt.d.l ft4, x0
    fmv.d ft0, ft1
    measure "sign injection chain", f_fmv_chain, 50, 4
    measure "compare", f_compare, 50, 4
    measure "compare and branch", f_compare_branch, 50, 4
    measure "to integer", f_to_int, 50, 4
    measure "convert and back", f_round_trip, 50, 4
    measure "move and back", f_move_round_trip, 50, 4
    measure "fld then use", f_load_use, 50, 4
    measure "fld then fsd", f_load_store, 50, 4
    measure "flw then use", f_flw_use, 50, 4
    measure "dot product", f_dot, 50, 2
    measure "mixed widths", f_mixed, 50, 2
    measure "widen and narrow", f_widen, 50, 2
    measure "divide a result", f_div_behind, 20, 1
    measure "divide zero", f_div_zero, 20, 2
    measure "divide and add", f_div_and_add, 20, 1
    measure "Horner", f_horner, 50, 4
    measure "read flags", f_flags, 50, 2
end_program
    .bss
    .balign 4096
buffer:
    .skip 4096
