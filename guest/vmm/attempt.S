/* Executing anything (attempt.h). The vector needs no register to be sane; what runs may change all but stvec and
 * satp. */
.option norelax
.text
.globl attempt
attempt:
    lla t0, run
    .irp r, 1,2,3,4
    sd x\r, (296 + 8 * \r)(t0)
    .endr
    .irp r, 8,9
    sd x\r, (296 + 8 * (\r - 3))(t0)
    .endr
    .irp r, 18,19,20,21,22,23,24,25,26,27
    sd x\r, (296 + 8 * (\r - 11))(t0)
    .endr
    lla t1, vector_of_attempts
    csrw stvec, t1
    ld t1, 256(t0)
    csrw sepc, t1
    li t1, 0x120                /* SPP, SPIE: without interrupts */
    csrc sstatus, t1
    ld t2, 264(t0)
    bnez t2, 1f
    li t1, 0x100
    csrs sstatus, t1
1:  mv x31, t0
    .irp r, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    ld x\r, (8 * \r)(x31)
    .endr
    ld x31, (8 * 31)(x31)
    sret
.balign 4
vector_of_attempts:
    csrw sscratch, t0
    lla t0, run
    .irp r, 1,2,3,4,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\r, (8 * \r)(t0)
    .endr
    csrr t1, sscratch
    sd t1, (8 * 5)(t0)
    csrr t1, scause
    sd t1, 272(t0)
    csrr t1, stval
    sd t1, 280(t0)
    csrr t1, sepc
    sd t1, 288(t0)
    .irp r, 1,2,3,4
    ld x\r, (296 + 8 * \r)(t0)
    .endr
    .irp r, 8,9
    ld x\r, (296 + 8 * (\r - 3))(t0)
    .endr
    .irp r, 18,19,20,21,22,23,24,25,26,27
    ld x\r, (296 + 8 * (\r - 11))(t0)
    .endr
    ret
.section .bss
.balign 8
.globl run
run: .space 8 * 54
