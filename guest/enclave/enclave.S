/* Start of an enclave: a0 and a1 are from the monitor, the stack is at the end of its memory. */
.option norelax
.section .text.init
.globl _start
_start:
    call enclave
    li a7, 0x200                /* CALL_EXIT */
    ecall
    j .
