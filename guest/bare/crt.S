# Start-up, trap entry and mode switch of the bare-metal checks.
# Offsets into struct hart (bare.h) are checked by static assertions in bare.c.
#define H_REGS   0
#define H_SREGS  256
#define H_WANT   512
#define H_MSTACK 520
#define H_SSTACK 528
#define H_CTX    536      /* ra sp gp s0..s11 */
#define H_STACK  656
#define HART_SHIFT 11     /* sizeof(struct hart) == 2048 */
#define MAX_HARTS 16

    .section .text.init
    .globl _start
_start:
    csrw mie, zero
    csrw mip, zero
    la   t0, early_trap
    csrw mtvec, t0
    .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    csrr t0, mhartid
    li   t1, MAX_HARTS
    bgeu t0, t1, park
    bnez t0, secondary_wait
    la   t1, __bss_start
    la   t2, __bss_end
1:  bgeu t1, t2, 2f
    sd   zero, 0(t1)
    addi t1, t1, 8
    j    1b
2:  li   a0, 0
    call setup_hart
    fence rw, rw
    la   t1, boot_ready
    li   t2, 1
    sw   t2, 0(t1)
    fence rw, rw
    call bare_main
park:
    wfi
    j    park

secondary_wait:
    la   t1, boot_ready
1:  lw   t2, 0(t1)
    beqz t2, 1b
    fence rw, rw
    mv   a0, t0
    call setup_hart
    call secondary_main
    j    park

# a0 = hart number; sets tp, sp, mscratch, sscratch, mtvec
setup_hart:
    la   tp, harts
    slli t1, a0, HART_SHIFT
    add  tp, tp, t1
    ld   sp, H_STACK(tp)
    bnez sp, 1f
    la   t1, stacks
    addi t2, a0, 1
    slli t2, t2, 15
    add  sp, t1, t2
    sd   sp, H_STACK(tp)
    li   t2, -8192
    add  t2, sp, t2
    sd   t2, H_MSTACK(tp)
    li   t1, -8192
    add  t2, t2, t1
    sd   t2, H_SSTACK(tp)
1:  csrw mscratch, tp
    csrw sscratch, tp
    la   t1, mtrap
    csrw mtvec, t1
    la   t1, strap
    csrw stvec, t1
    ret

# a trap before the harness stands: nothing can be reported but failure
    .balign 4
early_trap:
    li   t0, 0x100000
    li   t1, 0x7e3333
    sw   t1, 0(t0)
    j    .

.macro SAVE_ALL base
    sd x1, \base+8(tp)
    sd x2, \base+16(tp)
    sd x3, \base+24(tp)
    .irp n, 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\n, \base+8*\n(tp)
    .endr
.endm
.macro LOAD_ALL base
    ld x1, \base+8(tp)
    ld x2, \base+16(tp)
    ld x3, \base+24(tp)
    .irp n, 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\n, \base+8*\n(tp)
    .endr
    ld x4, \base+32(tp)
.endm

    .text
    .balign 4
    .globl mtrap
mtrap:
    csrrw tp, mscratch, tp
    SAVE_ALL H_REGS
    csrr  t0, mscratch
    sd    t0, H_REGS+32(tp)
    csrw  mscratch, tp
    ld    sp, H_MSTACK(tp)
    .option push
    .option norelax
    la    gp, __global_pointer$
    .option pop
    mv    a0, tp
    call  trap_m
    LOAD_ALL H_REGS
    mret

    .balign 4
    .globl strap
strap:
    csrrw tp, sscratch, tp
    SAVE_ALL H_SREGS
    csrr  t0, sscratch
    sd    t0, H_SREGS+32(tp)
    csrw  sscratch, tp
    ld    sp, H_SSTACK(tp)
    mv    a0, tp
    call  trap_s
    LOAD_ALL H_SREGS
    sret

# uint64_t run_enter(fn, a0, a1): mret to fn in the mode that mstatus.MPP holds
    .globl run_enter
run_enter:
    sd ra, H_CTX(tp)
    sd sp, H_CTX+8(tp)
    sd gp, H_CTX+16(tp)
    sd s0, H_CTX+24(tp)
    sd s1, H_CTX+32(tp)
    sd s2, H_CTX+40(tp)
    sd s3, H_CTX+48(tp)
    sd s4, H_CTX+56(tp)
    sd s5, H_CTX+64(tp)
    sd s6, H_CTX+72(tp)
    sd s7, H_CTX+80(tp)
    sd s8, H_CTX+88(tp)
    sd s9, H_CTX+96(tp)
    sd s10, H_CTX+104(tp)
    sd s11, H_CTX+112(tp)
    csrw mepc, a0
    mv a0, a1
    mv a1, a2
    la ra, run_end
    mret

    .globl run_end
run_end:
    li a7, 0x454e44
    ecall
    j run_end

# mtvec/stvec table for the vectored checks: entry n puts n into t5 and joins
    .balign 256
    .globl vec_m
vec_m:
    .option push
    .option norvc
    .option norelax
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    j vec_m_\n
    .endr
    .option pop
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
vec_m_\n:
    la t5, vec_slot
    li t4, \n
    sd t4, 0(t5)
    j mtrap
    .endr
    .balign 256
    .globl vec_s
vec_s:
    .option push
    .option norvc
    .option norelax
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    j vec_s_\n
    .endr
    .option pop
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
vec_s_\n:
    la t5, vec_slot
    li t4, \n
    sd t4, 0(t5)
    j strap
    .endr

    .data
    .balign 8
boot_ready: .word 0
    .balign 8
    .globl vec_slot
vec_slot: .dword -1
    .bss
    .balign 2048
    .globl harts
harts:  .skip 2048*MAX_HARTS
    .balign 4096
stacks: .skip 32768*MAX_HARTS
