/* Start, traps, and accesses that may trap. The first word of a hart's structure is in mscratch while a VM runs, and in
 * tp while the monitor does. */
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
    slli t0, a0, 15
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

/* What has been learnt of an access: struct seen, of which a hart has 128, behind its other fields. */
.equ SEEN, 1024
.equ SATP, SEEN + 0
.equ VA, SEEN + 8
.equ TO, SEEN + 16
.equ PTE_AT, SEEN + 24
.equ PTE, SEEN + 48
.equ COUNT, SEEN + 72
.equ WORD, SEEN + 88
.equ SPAN, SEEN + 92
.equ BASE_STUB, SEEN + 96
.equ ACCESS_STUB, SEEN + 100
.equ OFFSET, SEEN + 104
.equ LENGTH, SEEN + 106
.equ CAUSE, SEEN + 107
.equ AGAIN, 368

/* Stubs: the register with the address into t3; the access to t3. Registers that are used here are in the structure. */
.option push
.option norvc
.macro base r
    .balign 8
    .if \r == 0
    li t3, 0
    .elseif \r == 4 || \r >= 5 && \r <= 7 || \r >= 28 && \r <= 30
    ld t3, 8*\r(tp)
    .else
    mv t3, x\r
    .endif
    j based
.endm
.macro load op, r
    .balign 16
    .if \r == 0 || \r == 4 || \r >= 5 && \r <= 7 || \r >= 28 && \r <= 30
    \op t3, 0(t3)
    .if \r
    sd t3, 8*\r(tp)
    .endif
    .else
    \op x\r, 0(t3)
    .endif
    j accessed
.endm
.macro store op, r
    .balign 16
    .if \r == 4 || \r >= 5 && \r <= 7 || \r >= 28 && \r <= 30
    ld t5, 8*\r(tp)
    \op t5, 0(t3)
    .else
    \op x\r, 0(t3)
    .endif
    j accessed
.endm
.macro all what, op
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    \what \op \r
    .endr
.endm
.balign 16
.globl base_stubs, load_stubs, store_stubs
base_stubs:
    all base
.balign 16
load_stubs:
    .irp op, lb,lh,lw,ld,lbu,lhu,lwu
    all load, "\op,"
    .endr
.balign 16
store_stubs:
    .irp op, sb,sh,sw,sd
    all store, "\op,"
    .endr
.option pop

/* An access of a VM is done here if it is one that emulate.c has done before, and nothing has changed since: the
 * instruction, the address in its register, satp and all entries of page tables. Everything else goes to `slow`, and is
 * found out anew. */
.balign 4
trap:
    csrrw tp, mscratch, tp
    beqz tp, own
    .irp r, 5,6,7,28,29,30
    sd x\r, 8*\r(tp)
    .endr
    csrr t0, mepc
    csrrw t3, mscratch, zero
    sd t3, 8*4(tp)
    slli t1, t0, 56             /* Bits 1 to 7 of the place choose one of the 128. */
    srli t1, t1, 50
    add t1, t1, tp
    csrr t3, mcause
    lbu t4, CAUSE(t1)
    bne t3, t4, slow
    lbu t5, LENGTH(t1)
    add t5, t0, t5
    csrr t2, mtval
    lui t3, 0xa0                /* MPRV, MXR: with the VM's rights */
    csrrs t4, mstatus, t3
    lhu t3, 0(t0)
    lhu t5, -2(t5)              /* The last half; the first one again if there is one only. */
    csrw mstatus, t4
    slli t5, t5, 16
    or t3, t3, t5
    lwu t5, WORD(t1)
    bne t3, t5, slow
    csrr t3, satp
    ld t5, SATP(t1)
    bne t3, t5, slow
    lwu t3, BASE_STUB(t1)
    jr t3
based:                          /* t3: the register with the address */
    lh t5, OFFSET(t1)
    add t3, t3, t5
    bne t3, t2, slow
    .irp level, 0,8,16
    ld t3, PTE_AT+\level(t1)
    ld t3, 0(t3)
    ld t5, PTE+\level(t1)
    bne t3, t5, slow
    .endr
    ld t5, VA(t1)
    sub t3, t2, t5
    lwu t5, SPAN(t1)
    bgeu t3, t5, slow
    ld t5, TO(t1)
    add t3, t3, t5
    lwu t5, ACCESS_STUB(t1)
    jr t5
accessed:
    ld t3, COUNT(t1)
    addi t3, t3, 1
    sd t3, COUNT(t1)
    lbu t3, LENGTH(t1)
    add t0, t0, t3
    csrw mepc, t0
    sd zero, AGAIN(tp)
    csrw mscratch, tp
    .irp r, 5,6,7,28,29,30
    ld x\r, 8*\r(tp)
    .endr
    ld tp, 8*4(tp)
    mret

slow:
    .irp r, 1,2,3,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,31
    sd x\r, 8*\r(tp)
    .endr
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
own:    /* A trap of our own: an access that may. */
    csrrw tp, mscratch, zero
    sd t0, 8(tp)                /* Our own t0; the VM's ra in this place is saved on the stack by the callers. */
    ld t0, 264(tp)
    beqz t0, 6f
    csrw mepc, t0
    csrr t0, mcause
    sd t0, 272(tp)
    li t0, 0x1800               /* back into machine mode, without interrupts */
    csrs mstatus, t0
    li t0, 0x80
    csrc mstatus, t0
    ld t0, 8(tp)
    mret
6:  /* The instruction has gone, or the device refuses: as if nothing had been tried. t0, t1, t2 and t4 are as above. */
    csrr t3, mepc
    lla t5, base_stubs
    bltu t3, t5, fatal_trap
    lla t5, slow
    bgeu t3, t5, fatal_trap
    ld t0, 8(tp)
    csrw mstatus, t4
    csrw mepc, t0
    csrw mtval, t2
    lbu t3, CAUSE(t1)
    csrw mcause, t3
    j slow
fatal_trap:
    lla a0, own_trap
    call fatal

/* u64 try_load(u64 addr, u32 width, u64 *value). A trap changes the VM's ra, which is kept in t6, and MPP, which is
 * kept in t3. */
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
/* u64 try_fetch(u64 addr, u64 *half): two bytes that may be executed, with the translation and rights of the mode in
 * MPP. */
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
