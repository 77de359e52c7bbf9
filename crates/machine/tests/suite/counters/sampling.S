# Samples an event (EVENT, every PERIOD times) while harts run in user mode: loads, stores, atomics and branches, with a
# call into machine mode each round. Of each sample it keeps the program counter, the cycle, and what the counter has
# counted beyond its overflow.
    .globl _start
_start:
    csrr s0, mhartid
    la t0, trap
    csrw mtvec, t0
    li t0, -1
    csrw pmpaddr0, t0
    li t0, 0x1f
    csrw pmpcfg0, t0
    la s1, data
    slli t1, s0, 17
    add s1, s1, t1
    la s2, samples
    slli t1, s0, 15
    add s2, s2, t1
    la s4, shared
    li t0, EVENT
    csrw mhpmevent3, t0
    li t0, -PERIOD
    csrw mhpmcounter3, t0
    li t0, 1 << 13
    csrs mie, t0
    li s3, ROUNDS
    la t0, user
    csrw mepc, t0
    li t0, 0x1800
    csrc mstatus, t0
    mret

user:
    mv a1, s1
    li a2, 400
    addi a3, s3, 1234
1:  ld a4, 0(a1)
    add a3, a3, a4
    slli a5, a3, 13
    xor a3, a3, a5
    srli a5, a3, 7
    xor a3, a3, a5
    andi a5, a3, 8
    beqz a5, 2f
    sd a3, 8(a1)
    addi a0, a0, 3
2:  addi a1, a1, 320
    addi a2, a2, -1
    bnez a2, 1b
    amoadd.d x0, a3, (s4)
    li a0, 0
    ecall
    addi s3, s3, -1
    bnez s3, user
    li a0, 1
    ecall

    .align 2
trap:
    csrr t3, mhpmcounter3
    csrr t4, mcause
    bltz t4, sample
    csrr t4, mepc
    addi t4, t4, 4
    csrw mepc, t4
    bnez a0, end
    mret
sample:
    li t4, 1 << 63
    csrc mhpmevent3, t4
    li t4, -PERIOD
    csrw mhpmcounter3, t4
    li t4, 1 << 13
    csrc mip, t4
    csrr t4, mepc
    csrr t5, mcycle
    sd t4, 0(s2)
    sd t5, 8(s2)
    sd t3, 16(s2)
    addi s2, s2, 24
    mret

end:
    csrw mie, x0
    li t4, 1
    addi t5, s4, 8
    amoadd.d x0, t4, (t5)
    bnez s0, 2f
1:  ld t4, 8(s4)
    li t5, HARTS
    bne t4, t5, 1b
    li t4, 0x100000
    li t5, 0x5555
    sw t5, 0(t4)
2:  wfi
    j 2b

    .data
    .align 6
shared:
    .dword 0, 0
    .align 12
samples:
    .space 4 << 15
data:
    .space 4 << 17
