/* Start, traps, and what is in the image beside the monitor. A hart's structure is in mscratch while anybody else runs,
 * and in tp while the monitor does. */
.option norelax
.section .text.init
.globl _start, fatal
_start:
    csrw mie, zero
    lla t0, fatal
    csrw mtvec, t0
    csrr t0, mhartid
    li t1, 16                   /* MAX_HARTS */
    bgeu t0, t1, 3f
    lla tp, harts
    slli t1, t0, 10             /* sizeof(struct hart) */
    add tp, tp, t1
    lla sp, stacks
    addi t1, t0, 1
    slli t1, t1, 13
    add sp, sp, t1
    sd sp, 256(tp)
    csrw mscratch, tp
    bnez t0, 2f
    call first
    lla t1, ready
    li t2, 1
    fence rw, rw
    sw t2, 0(t1)
1:  lla t1, trap_entry
    csrw mtvec, t1
    mv a0, tp
    call begin                  /* sets mepc and the hart's registers */
    j leave
2:  lla t1, ready
    lw t2, 0(t1)
    beqz t2, 2b
    fence rw, rw
    j 1b
3:  wfi
    j 3b

.balign 4
trap_entry:
    csrrw tp, mscratch, tp
    .irp r, 1,2,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\r, (8 * \r)(tp)
    .endr
    csrr t0, mscratch
    sd t0, (8 * 4)(tp)
    csrw mscratch, tp
    ld sp, 256(tp)
    /* The monitor itself is not to trap. */
    lla t0, fatal
    csrw mtvec, t0
    mv a0, tp
    call trap
    lla t0, trap_entry
    csrw mtvec, t0
leave:
    .irp r, 1,2,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\r, (8 * \r)(tp)
    .endr
    ld x4, (8 * 4)(tp)
    mret

/* A trap within the monitor: the machine ends with exit code 126. */
.balign 4
fatal:
    li t0, 0x100000
    li t1, 0x7e3333
    sw t1, 0(t0)
    j .

.section .data
.balign 8
ready: .word 0

.section .host, "ax"
.incbin HOST
