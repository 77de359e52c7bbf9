/* Registers of the Nagori control block.
 * Generated from the register table of crates/platform; do not edit.
 * All registers are 64 bits wide; offsets are from the block's first address. */
#ifndef NAGORI_REGS_H
#define NAGORI_REGS_H

#define NAGORI_CTL_BASE                   0x4000000UL  /* Physical address */
#define NAGORI_CTL_SIZE                   0x10000UL    /* Length in bytes */
#define NAGORI_ID                         0x49524f47414eUL /* What CTL_ID reads as */
#define NAGORI_VERSION                    1            /* What CTL_VERSION reads as */

/* Registers */
#define NAGORI_CTL_ID                     0x000        /* read-only: "NAGORI" in ASCII, little-endian: tells this machine from others */
#define NAGORI_CTL_VERSION                0x008        /* read-only: Version of this layout */
#define NAGORI_CTL_ERROR                  0x010        /* Why the last rejected write was rejected, 0 if none was; writing anything clears it */
#define NAGORI_CTL_ERROR_OFFSET           0x018        /* read-only: Offset of the last rejected write [bytes] */
#define NAGORI_CTL_ERROR_VALUE            0x020        /* read-only: Value of the last rejected write */
#define NAGORI_CTL_ERROR_COUNT            0x028        /* read-only: Rejected writes since reset */
#define NAGORI_CTL_HARTS                  0x030        /* read-only: Number of harts */
#define NAGORI_CTL_BANKS                  0x038        /* read-only: Number of memory banks */
#define NAGORI_CTL_MEMORY_BASE            0x040        /* read-only: First physical address of memory [address] */
#define NAGORI_CTL_MEMORY_SIZE            0x048        /* read-only: Size of DRAM and NVMM together [bytes] */
#define NAGORI_CTL_CLOCK_PS               0x050        /* read-only: Period of the memory controller's clock [ps] */
#define NAGORI_CTL_CORE_HZ                0x058        /* read-only: Clock of the cores [Hz] */
#define NAGORI_CTL_METHOD                 0x100        /* Delay method of NVMM */
#define NAGORI_CTL_TIMED                  0x108        /* 0: functional, every instruction takes the same time; 1: timed */
#define NAGORI_CTL_NVMM_BASE              0x110        /* First physical address of NVMM, a multiple of the bank size; the end of memory if there is none [address] */
#define NAGORI_CTL_NVMM_SIZE              0x118        /* read-only: Size of NVMM, from NVMM_BASE to the end of memory [bytes] */
#define NAGORI_CTL_COARSE_READ            0x120        /* coarse: hold of a read request to NVMM [clocks] */
#define NAGORI_CTL_COARSE_WRITE           0x128        /* coarse: hold of a write request to NVMM [clocks] */
#define NAGORI_CTL_ADDED_RCD              0x130        /* fine, extended: added to tRCD of NVMM banks [clocks] */
#define NAGORI_CTL_ADDED_RP               0x138        /* fine, extended: added to tRP of NVMM banks after a dirty row [clocks] */
#define NAGORI_CTL_ADDED_RAS              0x140        /* extended: added to tRAS of NVMM banks [clocks] */
#define NAGORI_CTL_BASE_WAIT              0x180        /* Acceptance of a request to its earliest activation [clocks] */
#define NAGORI_CTL_BASE_RCD               0x188        /* tRCD: activation to column command [clocks] */
#define NAGORI_CTL_BASE_RAS               0x190        /* tRAS: activation to precharge [clocks] */
#define NAGORI_CTL_BASE_RTP               0x198        /* tRTP: read column command to precharge [clocks] */
#define NAGORI_CTL_BASE_WTP               0x1a0        /* tWTP: write column command to precharge [clocks] */
#define NAGORI_CTL_BASE_RP                0x1a8        /* tRP: precharge to activation [clocks] */
#define NAGORI_CTL_REFRESH_INTERVAL       0x1b0        /* tREFI: time between refreshes [clocks] */
#define NAGORI_CTL_REFRESH_DURATION       0x1b8        /* tRFC: length of a refresh [clocks] */
#define NAGORI_CTL_STATS_CONTROL          0x200        /* Writing 1 resets all statistics, 2 makes the host dump the statistics under LABEL; reads as 0 */
#define NAGORI_CTL_LABEL                  0x208        /* The guest's label, recorded with dumps of statistics and with snapshots */
#define NAGORI_CTL_TIME_NS                0x210        /* read-only: Machine time [ns] */
#define NAGORI_CTL_STATS_FROM_NS          0x218        /* read-only: Machine time of the last reset of the statistics [ns] */
#define NAGORI_CTL_CLOCKS                 0x220        /* read-only: Clocks of the memory controller since the machine's start [clocks] */
#define NAGORI_CTL_REFRESHES              0x228        /* read-only: Refreshes of all banks */
#define NAGORI_CTL_REFRESH_TICKS_LOST     0x230        /* read-only: Refresh ticks that found another one pending */
#define NAGORI_CTL_WARM_UP                0x238        /* Instructions of all harts after the next switch to timed mode that warm caches before the statistics are reset; 0: no warm-up and no reset [instructions] */
#define NAGORI_CTL_HOST_REQUEST           0x240        /* Writing 1 requests a snapshot of the whole machine, with LABEL; the host takes it if it was started with --snapshot. The guest continues after the write. Reads as 0 */
#define NAGORI_CTL_SPACE_NAME             0x248        /* Writing up to 8 printable ASCII characters, the first one lowest, names the writer's address space (satp) in profiles; reads as 0 */
#define NAGORI_CTL_LABEL_TEXT             0x250        /* Writing up to 8 printable ASCII characters, the first one lowest, adds them to the text of LABEL, at most 64; writing LABEL begins a new one. Kept with snapshots; reads as 0 */
#define NAGORI_CTL_MEMORY_SET             0x258        /* Writing 1 changes a value of a region's own memory: the text of LABEL is REGION.KEY=VALUE, as below memory.regions in the machine's description; reads as 0 */
#define NAGORI_CTL_IOMAP_KIND             0x300        /* read-only: Kind of the I/O table: 0 none, 1 constant, 2 full; small with the replacement 3 LRU, 4 FIFO, 5 random, 6 by software. The registers IOMAP_* are set by machine mode only */
#define NAGORI_CTL_IOMAP_PLACES           0x308        /* read-only: Entries that there is place for */
#define NAGORI_CTL_IOMAP_TABLE            0x310        /* Table that the other registers are about: 0 that of the harts, 1 that of the devices */
#define NAGORI_CTL_IOMAP_PLACE            0x318        /* Place of an entry, from 0 on */
#define NAGORI_CTL_IOMAP_VM               0x320        /* Entry: number of the VM, below 65536 */
#define NAGORI_CTL_IOMAP_FROM             0x328        /* Entry: first address that the VM (or its device) uses [address] */
#define NAGORI_CTL_IOMAP_TO               0x330        /* Entry: first address on the bus (or in memory) [address] */
#define NAGORI_CTL_IOMAP_SIZE_LOG2        0x338        /* Entry: logarithm of the size to the base 2, from 2 on */
#define NAGORI_CTL_IOMAP_RIGHTS           0x340        /* Entry: bit 0 permits reads, bit 1 writes */
#define NAGORI_CTL_IOMAP_COMMAND          0x348        /* Writing 1 puts the entry at IOMAP_PLACE, 2 where the table chooses (IOMAP_PLACE then says where), 3 empties IOMAP_PLACE, 4 shows what is there (of size 0 if nothing is); reads as 0 */
#define NAGORI_CTL_IOMAP_HITS             0x350        /* read-only: Accesses that the entry at IOMAP_PLACE has translated */
#define NAGORI_CTL_IOMAP_DENIED           0x358        /* read-only: Accesses that it has refused for want of the right */
#define NAGORI_CTL_IOMAP_VM_HITS          0x360        /* read-only: Accesses of the VM IOMAP_VM that were translated */
#define NAGORI_CTL_IOMAP_VM_DENIED        0x368        /* read-only: Accesses of that VM that were refused for want of the right */
#define NAGORI_CTL_IOMAP_VM_MISSES        0x370        /* read-only: Accesses of that VM that no entry covers */
#define NAGORI_CTL_IOMAP_MISSES           0x378        /* read-only: Accesses of all VMs that no entry covers */
#define NAGORI_CTL_IOMAP_MISS_VM          0x380        /* read-only: VM of the latest of them; all ones if there was none */
#define NAGORI_CTL_IOMAP_MISS_ADDR        0x388        /* read-only: Its address; all ones if there was none [address] */
#define NAGORI_CTL_IOMAP_HART             0x390        /* Hart that the next register is about */
#define NAGORI_CTL_IOMAP_HART_VM          0x398        /* VM that the hart runs; 0 at reset */
#define NAGORI_CTL_IOMAP_DEVICE           0x3a0        /* Device that the next register is about, by its interrupt source */
#define NAGORI_CTL_IOMAP_DEVICE_VM        0x3a8        /* VM to which the device belongs; 0 at reset */

