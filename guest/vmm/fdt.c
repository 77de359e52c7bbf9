/* The device tree of a VM: a copy of the machine's, in which what the VM does not have is overwritten with NOPs, and
 * addresses are those that the VM believes in. */
#include "vmm.h"

enum { BEGIN = 1, END = 2, PROPERTY = 3, NOP = 4, FINISH = 9, DEPTH = 8 };

static u32 get32(const u8 *p)
{
    return (u32)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void put32(u8 *p, u32 v)
{
    p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v;
}

static u64 get64(const u8 *p)
{
    return (u64)get32(p) << 32 | get32(p + 4);
}

static void put64(u8 *p, u64 v)
{
    put32(p, v >> 32);
    put32(p + 4, v);
}

static int begins(const char *s, const char *with)
{
    while (*with && *s == *with)
        s++, with++;
    return !*with;
}

static int same(const char *a, const char *b)
{
    return begins(a, b) && begins(b, a);
}

u64 tree_size(const u8 *tree)
{
    return get32(tree) == 0xd00dfeed ? get32(tree + 4) : 0;
}

static int has_hart(const struct vm *vm, const char *name)
{
    u64 n = 0;
    for (name += 4; *name; name++) /* behind "cpu@", in hexadecimal */
        n = n * 16 + (*name <= '9' ? *name - '0' : *name - 'a' + 10);
    return n < MAX_HARTS && vm->harts >> n & 1;
}

static int keeps(const struct vm *vm, const char *parent, const char *name, int depth)
{
    if (depth == 1)
        return begins(name, "memory@") || same(name, "cpus") || same(name, "soc") || same(name, "chosen");
    if (depth == 2 && same(parent, "cpus"))
        return begins(name, "cpu@") && has_hart(vm, name);
    if (depth == 2 && same(parent, "soc")) {
        for (int i = 0; i < vm->node_count; i++)
            if (same(name, vm->nodes[i]))
                return 1;
        return 0;
    }
    return 1;
}

/* Where the VM sees an address of the bus. */
static u64 seen(const struct vm *vm, u64 addr)
{
    for (int i = 0; i < vm->map_count; i++)
        if (within(addr, 1, vm->maps[i].to, vm->maps[i].size))
            return vm->maps[i].from + (addr - vm->maps[i].to);
    return addr;
}

/* Changes the tree for a VM. Returns the number of its harts. */
u64 make_tree(const struct vm *vm, u8 *tree)
{
    u8 *p = tree + get32(tree + 8), *gone = 0;
    const char *strings = (const char *)tree + get32(tree + 12);
    const char *names[DEPTH] = {0};
    int depth = 0, gone_at = 0;
    u64 cpus = 0;
    for (;;) {
        u8 *start = p;
        u32 token = get32(p);
        p += 4;
        if (token == BEGIN) {
            const char *name = (const char *)p;
            u64 n = 0;
            while (name[n])
                n++;
            p += (n + 4) & ~3ull;
            if (depth >= DEPTH)
                fatal("the device tree is too deep");
            names[depth] = name;
            if (!gone && depth && !keeps(vm, names[depth - 1], name, depth))
                gone = start, gone_at = depth;
            cpus += !gone && depth == 2 && begins(name, "cpu@");
            depth++;
        } else if (token == END) {
            if (--depth == gone_at && gone) {
                for (u8 *q = gone; q < p; q += 4)
                    put32(q, NOP);
                gone = 0;
            }
            if (!depth)
                return cpus;
        } else if (token == PROPERTY) {
            u32 len = get32(p);
            const char *name = strings + get32(p + 4);
            u8 *value = p + 8;
            p = value + ((len + 3) & ~3u);
            if (gone || !same(name, "reg") || depth < 2 || len < 16)
                continue;
            if (depth == 2 && begins(names[1], "memory@")) {
                put64(value, vm->memory);
                put64(value + 8, vm->size);
            } else if (depth == 3 && same(names[1], "soc")) {
                put64(value, seen(vm, get64(value)));
            }
        } else if (token != NOP) {
            fatal("the device tree is damaged");
        }
    }
}
