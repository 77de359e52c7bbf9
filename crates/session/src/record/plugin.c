/* A plugin for QEMU's user-mode emulation: writes the cache lines that a program touches to a pipe.
 *
 * An event is a 64-bit word, in the order in which the program caused it:
 *   bits 0 to 41   number of the line (address / 64)
 *   bits 42 to 57  instructions begun since the event before, of all threads
 *   bits 58 to 61  thread, counted from 0; all from the 15th on are 15
 *   bits 62, 63    0: fetch, 1: load, 2: store, 3: none (instructions only)
 * The reader is crates/session/src/record/events.rs.
 *
 * The interface of plugins is declared here, since Debian has no package of its header. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t plugin_id;
typedef uint32_t meminfo;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };
typedef void (*exec_callback)(unsigned vcpu, void *data);
typedef void (*memory_callback)(unsigned vcpu, meminfo info, uint64_t vaddr, void *data);
typedef void (*translation_callback)(plugin_id id, struct qemu_plugin_tb *tb);
typedef void (*exit_callback)(plugin_id id, void *data);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translation_callback);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, exec_callback, int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, memory_callback, int, int, void *);
extern void qemu_plugin_register_atexit_cb(plugin_id, exit_callback, void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern unsigned qemu_plugin_mem_size_shift(meminfo);
extern bool qemu_plugin_mem_is_store(meminfo);

/* The version of the interface; QEMU refuses those that it does not know. */
__attribute__((visibility("default"))) int qemu_plugin_version = NAGORI_PLUGIN_API;

enum kind { FETCH, LOAD, STORE, NONE };
enum { EVENTS = 8192, THREADS = 16, MOST_INSTRUCTIONS = 0xffff };

static uint64_t events[EVENTS];
static unsigned filled;
static uint64_t instructions;
static int output = -1;
static atomic_flag busy = ATOMIC_FLAG_INIT;
/* The thread that has run so far; another one means that the program has several. */
static unsigned first_thread;
static bool several;

/* The line that one side of the caches has touched last. The first repetition may change the order
 * of replacement; further ones change nothing and are left out. Only with one thread: another one
 * could take the line away. */
struct side {
    uint64_t line;
    unsigned repeated;
    bool stored;
};
static struct side sides[2];

static void flush_events(void)
{
    const char *at = (const char *)events;
    size_t left = filled * sizeof events[0];
    filled = 0;
    while (left > 0 && output >= 0) {
        ssize_t n = write(output, at, left);
        if (n < 0 && errno != EINTR)
            output = -1;
        if (n > 0) {
            at += n;
            left -= n;
        }
    }
}

static void put(enum kind kind, unsigned vcpu, uint64_t line)
{
    while (instructions > MOST_INSTRUCTIONS && kind != NONE) {
        uint64_t part = instructions - MOST_INSTRUCTIONS;
        instructions = MOST_INSTRUCTIONS;
        put(NONE, vcpu, 0);
        instructions = part;
    }
    uint64_t thread = vcpu < THREADS ? vcpu : THREADS - 1;
    events[filled++] = (line & ((1ull << 42) - 1)) | instructions << 42 | thread << 58 | (uint64_t)kind << 62;
    instructions = 0;
    if (filled == EVENTS)
        flush_events();
}

static void touch(enum kind kind, unsigned vcpu, uint64_t line)
{
    struct side *s = &sides[kind != FETCH];
    if (several) {
        put(kind, vcpu, line);
        return;
    }
    if (s->line == line && (kind != STORE || s->stored)) {
        if (s->repeated > 0)
            return;
        s->repeated++;
    } else {
        s->repeated = s->line == line ? s->repeated : 0;
        s->line = line;
        s->stored = kind == STORE;
    }
    /* What this side brings in may throw the other one's line out of a shared level. */
    sides[kind == FETCH].line = UINT64_MAX;
    put(kind, vcpu, line);
}

static void enter(unsigned vcpu)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        ;
    if (vcpu != first_thread)
        several = true;
}

static void leave(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

struct block {
    uint64_t first, last;
    unsigned instructions;
};

static void on_block(unsigned vcpu, void *data)
{
    const struct block *b = data;
    enter(vcpu);
    instructions += b->instructions;
    for (uint64_t line = b->first; line <= b->last; line++)
        touch(FETCH, vcpu, line);
    leave();
}

static void on_access(unsigned vcpu, meminfo info, uint64_t vaddr, void *data)
{
    (void)data;
    enum kind kind = qemu_plugin_mem_is_store(info) ? STORE : LOAD;
    uint64_t last = vaddr + (1ull << qemu_plugin_mem_size_shift(info)) - 1;
    enter(vcpu);
    for (uint64_t line = vaddr >> 6; line <= last >> 6; line++)
        touch(kind, vcpu, line);
    leave();
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    struct block *b = malloc(sizeof *b);
    if (n == 0 || !b)
        return;
    const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, n - 1);
    b->first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) >> 6;
    b->last = (qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) - 1) >> 6;
    b->instructions = n;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, b);
    for (size_t i = 0; i < n; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access, NO_REGISTERS,
                                         READS_AND_WRITES, NULL);
}

static void on_exit_of_program(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    enter(first_thread);
    put(NONE, 0, 0);
    flush_events();
    output = -1;
    leave();
}

/* A child has the pipe, too, but its accesses are not part of the recording. */
static void in_child(void)
{
    output = -1;
    filled = 0;
    leave();
}

static void before_fork(void)
{
    enter(first_thread);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], "fd=", 3) == 0)
            output = atoi(argv[i] + 3);
    sides[0].line = sides[1].line = UINT64_MAX;
    pthread_atfork(before_fork, leave, in_child);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
    return 0;
}
