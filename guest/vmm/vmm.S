/* Start, traps, and accesses that may trap. The first word of a hart's structure is in mscratch while a VM runs, and in tp
 * while the monitor does. */
.option norelax
.section .text.init
.globl _start
_start:
    csrw mie, zero
    lla t0, trap
    csrw mtvec, t0
    li t0, 16                   /* MAX_HARTS */
    bgeu a0, t0, 3f
    lla tp, harts
    slli t0, a0, 10
    add tp, tp, t0
    sd a0, 280(tp)
    lla sp, stacks
    addi t0, a0, 1
    slli t0, t0, 12
    add sp, sp, t0
    sd sp, 256(tp)
    csrw mscratch, zero
    /* The first one prepares the VMs; the others wait for it. */
    lla t0, lottery
    li t1, 1
    amoswap.w t0, t1, (t0)
    bnez t0, 2f
    call first
2:  mv a0, tp
    call others
3:  wfi
    j 3b

.balign 4
trap:
    csrrw tp, mscratch, tp
    beqz tp, 5f
    .irp r, 1,2,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\r, 8*\r(tp)
    .endr
    csrrw t0, mscratch, zero
    sd t0, 8*4(tp)
    csrr t0, mepc
    sd t0, 0(tp)
    ld sp, 256(tp)
    mv a0, tp
    call handle
    mv a0, tp
.globl enter
enter:
    mv tp, a0
    ld t0, 0(tp)
    csrw mepc, t0
    csrw mscratch, tp
    .irp r, 1,2,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\r, 8*\r(tp)
    .endr
    ld tp, 8*4(tp)
    mret
5:  /* A trap of our own: an access that may. */
    csrrw tp, mscratch, zero
    sd t0, 8(tp)                /* Our own t0; the VM's ra in this place is saved on the stack by the callers. */
    ld t0, 264(tp)
    beqz t0, own
    csrw mepc, t0
    csrr t0, mcause
    sd t0, 272(tp)
    li t0, 0x1800               /* back into machine mode, without interrupts */
    csrs mstatus, t0
    li t0, 0x80
    csrc mstatus, t0
    ld t0, 8(tp)
    mret
own:
    lla a0, own_trap
    call fatal

/* u64 try_load(u64 addr, u32 width, u64 *value). A trap changes the VM's ra, which is kept in t6, and MPP, which is kept
 * in t3. */
.macro guarded
    ld t6, 8(tp)
    csrr t3, mstatus
    lla t5, 9f
    sd t5, 264(tp)
    sd zero, 272(tp)
.endm
.macro unguarded
9:  csrw mstatus, t3
    sd zero, 264(tp)
    sd t6, 8(tp)
    ld a0, 272(tp)
    ret
.endm
.globl try_load
try_load:
    guarded
    li t0, 1
    beq a1, t0, 1f
    li t0, 2
    beq a1, t0, 2f
    li t0, 4
    beq a1, t0, 4f
    ld t1, 0(a0)
    j 8f
1:  lbu t1, 0(a0)
    j 8f
2:  lhu t1, 0(a0)
    j 8f
4:  lwu t1, 0(a0)
8:  sd t1, 0(a2)
    unguarded
.globl try_store
try_store:
    guarded
    li t0, 1
    beq a1, t0, 1f
    li t0, 2
    beq a1, t0, 2f
    li t0, 4
    beq a1, t0, 4f
    sd a2, 0(a0)
    j 9f
1:  sb a2, 0(a0)
    j 9f
2:  sh a2, 0(a0)
    j 9f
4:  sw a2, 0(a0)
    unguarded
/* u64 try_fetch(u64 addr, u64 *half): two bytes that may be executed, with the translation and rights of the mode in MPP. */
.globl try_fetch
try_fetch:
    guarded
    li t2, 0xa0000              /* MPRV, MXR */
    csrs mstatus, t2
    lhu t1, 0(a0)
    csrw mstatus, t3
    sd t1, 0(a1)
    unguarded

.section .rodata
own_trap: .asciz "a trap within the monitor"
.globl partitions, partitions_end, second, second_end
partitions: .incbin PARTITIONS
partitions_end: .byte 0
.balign 16
second: .incbin SECOND
second_end:
.section .data
.balign 4
lottery: .word 0
.section .bss
.balign 16
stacks: .space 16 * 4096
