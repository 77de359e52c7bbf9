# Predictions that lead to lines that are not in L1I: they are fetched before what is really needed.
.include "region.inc"
# A round calls one of two functions in turn, through a register, so that the prediction is always the other one. Before
# that, `before`; behind it, `count` instructions.
.macro in_turn name, before, count=0
    .balign 64
    li   s11, 2
7772:
    la   t1, 8f
    la   t2, 7f
    xor  t3, t1, t2
    li   s10, 100
    begin "\name"
    .balign 8
7773:
    \before
    xor  t1, t1, t3
    .rept \count
    nop
    .endr
    jalr t0, t1, 0
    addi s10, s10, -1
    bnez s10, 7773b
    end
    addi s11, s11, -1
    bnez s11, 7772b
    j    9f
    .balign 64
    nop
    .balign 64
8:  jr   t0
    .balign 64
    nop
    .balign 64
7:  jr   t0
9:
.endm
program
    .option push
    .option norvc
    in_turn "targets there", ""
    in_turn "targets not there", "fence.i"
    in_turn "targets not there, 8 nop", "fence.i", 8
    in_turn "targets not there, 3 nop", "fence.i", 3

    # Branches whose wrong direction is in a line that is not there.
    .macro far_branch
    fence.i
    xori t1, t1, 1
    .rept 8
    nop
    .endr
    beqz t1, 1f
    nop
1:
    .endm
    li   t1, 0
    measure "fence.i and a branch", far_branch, 50, 1
    .balign 64
    li   s11, 2
2:  li   s10, 100
    li   t1, 0
    begin "branches to lines not there"
3:  fence.i
    xori t1, t1, 1
    .rept 8
    nop
    .endr
    beqz t1, 4f
    addi s10, s10, -1
    bnez s10, 3b
    j    5f
    .balign 64
    .zero 64, 0x13
    .balign 64
4:  addi s10, s10, -1
    bnez s10, 3b
    j    5f
    .balign 64
5:  end
    addi s11, s11, -1
    bnez s11, 2b

    # Returns to a line that is not there, predicted wrong: the stack has been changed.
    .balign 64
    li   s11, 2
2:  li   s10, 100
    begin "returns elsewhere"
3:  fence.i
    jal  ra, 4f
    nop
    j    6f
    .balign 64
4:  addi ra, ra, 4
    .rept 6
    nop
    .endr
    ret
    .balign 64
6:  addi s10, s10, -1
    bnez s10, 3b
    end
    addi s11, s11, -1
    bnez s11, 2b

    # Each empties L1I while what is behind it is on its way, straight on in the next line.
    .macro rows_of_fences name, at
    .balign 64
    li   s11, 2
2:  li   s10, 50
    begin "\name"
    .balign 64
    .rept \at / 4
    nop
    .endr
3:  .rept 4
    fence.i
    .endr
    addi s10, s10, -1
    bnez s10, 3b
    end
    addi s11, s11, -1
    bnez s11, 2b
    .endm
    rows_of_fences "4 fence.i in a line", 0
    rows_of_fences "4 fence.i up to its end", 48
    rows_of_fences "4 fence.i across its end", 52
    .option pop
end_program