/* Values */
#define NAGORI_METHOD_DRAM                0            /* METHOD: dram */
#define NAGORI_METHOD_COARSE              1            /* METHOD: coarse */
#define NAGORI_METHOD_FINE                2            /* METHOD: fine */
#define NAGORI_METHOD_EXTENDED            3            /* METHOD: extended */
#define NAGORI_FUNCTIONAL                 0            /* TIMED: no timing model */
#define NAGORI_TIMED                      1            /* TIMED: the timing model */
#define NAGORI_STATS_RESET                1            /* STATS_CONTROL: start again at zero */
#define NAGORI_STATS_DUMP                 2            /* STATS_CONTROL: dump the statistics */
#define NAGORI_HOST_SNAPSHOT              1            /* HOST_REQUEST: a snapshot of the machine */
#define NAGORI_IOMAP_WRITE                1            /* IOMAP_COMMAND: put the entry at IOMAP_PLACE */
#define NAGORI_IOMAP_FILL                 2            /* IOMAP_COMMAND: put it where the table chooses */
#define NAGORI_IOMAP_EMPTY                3            /* IOMAP_COMMAND: empty IOMAP_PLACE */
#define NAGORI_IOMAP_SHOW                 4            /* IOMAP_COMMAND: show what is at IOMAP_PLACE */
#define NAGORI_ERROR_IS_UNKNOWN           1            /* ERROR: no register at this offset */
#define NAGORI_ERROR_IS_READ_ONLY         2            /* ERROR: the register is read-only */
#define NAGORI_ERROR_IS_UPPER_HALF        3            /* ERROR: the upper half cannot be written by itself */
#define NAGORI_ERROR_IS_VALUE             4            /* ERROR: the value is out of range */
#define NAGORI_ERROR_IS_ALIGNMENT         5            /* ERROR: the boundary is not a multiple of the bank size */
#define NAGORI_ERROR_IS_STATE             6            /* ERROR: not possible in this state of the machine */
#define NAGORI_ERROR_IS_OVERLAP           7            /* ERROR: the entry overlaps another one */
#define NAGORI_ERROR_IS_PRIVILEGE         8            /* ERROR: only machine mode may write this register */

