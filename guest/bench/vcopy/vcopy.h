// The virtual-I/O copy benchmark: a producer copies packets from its pool into the buffers of a
// virtqueue, a consumer on another hart takes them. What runs it (a machine without an operating
// system, or Linux) calls vcopy_start on one thread, then vcopy_run on two.
#ifndef VCOPY_H
#define VCOPY_H

#include "ring.h"

enum {
    IMIX = 0,           // in place of a size: 7 packets of 64 bytes, 4 of 594, 1 of 1518
    // Bytes from one packet buffer to the next: 128 of metadata, 128 of room, 2 KiB, and a line that makes
    // the number of lines odd, so that buffers spread over all sets of a cache, as pools of DPDK see to it.
    BUFFER = 2368,
    ROOM = 256,         // where a packet begins
    NET_HEADER = 12,    // struct virtio_net_hdr with num_buffers, right before the packet
    MAX_REPEATS = 9,
    PHASES = 5,
};

enum phase { WAIT, DESCRIPTOR, COPY, ENTRY, INDEX };

struct cell {
    u16 bytes; // or IMIX
    u8 ring;   // enum ring
    u8 nt;     // the copy is non-temporal
    u8 queue_nt; // so are the entries of the queue
    u8 loops;  // 1: copy and entry in one loop over the batch; 2: each in a loop of its own
    u8 payload; // the consumer reads the payload, too
    u8 after;  // the consumer works while the producer waits, not at the same time
    u8 nvmm;   // where the buffers are
    u8 phases; // the producer's cycles are counted by phase, which costs some
    u16 batch;
    u32 packets, warm; // counted, and before
};

// What a role did in a repetition, before the counters of the processor.
struct outcome {
    u64 cycles;           // of the counted packets; for `after`, without the other's
    u64 phase[PHASES];    // producer
    u64 failures;         // packets with wrong contents or length; consumer, if it reads them
    u64 told;             // interrupts or notifications that the other side wanted
};

enum role { PRODUCER, CONSUMER };

// The memory of buffers: 64-byte aligned, RING_SIZE * BUFFER bytes.
struct places {
    u8 *buffers[2]; // in DRAM, in NVMM (which may be null)
};

// Sets a cell up. One thread, while no other is in vcopy_run.
void vcopy_start(const struct cell *c, const struct places *p);
// Runs a repetition in a role. Both roles must be called; they wait for each other.
void vcopy_run(enum role role, const struct cell *c, struct outcome *out);
// How many packets in the buffers are not what was sent last; 0 unless something is broken.
u64 vcopy_check(const struct cell *c);

// Given by the frame: begins and ends the counting of the calling thread.
void counting(enum role role, int on);

#endif
