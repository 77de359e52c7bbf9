/* Start of the host, accesses that may trap, and the enclaves' images. */
.option norelax
.section .text.init
.globl _start, second_start
_start:
    lla sp, stack_end
    lla t0, unexpected
    csrw stvec, t0
    call host
    j .
second_start:
    lla sp, second_stack_end
    lla t0, unexpected
    csrw stvec, t0
    call second
    j .

.text
/* u64 try_load(u64 at, u64 *value), try_store(u64 at, u64 value), try_jump(u64 at): the cause of the trap, or 0. */
.globl try_load, try_store, try_jump
try_load:
    lla t0, caught
    csrrw t1, stvec, t0
    mv t3, ra
    ld t2, 0(a0)
    sd t2, 0(a1)
    j done
try_store:
    lla t0, caught
    csrrw t1, stvec, t0
    mv t3, ra
    sd a1, 0(a0)
    j done
try_jump:
    lla t0, caught
    csrrw t1, stvec, t0
    mv t3, ra
    jalr a0
    mv ra, t3
done:
    csrw stvec, t1
    li a0, 0
    ret
.balign 4
caught:
    csrr a0, scause
    csrw stvec, t1
    mv ra, t3
    ret
.balign 4
unexpected:
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    call failed_by_trap
    j .

/* void enter_watched(u64 number, u64 command, u64 *after): enters an enclave with a pattern in all registers that the
 * call does not use, and keeps all as they are behind it. */
.globl enter_watched
enter_watched:
    addi sp, sp, -128
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    sd s\r, (8 * \r)(sp)
    .endr
    sd ra, 96(sp)
    sd gp, 104(sp)
    sd tp, 112(sp)
    sd a2, 120(sp)
    .irp r, 1,3,4,5,6,7,8,9,13,14,15,16,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    li x\r, 0x7700 + \r
    .endr
    li a2, 0
    li a7, 0x101                /* CALL_ENTER */
    ecall
    sd a0, -8(sp)
    ld a0, 120(sp)
    .irp r, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\r, (8 * \r)(a0)
    .endr
    ld t0, -8(sp)
    sd t0, (8 * 10)(a0)
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    ld s\r, (8 * \r)(sp)
    .endr
    ld ra, 96(sp)
    ld gp, 104(sp)
    ld tp, 112(sp)
    addi sp, sp, 128
    ret

.section .rodata
.balign 8
.globl ledger_image, ledger_image_end, spy_image, spy_image_end
ledger_image: .incbin LEDGER
.balign 8
ledger_image_end:
spy_image: .incbin SPY
.balign 8
spy_image_end:

.section .bss
.balign 16
.space 8192
stack_end:
.space 4096
second_stack_end:
