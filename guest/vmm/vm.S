/* Start and trap vector of the bare-metal programs in VMs. */
.section .text.init
.globl _start
_start:
    lla t0, vector
    csrw stvec, t0
    lla sp, stack_end
    mv s0, a1
    j start
.balign 4
.globl vector
vector:
    addi sp, sp, -256
    .irp r, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31
    sd x\r, (\r * 8)(sp)
    .endr
    mv a2, ra
    csrr a0, scause
    csrr a1, sepc
    call trap
    csrw sepc, a0
    .irp r, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31
    ld x\r, (\r * 8)(sp)
    .endr
    addi sp, sp, 256
    sret
.section .bss
.balign 16
    .space 4096
stack_end:
