# Start of the speed programs: the first HARTS harts run, others sleep; a trap is a failure.
#define STACK 16384
    .section .text.init, "ax"
    .globl _start
_start:
    la   t0, trapped
    csrw mtvec, t0
    csrr a0, mhartid
    li   t0, HARTS
    bgeu a0, t0, sleep
    li   t0, 0x2000             # mstatus.FS: floating point on
    csrs mstatus, t0
    la   sp, stacks
    li   t0, STACK
    addi t1, a0, 1
    mul  t0, t0, t1
    add  sp, sp, t0
    call start
    .globl sleep
sleep:
    wfi
    j    sleep

    .balign 4
trapped:
    li   t0, 0x100000           # the test device
    li   t1, 0x13333            # failure, code 1
    sw   t1, 0(t0)
1:  j    1b

    .bss
    .balign 16
stacks:
    .skip STACK * HARTS
