# Start of the speed programs: hart 0 runs run() once and ends the machine; others sleep.
    .section .text.init, "ax"
    .globl _start
_start:
    csrr t0, mhartid
    bnez t0, 2f
    li   t0, 0x2000             # mstatus.FS: floating point on
    csrs mstatus, t0
    la   sp, stack_end
    call run
    la   t0, sink
    sd   a0, 0(t0)
    li   t0, 0x100000           # the test device
    li   t1, 0x5555
    sw   t1, 0(t0)
1:  j    1b
2:  wfi
    j    2b

    .bss
    .balign 16
sink:
    .skip 16
    .skip 16384
stack_end:
