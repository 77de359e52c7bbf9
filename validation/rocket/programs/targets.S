# Rounds of taken branches and jumps, nearly as many as the branch target buffer holds.
.include "region.inc"
.macro hops name, count, first, hop
    .balign 64
    li   s11, 2
7772:
    li   s10, 200
    begin "\name"
    .balign 64
    \first
7773:
    .rept \count
    \hop
    .endr
    addi s10, s10, -1
    bnez s10, 7773b
    end
    addi s11, s11, -1
    bnez s11, 7772b
.endm
.macro taken
    beq  x0, x0, 6f
    nop
6:
.endm
.macro jumped
    j    6f
    nop
6:
.endm
.macro spread
    j    6f
    .rept 15
    nop
    .endr
6:
.endm
program
    .option push
    .option norvc
    hops "16 branches", 16, "nop", taken
    hops "20 branches", 20, "nop", taken
    hops "23 branches", 23, "nop", taken
    hops "24 branches", 24, "nop", taken
    hops "24 branches at 0", 24, "", taken
    hops "24 jumps", 24, "nop", jumped
    hops "26 branches", 26, "nop", taken
    hops "27 jumps", 27, "", jumped
    hops "30 branches", 30, "nop", taken
    hops "22 jumps in as many lines", 22, "nop", spread
    hops "20 branches again", 20, "nop", taken
    .option pop
end_program
