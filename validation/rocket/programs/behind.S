# A load behind a store, with the end of a straight run of instructions between: a branch, a jump, a CSR.
.include "region.inc"
# A loop over `first`, `between` and `last`, which can lead to `9`, as compressed code may be, and instructions behind
# that let all stores be written.
.macro around name, first, between, last, at=0
    .balign 64
    .option push
    .option rvc
    .rept \at
    c.nop
    .endr
    li   s11, 2
7772:
    li   s10, 100
    begin "\name"
    .balign 8
    .rept \at
    c.nop
    .endr
7773:
    \first
    \between
9:
    \last
    .rept 6
    c.nop
    .endr
    addi s10, s10, -1
    bnez s10, 7773b
    end
    addi s11, s11, -1
    bnez s11, 7772b
    .option pop
.endm
program
    la   s0, buffer
    li   t1, 4096
    add  s3, s0, t1
    li   a4, 0
    li   a5, 7
    li   t0, 7
    fcvt.d.l ft0, t0
    fcvt.d.l ft1, t0

    around "sw beq lw", "sw t0, 0(s0)", "beq x0, t0, 9f", "lw t3, 0(s0)"
    around "sw bne lw taken", "sw t0, 0(s0)", "bne x0, t0, 9f", "lw t3, 0(s0)"
    around "sw c.bnez c.lw at 2", "c.sw a5, 0(s0)", "c.bnez a4, 9f", "c.lw a5, 0(s0)", 1
    around "sw j lw", "sw t0, 0(s0)", "j 9f; c.nop", "lw t3, 0(s0)"
    around "sw csrr lw", "sw t0, 0(s0)", "csrr t4, mscratch", "lw t3, 0(s0)"
    around "sw csrw lw", "sw t0, 0(s0)", "csrw mscratch, t4", "lw t3, 0(s0)"
    around "sd bne lb", "sd t0, 0(s0)", "bne x0, x0, 9f", "lb t3, 5(s0)"
    around "sb bne ld", "sb t0, 3(s0)", "bne x0, x0, 9f", "ld t3, 0(s0)"
    around "sh bne lhu beside", "sh t0, 2(s0)", "bne x0, x0, 9f", "lhu t3, 4(s0)"
    around "sd bne ld alias", "sd t0, 0(s0)", "bne x0, x0, 9f", "ld t3, 0(s3)"
    around "fsd bne fld", "fsd ft0, 0(s0)", "bne x0, x0, 9f", "fld ft3, 0(s0)"
    around "fsw bne lw", "fsw ft0, 4(s0)", "bne x0, x0, 9f", "lw t3, 4(s0)"
    around "amo bne lw", "amoadd.w t4, t0, (s0)", "bne x0, x0, 9f", "lw t3, 0(s0)"
    around "amo bne addi lw", "amoadd.w t4, t0, (s0)", "bne x0, x0, 9f", "addi t5, s0, 0; lw t3, 0(t5)"
    around "sw bne amo", "sw t0, 0(s0)", "bne x0, x0, 9f", "amoadd.w t4, t0, (s0)"
    around "sw bne lr", "sw t0, 0(s0)", "bne x0, x0, 9f", "lr.w t4, (s0)"
    around "sw addi bne lw", "sw t0, 0(s0); addi t5, t5, 1", "bne x0, x0, 9f", "lw t3, 0(s0)"
    around "sw sw bne lw", "sw t0, 0(s0); sw t0, 64(s0)", "bne x0, x0, 9f", "lw t3, 0(s0)"
    around "sw bne sw lw", "sw t0, 0(s0)", "bne x0, x0, 9f", "sw t0, 64(s0); lw t3, 0(s0)"
    around "sw bne lw lw", "sw t0, 0(s0)", "bne x0, x0, 9f", "lw t3, 64(s0); lw t4, 0(s0)"
    around "sw bne lw lw lw", "sw t0, 0(s0)", "bne x0, x0, 9f", "lw t3, 64(s0); lw t4, 72(s0); lw t5, 0(s0)"
    around "sw bne addi lw", "sw t0, 0(s0)", "bne x0, x0, 9f", "addi t5, t5, 1; lw t3, 0(s0)"
    around "sw bne bne lw", "sw t0, 0(s0); bne x0, x0, 9f", "bne x0, x0, 9f", "lw t3, 0(s0)"

    # Functions.
    .macro called
    sw   t0, 0(s0)
    jal  ra, 8f
    lw   t4, 8(s0)
    j    9f
    .balign 4
8:
    lw   t3, 0(s0)
    sw   t0, 8(s0)
    ret
9:
    .endm
    measure "arguments and results", called, 100, 1

    # A counter in memory, as code without optimisation has it.
    .macro counter
    lw   t3, 0(s0)
    addi t3, t3, 1
    sw   t3, 0(s0)
    .endm
    .balign 64
    li   s11, 2
1:  sw   x0, 0(s0)
    li   t4, 200
    begin "counter in memory"
2:  counter
    bne  t3, t4, 2b
    end
    addi s11, s11, -1
    bnez s11, 1b
end_program
    .bss
    .balign 4096
buffer:
    .zero 8192
