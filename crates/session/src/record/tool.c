/* A tool for Valgrind: writes the cache lines that a program touches to a pipe.
 *
 * An event is a 64-bit word, in the order in which the program caused it:
 *   bits 0 to 41   number of the line (address / 64)
 *   bits 42 to 57  instructions begun since the event before, of all threads
 *   bits 58 to 61  thread, counted from 0; all from the 15th on are 15
 *   bits 62, 63    0: fetch, 1: load, 2: store, 3: none (instructions only)
 * The reader is crates/session/src/record/events.rs.
 *
 * Valgrind runs one thread at a time, so nothing here needs a lock. */
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* Moves a file to a number that the program cannot close, and that ends with exec. The core has it,
 * but its header is not installed. */
extern Int VG_(safe_fd)(Int fd);

enum kind { FETCH, LOAD, STORE, NONE };
enum { EVENTS = 8192, THREADS = 16, MOST_INSTRUCTIONS = 0xffff };

static ULong events[EVENTS];
static UInt filled;
static ULong instructions;
static Int output = -1;
static ThreadId thread = 1;

/* The line that one side of the caches has touched last. The first repetition may change the order
 * of replacement; further ones change nothing and are left out, as long as no other thread has run. */
struct side {
    ULong line;
    UInt repeated;
    Bool stored;
};
static struct side sides[2];

static void flush_events(void)
{
    const HChar *at = (const HChar *)events;
    Int left = filled * sizeof events[0];
    filled = 0;
    while (left > 0 && output >= 0) {
        Int n = VG_(write)(output, at, left);
        if (n < 0 && n != -VKI_EINTR)
            output = -1;
        if (n > 0) {
            at += n;
            left -= n;
        }
    }
}

static void put(enum kind kind, ULong line)
{
    while (instructions > MOST_INSTRUCTIONS && kind != NONE) {
        ULong rest = instructions - MOST_INSTRUCTIONS;
        instructions = MOST_INSTRUCTIONS;
        put(NONE, 0);
        instructions = rest;
    }
    ULong number = thread <= THREADS ? thread - 1 : THREADS - 1;
    events[filled++] = (line & ((1ull << 42) - 1)) | instructions << 42 | number << 58 | (ULong)kind << 62;
    instructions = 0;
    if (filled == EVENTS)
        flush_events();
}

static void touch(enum kind kind, ULong line)
{
    struct side *s = &sides[kind != FETCH];
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
    sides[kind == FETCH].line = ~0ull;
    put(kind, line);
}

static void touch_all(enum kind kind, ULong addr, ULong bytes)
{
    for (ULong line = addr >> 6; line <= (addr + bytes - 1) >> 6; line++)
        touch(kind, line);
}

/* The calls in the program's code. */

static VG_REGPARM(3) void on_run(Addr addr, UWord bytes, UWord count)
{
    instructions += count;
    touch_all(FETCH, addr, bytes);
}

static VG_REGPARM(2) void on_load(Addr addr, UWord bytes)
{
    touch_all(LOAD, addr, bytes);
}

static VG_REGPARM(2) void on_store(Addr addr, UWord bytes)
{
    touch_all(STORE, addr, bytes);
}

static void add_call(IRSB *to, const HChar *name, void *function, IRExpr **args, IRExpr *guard)
{
    Int n = 0;
    while (args[n])
        n++;
    IRDirty *call = unsafeIRDirty_0_N(n, name, VG_(fnptr_to_fnentry)(function), args);
    if (guard)
        call->guard = guard;
    addStmtToIRSB(to, IRStmt_Dirty(call));
}

static void add_load(IRSB *to, IRExpr *addr, Int bytes, IRExpr *guard)
{
    add_call(to, "on_load", on_load, mkIRExprVec_2(addr, mkIRExpr_HWord(bytes)), guard);
}

static void add_store(IRSB *to, IRExpr *addr, Int bytes, IRExpr *guard)
{
    add_call(to, "on_store", on_store, mkIRExprVec_2(addr, mkIRExpr_HWord(bytes)), guard);
}

/* Instructions one behind the other in memory, of which all run if the first one does. Returns the
 * first statement behind them. */
static Int add_run(IRSB *to, const IRSB *in, Int at)
{
    Addr first = in->stmts[at]->Ist.IMark.addr, end = first;
    UWord count = 0;
    for (; at < in->stmts_used && in->stmts[at]->tag != Ist_Exit; at++) {
        const IRStmt *s = in->stmts[at];
        if (s->tag != Ist_IMark)
            continue;
        if (s->Ist.IMark.addr != end)
            break;
        end += s->Ist.IMark.len;
        count++;
    }
    if (end > first)
        add_call(to, "on_run", on_run,
                 mkIRExprVec_3(mkIRExpr_HWord(first), mkIRExpr_HWord(end - first), mkIRExpr_HWord(count)), NULL);
    return at;
}

