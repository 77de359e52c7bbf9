# Instruction fetch: straight code larger than the cache, jumps from line to line, alignment of loops and targets.
.include "region.inc"
.macro loop_at name, before
    .balign 64
    .option push
    .option rvc
    .rept \before
    c.nop
    .endr
    li   s10, 400
    begin "\name"
1:
    addi t0, t0, 3
    xor  t1, t1, t0
    c.nop
    addi s10, s10, -1
    bnez s10, 1b
    end
    .option pop
.endm
program
    loop_at "short loop at 0", 0
    loop_at "short loop at 2", 1
    loop_at "short loop at 4", 2
    loop_at "short loop at 6", 3

    # Tight chains of jumps in the cache, more of them than the BTB holds.
    .macro hop
    j    1f
    .balign 32
1:
    .endm
    measure "20 jumps", hop, 50, 20
    measure "60 jumps", hop, 50, 60

    # 24 KiB of straight code, entered again and again.
    li   s11, 4
1:
    begin "straight 24 KiB"
    .rept 6000
    .option push
    .option norvc
    addi t0, t0, 1
    .option pop
    .endr
    end
    addi s11, s11, -1
    beqz s11, 2f
    la   t0, 1b
    jr   t0
2:
    # A jump to each of 512 lines of 32 KiB.
    li   s11, 3
3:
    begin "jumps over 32 KiB"
    .rept 512
    .option push
    .option norvc
    j    4f
    .option pop
    .balign 64
4:
    .endr
    end
    addi s11, s11, -1
    beqz s11, 5f
    la   t0, 3b
    jr   t0
5:
end_program
