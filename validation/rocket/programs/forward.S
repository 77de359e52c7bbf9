# A load behind a store, by size of both and distance of their bytes, with nothing and with one instruction between.
.include "region.inc"
.macro pair name, store, load, offset
    .macro b_0_\name
    \store t1, 0(s0)
    \load t2, \offset(s0)
    .endm
    .macro b_1_\name
    \store t1, 0(s0)
    add  t3, t4, t5
    \load t2, \offset(s0)
    .endm
    measure "\name", b_0_\name, 60, 4
    measure "\name+1", b_1_\name, 60, 4
.endm
.macro b_last_but_one
    sd   t1, 0(s0)
    sd   t1, 64(s0)
    ld   t2, 0(s0)
.endm
.macro b_last_but_two
    sd   t1, 0(s0)
    sd   t1, 64(s0)
    sd   t1, 128(s0)
    ld   t2, 0(s0)
.endm
.macro b_stores_loads
    sd   t1, 0(s0)
    ld   t2, 64(s0)
    sd   t1, 8(s0)
    ld   t3, 72(s0)
    ld   t4, 0(s0)
.endm
program
    la   s0, buffer
    pair sd_ld_0, sd, ld, 0
    pair sd_ld_8, sd, ld, 8
    pair sd_lw_4, sd, lw, 4
    pair sd_lb_7, sd, lb, 7
    pair sd_lb_8, sd, lb, 8
    pair sw_ld_0, sw, ld, 0
    pair sw_lw_4, sw, lw, 4
    pair sh_lw_0, sh, lw, 0
    pair sh_lh_2, sh, lh, 2
    pair sb_lb_0, sb, lb, 0
    pair sb_lb_1, sb, lb, 1
    pair sb_ld_0, sb, ld, 0
    measure "last but one", b_last_but_one, 60, 2
    measure "last but two", b_last_but_two, 60, 2
    measure "stores and loads", b_stores_loads, 60, 2
end_program
    .bss
    .balign 4096
buffer:
    .skip 4096