static void add_accesses(IRSB *to, const IRStmt *s)
{
    const IRTypeEnv *types = to->tyenv;
    switch (s->tag) {
    case Ist_WrTmp: {
        const IRExpr *e = s->Ist.WrTmp.data;
        if (e->tag == Iex_Load)
            add_load(to, e->Iex.Load.addr, sizeofIRType(e->Iex.Load.ty), NULL);
        break;
    }
    case Ist_Store: {
        IRType type = typeOfIRExpr(types, s->Ist.Store.data);
        add_store(to, s->Ist.Store.addr, sizeofIRType(type), NULL);
        break;
    }
    case Ist_LoadG: {
        const IRLoadG *g = s->Ist.LoadG.details;
        IRType loaded = Ity_INVALID, result = Ity_INVALID;
        typeOfIRLoadGOp(g->cvt, &result, &loaded);
        add_load(to, g->addr, sizeofIRType(loaded), g->guard);
        break;
    }
    case Ist_StoreG: {
        const IRStoreG *g = s->Ist.StoreG.details;
        add_store(to, g->addr, sizeofIRType(typeOfIRExpr(types, g->data)), g->guard);
        break;
    }
    case Ist_CAS: {
        const IRCAS *c = s->Ist.CAS.details;
        Int bytes = sizeofIRType(typeOfIRExpr(types, c->dataLo)) * (c->dataHi ? 2 : 1);
        add_load(to, c->addr, bytes, NULL);
        add_store(to, c->addr, bytes, NULL);
        break;
    }
    case Ist_Dirty: {
        const IRDirty *d = s->Ist.Dirty.details;
        if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify)
            add_load(to, d->mAddr, d->mSize, d->guard);
        if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify)
            add_store(to, d->mAddr, d->mSize, d->guard);
        break;
    }
    default:
        break;
    }
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                        IRType host_word)
{
    IRSB *to = deepCopyIRSBExceptStmts(in);
    Int at = 0, run_end;
    /* What precedes the first instruction is not the program's. */
    while (at < in->stmts_used && in->stmts[at]->tag != Ist_IMark)
        addStmtToIRSB(to, in->stmts[at++]);
    for (run_end = at; at < in->stmts_used; at++) {
        const IRStmt *s = in->stmts[at];
        if (s->tag == Ist_IMark && at >= run_end)
            run_end = add_run(to, in, at);
        add_accesses(to, s);
        addStmtToIRSB(to, in->stmts[at]);
    }
    return to;
}

static void on_start(ThreadId tid, ULong blocks)
{
    if (tid != thread)
        sides[0].line = sides[1].line = ~0ull;
    thread = tid;
}

/* Writes what is there. */
static void write_out(void)
{
    put(NONE, 0);
    flush_events();
}

/* After exec the program runs without Valgrind. */
static void before_call(ThreadId tid, UInt number, UWord *args, UInt count)
{
    if (number == __NR_execve || number == __NR_execveat)
        write_out();
}

static void after_call(ThreadId tid, UInt number, UWord *args, UInt count, SysRes result)
{
}

/* A child has the pipe, too, but its accesses are not part of the recording. */
static void in_child(ThreadId tid)
{
    if (output >= 0)
        VG_(close)(output);
    output = -1;
    filled = 0;
}

static void on_end(Int code)
{
    write_out();
}

static Bool take_option(const HChar *option)
{
    return VG_INT_CLO(option, "--fd", output) ? True : False;
}

static void show_options(void)
{
    VG_(printf)("    --fd=<number>             the pipe for the events\n");
}

static void show_debug_options(void)
{
}

static void begin(void)
{
    if (output >= 0)
        output = VG_(safe_fd)(output);
}

static void register_all(void)
{
    VG_(details_name)("nagori");
    VG_(details_version)(NULL);
    VG_(details_description)("cache lines of a program");
    VG_(details_copyright_author)("");
    VG_(details_bug_reports_to)("the authors of Nagori");
    VG_(basic_tool_funcs)(begin, instrument, on_end);
    VG_(needs_command_line_options)(take_option, show_options, show_debug_options);
    VG_(needs_syscall_wrapper)(before_call, after_call);
    VG_(track_start_client_code)(on_start);
    VG_(atfork)(NULL, NULL, in_child);
    sides[0].line = sides[1].line = ~0ull;
}

VG_DETERMINE_INTERFACE_VERSION(register_all)
