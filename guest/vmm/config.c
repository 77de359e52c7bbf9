/* The partition file: one word and its values a line, `#` begins a comment. README.md lists the words. */
#include "vmm.h"

extern const char partitions[];
struct vm vms[MAX_VMS];
int vm_count;
int by_table;

static const char *at;
static u64 line = 1;

static _Noreturn void wrong(const char *what)
{
    say("partitions, line %d: %s", line, what);
    fatal("the partition file is wrong");
}

static void blanks(void)
{
    while (*at == ' ' || *at == '\t')
        at++;
}

static int word(char *to, int room)
{
    int n = 0;
    blanks();
    while (*at > ' ' && *at != '#') {
        if (n + 1 >= room)
            wrong("a word is too long");
        to[n++] = *at++;
    }
    to[n] = 0;
    return n;
}

static u64 number(void)
{
    char text[24];
    u64 n = 0, base = 10;
    if (!word(text, sizeof text))
        wrong("a number is missing");
    const char *s = text;
    if (s[0] == '0' && s[1] == 'x') {
        base = 16;
        s += 2;
    }
    do {
        u64 d = *s >= '0' && *s <= '9' ? *s - '0' : (*s | 32) >= 'a' && (*s | 32) <= 'f' ? (*s | 32) - 'a' + 10 : 99;
        if (d >= base)
            wrong("this is no number");
        if (n > (~0ull - d) / base)
            wrong("a number is too large");
        n = n * base + d;
    } while (*++s);
    return n;
}

static int is(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static int overlap(u64 a, u64 a_size, u64 b, u64 b_size)
{
    return a < b + b_size && b < a + a_size;
}

static void add_map(struct vm *vm, u64 from, u64 to, u64 size)
{
    if (vm->map_count == MAX_MAPS)
        wrong("too many ranges");
    if (size < 4 || (size & (size - 1)) || ((from | to) & (size - 1)))
        wrong("a range needs a size that is a power of two, at least 4, and addresses that are multiples of it");
    for (int i = 0; i < vm->map_count; i++)
        if (overlap(from, size, vm->maps[i].from, vm->maps[i].size))
            wrong("the range overlaps another one of this VM");
    if (from + size > 0x80000000 || to + size > 0x80000000)
        wrong("the range is not below 0x80000000, where devices are");
    vm->maps[vm->map_count++] = (struct map){.from = from, .to = to, .size = size};
}

static void check(void)
{
    extern char _end[];
    u64 taken = 0;
    for (int i = 0; i < vm_count; i++) {
        struct vm *v = &vms[i];
        if (!v->harts || (v->harts & taken) || v->harts >> hart_count)
            wrong("a VM needs harts of its own that exist");
        taken |= v->harts;
        if (v->memory < (u64)_end || !v->size)
            wrong("a VM needs memory behind the monitor's");
        for (int j = 0; j < i; j++)
            if (overlap(v->memory, v->size, vms[j].memory, vms[j].size))
                wrong("two VMs share memory");
        if (!v->is_next && !within(v->entry, v->image_size, v->memory, v->size))
            wrong("a VM starts outside of its memory");
    }
}

void read_partitions(void)
{
    extern const u8 second[], second_end[];
    struct vm *vm = 0;
    for (at = partitions; *at; line++) {
        char w[32];
        if (word(w, sizeof w)) {
            if (is(w, "io")) {
                word(w, sizeof w);
                by_table = is(w, "table");
                if (!by_table && !is(w, "monitor"))
                    wrong("io is `monitor` or `table`");
            } else if (is(w, "vm")) {
                if (vm_count == MAX_VMS)
                    wrong("too many VMs");
                vm = &vms[vm_count++];
                if (!word(vm->name, NAME))
                    wrong("a VM needs a name");
            } else if (!vm) {
                wrong("this belongs to a VM");
            } else if (is(w, "hart")) {
                u64 n = number();
                if (n >= MAX_HARTS)
                    wrong("there is no such hart");
                vm->harts |= 1ull << n;
            } else if (is(w, "memory")) {
                vm->memory = number();
                vm->size = number();
                if (vm->memory + vm->size < vm->memory || ((vm->memory | vm->size) & 4095))
                    wrong("memory begins and ends at multiples of 4096");
            } else if (is(w, "entry")) {
                vm->entry = number();
            } else if (is(w, "tree")) {
                vm->tree = number();
            } else if (is(w, "next")) {
                vm->is_next = 1;
            } else if (is(w, "second")) {
                word(w, sizeof w); /* Which program: the Makefile has seen to it. */
                vm->image = second;
                vm->image_size = second_end - second;
            } else if (is(w, "power")) {
                vm->owns_machine = 1;
            } else if (is(w, "node")) {
                if (vm->node_count == MAX_NODES || !word(vm->nodes[vm->node_count++], 32))
                    wrong("no node, or too many of them");
            } else if (is(w, "source")) {
                u64 n = number();
                if (n < 1 || n > 31)
                    wrong("there is no such interrupt source");
                vm->sources |= 1ull << n;
            } else if (is(w, "map")) {
                u64 from = number(), to = number();
                add_map(vm, from, to, number());
            } else {
                wrong("this word has no meaning");
            }
            blanks();
        }
        if (*at == '#')
            while (*at && *at != '\n')
                at++;
        if (*at == '\r')
            at++;
        if (*at && *at != '\n')
            wrong("something is left over");
        if (*at)
            at++;
    }
    check();
}