/* Arrays of read-only registers */
#define NAGORI_CTL_REGION(n)              (0x1000 + (n) * 0x100) /* Statistics of a region: 0 DRAM, 1 NVMM; n from 0 to 1 */
#define NAGORI_CTL_BANK(n)                (0x2000 + (n) * 0x100) /* Statistics of a bank; n from 0 to 15 */
#define NAGORI_CTL_HART(n)                (0x4000 + (n) * 0x100) /* Statistics of a hart; n from 0 to 15 */
#define NAGORI_CTL_LATENCY(n)             (0x8000 + (n) * 0x200) /* Latency histograms: DRAM reads, DRAM writes, NVMM reads, NVMM writes; n from 0 to 3 */

/* In REGION(n) and BANK(n) */
#define NAGORI_MEM_READS                  0x00         /* Read requests */
#define NAGORI_MEM_WRITES                 0x08         /* Write requests */
#define NAGORI_MEM_READ_BYTES             0x10         /* Bytes of the read requests [bytes] */
#define NAGORI_MEM_WRITE_BYTES            0x18         /* Bytes of the write requests [bytes] */
#define NAGORI_MEM_ROW_HITS               0x20         /* Requests that took over an open row */
#define NAGORI_MEM_BANK_SWITCHES          0x28         /* Requests whose bank differs from that of the request before; over all requests this is BANK_PARA */
#define NAGORI_MEM_ACTIVATIONS            0x30         /* Activations; over all requests this is ACT/REQ */
#define NAGORI_MEM_PRECHARGES_CLEAN       0x38         /* Precharges of rows that were not written */
#define NAGORI_MEM_PRECHARGES_DIRTY       0x40         /* Precharges of written rows */
#define NAGORI_MEM_REFRESHES              0x48         /* Refreshes */

/* In HART(n) */
#define NAGORI_HART_INSTRUCTIONS          0x00         /* Retired instructions */
#define NAGORI_HART_CYCLES                0x08         /* Cycles, idle ones included [core cycles] */
#define NAGORI_HART_L1D_LOAD_MISSES       0x10         /* L1D misses of loads */
#define NAGORI_HART_L1D_STORE_MISSES      0x18         /* L1D misses of stores and atomics */
#define NAGORI_HART_L1D_WALK_MISSES       0x20         /* L1D misses of page walks */
#define NAGORI_HART_L1D_UPGRADES          0x28         /* Lines that were present and had to be made writable */
#define NAGORI_HART_L1D_WRITEBACKS        0x30         /* Dirty lines written back on replacement */
#define NAGORI_HART_L1D_FLUSHES           0x38         /* Dirty lines written back by flush and clean instructions */
#define NAGORI_HART_PROBES                0x40         /* Dirty lines of other caches written back for this hart */
#define NAGORI_HART_L1I_MISSES            0x48         /* L1I misses */
#define NAGORI_HART_DTLB_MISSES           0x50         /* Data TLB misses */
#define NAGORI_HART_ITLB_MISSES           0x58         /* Instruction TLB misses */
#define NAGORI_HART_MISPREDICTS           0x60         /* Mispredicted branches and jumps */
#define NAGORI_HART_MEMORY_STALL_CYCLES   0x68         /* Cycles spent waiting for lines [core cycles] */
#define NAGORI_HART_EXCEPTIONS            0x70         /* Exceptions taken */
#define NAGORI_HART_INTERRUPTS            0x78         /* Interrupts taken */
#define NAGORI_HART_IDLE_CYCLES           0x80         /* Cycles spent in wfi [core cycles] */

/* In LATENCY(n) */
#define NAGORI_LATENCY_COUNT              0x000        /* Number of latencies */
#define NAGORI_LATENCY_SUM                0x008        /* Their sum [ns] */
#define NAGORI_LATENCY_BUCKETS            0x100        /* First of 32 counts: 0 to 2 ns, 2 to 4 ns, 4 to 8 ns and so on; the last has no end */

#endif
