# Divisions and multiplications by the size and the sign of their operands.
.include "region.inc"
.macro d instruction, name, a, b
    .macro b_\name
    \instruction t0, t1, t2
    add  t1, t1, t0
    sub  t1, t1, t0
    .endm
    li   t1, \a
    li   t2, \b
    measure "\name", b_\name, 12, 2
.endm
program
    d div,  div_8_by_3, 200, 5
    d div,  div_16_by_8, 60000, 201
    d div,  div_32_by_16, 4000000000, 50001
    d div,  div_48_by_3, 200000000000000, 7
    d div,  div_63_by_32, 8000000000000000000, 4000000001
    d div,  div_equal_sizes, 1000000007, 1000000005
    d div,  div_small_by_large, 7, 4000000001
    d div,  div_zero_by, 0, 9
    d div,  div_negative, -100000, 7
    d div,  div_by_negative, 100000, -7
    d div,  div_both_negative, -100000, -7
    d divu, divu_64, -5, 3
    d remu, remu_32, 4000000000, 1001
    d rem,  rem_24, 16000000, 333
    d divw, divw_8, 200, 5
    d divw, divw_31, 2000000000, 3
    d divuw, divuw_32, 4000000000, 17
    d remw, remw_negative, -2000000000, 77
    d mul,  mul_8, 200, 3
    d mul,  mul_32, 4000000000, 3
    d mul,  mul_negative, -3, 1000
    d mulw, mulw_16, 60000, 7
    d mulh, mulh_63, 8000000000000000000, 12345
    d mulhu, mulhu_64, -3, -5
end_program
