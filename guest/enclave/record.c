/* The monitor's memory of enclaves, which has to survive power cuts: identities with the versions of what they have
 * sealed, and where live enclaves are. What stays in NVMM after a power cut can be read by whatever boots next; so the
 * memory of enclaves that were alive is made zero before the host runs.
 *
 * A line is durable as a whole or not at all only for stores of eight bytes; so what makes an entry valid is one such
 * store, made when the rest is durable. */
#include "monitor.h"

#define MAGIC 0x3165766c636e65ull
enum { IDENTITIES = 32 };

struct identity {
    u8 measurement[ASCON_HASH];
    u64 issued, committed, valid, unused;
};

struct live {
    struct range memory;
    u64 valid, unused[5];
};

struct record {
    u64 magic, unused[7];
    struct live live[ENCLAVES];
    struct identity identities[IDENTITIES];
};
_Static_assert(sizeof(struct identity) == 64 && sizeof(struct live) == 64, "a line each");
_Static_assert(sizeof(struct record) <= RECORD_SIZE, "a page");

static struct record *record;

static void set(u64 *field, u64 value)
{
    *(volatile u64 *)field = value;
    persist(field, sizeof *field);
}

void scrub(struct range memory)
{
    volatile u64 *word = (volatile u64 *)memory.base;
    for (u64 i = 0; i < memory.size / 8; i++)
        word[i] = 0;
    persist(word, memory.size);
}

void record_open(u64 at)
{
    record = (struct record *)at;
    if (record->magic != MAGIC) {
        scrub((struct range){at, RECORD_SIZE});
        set(&record->magic, MAGIC);
    }
    for (int i = 0; i < ENCLAVES; i++) {
        if (record->live[i].valid)
            scrub(record->live[i].memory);
        set(&record->live[i].valid, 0);
    }
}

void record_live(int slot, struct range memory)
{
    struct live *l = &record->live[slot];
    set(&l->valid, 0);
    if (memory.size) {
        l->memory = memory;
        persist(l, sizeof *l);
        set(&l->valid, 1);
    }
}

static int differ(const u8 *a, const u8 *b, int bytes)
{
    u8 d = 0;
    for (int i = 0; i < bytes; i++)
        d |= a[i] ^ b[i];
    return d;
}

int record_identity(const u8 measurement[ASCON_HASH])
{
    for (int i = 0; i < IDENTITIES; i++) {
        struct identity *id = &record->identities[i];
        if (id->valid && !differ(id->measurement, measurement, ASCON_HASH))
            return i;
        if (id->valid)
            continue;
        for (int k = 0; k < ASCON_HASH; k++)
            id->measurement[k] = measurement[k];
        id->issued = id->committed = 0;
        persist(id, sizeof *id);
        set(&id->valid, 1);
        return i;
    }
    return NOBODY;
}

u64 record_issue(int identity)
{
    /* Durable before anything is sealed with it: no two texts have the same version, whatever happens. */
    struct identity *id = &record->identities[identity];
    set(&id->issued, id->issued + 1);
    return id->issued;
}

int record_allows(int identity, u64 version)
{
    const struct identity *id = &record->identities[identity];
    return version && version >= id->committed && version <= id->issued;
}

void record_commit(int identity, u64 version)
{
    struct identity *id = &record->identities[identity];
    if (record_allows(identity, version) && version > id->committed)
        set(&id->committed, version);
}
