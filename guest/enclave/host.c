/* A host that has an enclave keep an account, and tries everything that it must not be able to do. It may lose power at
 * any time: what the enclave has sealed is in NVMM, and is found again. */
#include "../include/nagori_mark.h"
#include "../include/nagori_regs.h"
#include "ledger.h"
#include "spy.h"

u64 try_load(u64 at, u64 *value);
u64 try_store(u64 at, u64 value);
u64 try_jump(u64 at);
void enter_watched(u64 number, u64 command, u64 *after);
extern const u64 ledger_image[], ledger_image_end[], spy_image[], spy_image_end[];
extern char second_start[];

enum { FETCH_FAULT = 1, ILLEGAL = 2, LOAD_FAULT = 5, STORE_FAULT = 7 };
/* Where things are in NVMM, behind the monitor's page. */
enum { STORE_AT = 1 << 20, LEDGER_AT = 2 << 20, SPY_AT = 3 << 20, ELSEWHERE = 4 << 20 };
enum { ENCLAVE_SIZE = 1 << 15, SPY_SIZE = 1 << 13 };
enum { BOOKINGS = 12 };

/* Output. */

#define UART 0x10000000ull

static void put(const char *text)
{
    for (; *text; text++) {
        while (!(*(volatile u8 *)(UART + 5) & 0x20))
            ;
        *(volatile u8 *)UART = *text;
    }
}

static void put_number(u64 n)
{
    char text[24];
    int i = 23;
    text[i] = 0;
    do
        text[--i] = '0' + n % 10;
    while (n /= 10);
    put(text + i);
}

static void leave(u32 code)
{
    *(volatile u32 *)0x100000 = code ? code << 16 | 0x3333 : 0x5555;
    for (;;)
        ;
}

static u64 passed, failed;

static void check(const char *what, u64 got, u64 want)
{
    if (got == want) {
        passed++;
        return;
    }
    failed++;
    put("FAIL ");
    put(what);
    put(": got ");
    put_number(got);
    put(", want ");
    put_number(want);
    put("\n");
}

void failed_by_trap(u64 cause, u64 pc, u64 value)
{
    put("FAIL trap ");
    put_number(cause);
    put(" at ");
    put_number(pc);
    put(", value ");
    put_number(value);
    put("\n");
    leave(2);
}

static u64 cycles(void)
{
    u64 n;
    asm volatile("rdcycle %0" : "=r"(n));
    return n;
}

/* Memory. */

static u64 nvmm;
static u8 ledger_room[4096] __attribute__((aligned(4096)));
static u8 spy_room[4096] __attribute__((aligned(4096)));
static struct ledger *const ledger = (struct ledger *)ledger_room;
static struct spy *const spy = (struct spy *)spy_room;

/* What the host keeps: two places for what is sealed, and a word that says which one counts and how many bookings have
 * been acknowledged. */
enum { BLOB = sizeof(struct blob) + ACCOUNT };
struct store {
    u64 known, unused[7];
    u64 word, unused2[7];
    u8 places[2][256];
};
#define STORE_KNOWN 0x726f7473ull
static struct store *store;

static void copy(void *to, const void *from, u64 bytes)
{
    for (u64 i = 0; i < bytes; i++)
        ((volatile u8 *)to)[i] = ((const volatile u8 *)from)[i];
}

static void set(u64 *word, u64 value)
{
    *(volatile u64 *)word = value;
    persist(word, 8);
}

static u64 words_that(u64 at, u64 bytes, int (*what)(u64))
{
    u64 n = 0;
    for (u64 i = 0; i < bytes / 8; i++)
        n += what(((const volatile u64 *)at)[i]);
    return n;
}

static int is_secret(u64 word)
{
    for (u64 i = 0; i < SECRETS; i++)
        if (word == secret(i))
            return 1;
    return 0;
}

static int is_set(u64 word)
{
    return word != 0;
}

static struct answer create(const u64 *image, const u64 *end, u64 at, u64 size, void *room)
{
    volatile u64 *to = (volatile u64 *)at;
    u64 n = end - image;
    for (u64 i = 0; i < size / 8; i++)
        to[i] = i < n ? image[i] : 0;
    return ask(CALL_CREATE, at, size, (u64)room, 4096);
}

static struct answer enter(u64 number, u64 command)
{
    return ask(CALL_ENTER, number, command, 0, 0);
}

/* The account. */

static u64 created, entered, sealed, committed, unsealed, walked;

static u64 book(u64 number, u64 value)
{
    ledger->value = value;
    u64 t = cycles();
    struct answer a = enter(number, LEDGER_ADD);
    sealed = cycles() - t;
    if (a.a[0] != ENDED || a.a[1])
        return 1;
    u64 kept = store->word, place = !(kept & 1);
    copy(store->places[place], &ledger->sealed, BLOB);
    persist(store->places[place], BLOB);
    nagori_mark(NAGORI_MARK_LABEL, nagori_text("stored"));
    t = cycles();
    a = enter(number, LEDGER_COMMIT);
    committed = cycles() - t;
    if (a.a[0] != ENDED || a.a[1])
        return 1;
    set(&store->word, ((kept >> 1) + 1) << 1 | place);
    nagori_mark(NAGORI_MARK_LABEL, nagori_text("kept"));
    return 0;
}

static u64 load(u64 number, const void *blob)
{
    copy(&ledger->sealed, blob, BLOB);
    u64 t = cycles();
    struct answer a = enter(number, LEDGER_LOAD);
    unsealed = cycles() - t;
    return a.a[0] == ENDED ? a.a[1] : a.a[0] << 32;
}

static u64 count_now(u64 number)
{
    enter(number, LEDGER_LOOK);
    return ledger->count;
}

/* What was booked before the power failed. */
static void recover(u64 number)
{
    u64 acknowledged = store->word >> 1, place = store->word & 1;
    /* The place that does not count may have what was sealed and not yet acknowledged. */
    u64 newer = load(number, store->places[!place]);
    if (newer) {
        u64 older = load(number, store->places[place]);
        check("what was acknowledged is there", older, acknowledged ? 0 : ERROR_BLOB);
    }
    u64 count = count_now(number);
    check("no booking is lost", count == acknowledged || count == acknowledged + 1, 1);
    u64 total = 0;
    for (u64 i = 1; i <= count; i++)
        total += i * i;
    check("and the sum is theirs", ledger->total, total);
    put("recovered ");
    put_number(count);
    put(" of ");
    put_number(acknowledged);
    put(" acknowledged\n");
    if (count > acknowledged)
        set(&store->word, count << 1 | !place);
}

/* Attacks. */

static void cannot_reach(const char *what, u64 at)
{
    u64 value = 0;
    check(what, try_load(at, &value), LOAD_FAULT);
    check(what, value, 0);
    check(what, try_store(at, 1), STORE_FAULT);
    check(what, try_jump(at), FETCH_FAULT);
}

static void attack_memory(void)
{
    for (u64 at = MONITOR_BASE; at < MONITOR_BASE + MONITOR_SIZE; at += 0x1ff8)
        cannot_reach("the monitor", at);
    cannot_reach("the monitor's end", MONITOR_BASE + MONITOR_SIZE - 8);
    for (u64 at = nvmm; at < nvmm + 4096; at += 504)
        cannot_reach("the monitor's record", at);
    for (u64 i = 0; i < ENCLAVE_SIZE; i += 0xff8)
        cannot_reach("the enclave", nvmm + LEDGER_AT + i);
    cannot_reach("the enclave's end", nvmm + LEDGER_AT + ENCLAVE_SIZE - 8);
    u64 value;
    check("behind it", try_load(nvmm + LEDGER_AT + ENCLAVE_SIZE, &value), 0);
}

/* Through page tables of the host: they map the enclave, or are in it. */
static u64 tables[3][512] __attribute__((aligned(4096)));

static void attack_by_tables(void)
{
    enum { VALID = 1, ALL = 0xcf };
    u64 enclave = nvmm + LEDGER_AT, window = 0x4000000000ull - (1 << 30), value = 0;
    for (u64 i = 0; i < 8; i++)
        tables[0][i] = i << 28 | ALL;                   /* 8 GiB as they are */
    tables[0][255] = (u64)tables[1] >> 12 << 10 | VALID;
    tables[1][0] = (u64)tables[2] >> 12 << 10 | VALID;
    tables[1][1] = enclave >> 12 << 10 | VALID;         /* a table in the enclave */
    tables[2][0] = enclave >> 12 << 10 | ALL;           /* a page of it */
    asm volatile("csrw satp, %0\nsfence.vma" ::"r"(8ull << 60 | (u64)tables[0] >> 12) : "memory");
    check("mapped: load", try_load(window, &value), LOAD_FAULT);
    check("mapped: store", try_store(window, 1), STORE_FAULT);
    check("mapped: jump", try_jump(window), FETCH_FAULT);
    check("a table in the enclave", try_load(window + (2 << 20), &value), LOAD_FAULT);
    check("nothing was read", value, 0);
    asm volatile("csrw satp, zero\nsfence.vma" ::: "memory");
}

static void attack_csrs(void)
{
    /* Each ends in a trap, or says nothing. */
    static const u32 reads[] = {0x3a002573, 0x3b002573, 0x30002573, 0x34002573}; /* csrr a0: pmpcfg0, pmpaddr0, ... */
    for (u64 i = 0; i < sizeof reads / sizeof *reads; i++) {
        static u32 code[2] __attribute__((aligned(8)));
        code[0] = reads[i];
        code[1] = 0x00008067; /* ret */
        asm volatile("fence.i" ::: "memory");
        check("a CSR of M mode", try_jump((u64)code), ILLEGAL);
    }
}

static void attack_creation(u64 number)
{
    u64 own = nvmm + LEDGER_AT, free = nvmm + ELSEWHERE, room = (u64)spy_room, end = ~0ull & ~4095ull;
    const struct { const char *what; u64 base, size, shared, shared_size; } bad[] = {
        {"over an enclave", own, ENCLAVE_SIZE, room, 4096},
        {"in an enclave", own + 4096, 4096, room, 4096},
        {"around an enclave", nvmm + LEDGER_AT, 1 << 20, room, 4096},
        {"over the monitor", MONITOR_BASE, MONITOR_SIZE, room, 4096},
        {"over the record", nvmm, 4096, room, 4096},
        {"around the record", nvmm, 1 << 20, room, 4096},
        {"in DRAM", MONITOR_BASE + (64 << 20), 4096, room, 4096},
        {"not aligned", free + 2048, 4096, room, 4096},
        {"not aligned to its size", free + 4096, 8192, room, 4096},
        {"no power of two", free, 12288, room, 4096},
        {"small", free, 2048, room, 4096},
        {"nothing", free, 0, room, 4096},
        {"all", 0, 1ull << 63, room, 4096},
        {"beyond memory", 1ull << 40, 4096, room, 4096},
        {"at the end of all addresses", end, 4096, room, 4096},
        {"shared: an enclave", free, 4096, own, 4096},
        {"shared: what another one shares", free, 4096, (u64)ledger_room, 4096},
        {"shared: the monitor", free, 4096, MONITOR_BASE, 4096},
        {"shared: around the monitor", free, 4096, MONITOR_BASE, 1 << 20},
        {"shared: the record", free, 4096, nvmm, 4096},
        {"shared: itself", free, 4096, free, 4096},
        {"shared: a device", free, 4096, UART, 4096},
        {"shared: the clock", free, 4096, 0x2000000, 0x10000},
    };
    for (u64 i = 0; i < sizeof bad / sizeof *bad; i++)
        check(bad[i].what, ask(CALL_CREATE, bad[i].base, bad[i].size, bad[i].shared, bad[i].shared_size).a[0],
              ERROR_RANGE);
    check("no such enclave", enter(number + 1, LEDGER_LOOK).a[0], ERROR_NUMBER);
    check("no such enclave", enter(~0ull, LEDGER_LOOK).a[0], ERROR_NUMBER);
    check("no such call", ask(CALL_SEAL, 0, 0, 0, 0).a[0], ERROR_CALL);
    check("not interrupted", ask(CALL_RESUME, number, 0, 0, 0).a[0], ERROR_STATE);
    check("a hart that runs", ask(CALL_START, 0, 0, 0, 0).a[0], ERROR_STATE);
    check("no such hart", ask(CALL_START, 1ull << 40, 0, 0, 0).a[0], ERROR_NUMBER);
}

static void attack_registers(u64 number)
{
    u64 after[32];
    enter_watched(number, LEDGER_LEAK, after);
    check("it ended", after[10], ENDED);
    for (u64 r = 1; r < 32; r++) {
        int used = r == 2 || r == 10 || r == 11 || r == 12 || r == 17;
        check("a register", used ? !is_secret(after[r]) : after[r], used ? 1 : 0x7700 + r);
    }
}

static void attack_between(u64 number)
{
    ledger->value = 200000;
    struct answer a = ask(CALL_ENTER, number, LEDGER_COUNT, 100, 0);
    u64 times = 0;
    while (a.a[0] == INTERRUPTED && times++ < 100000) {
        if (times <= 3)
            cannot_reach("an interrupted enclave", nvmm + LEDGER_AT + times * 8192);
        if (times == 2)
            check("entered twice", enter(number, LEDGER_LOOK).a[0], ERROR_STATE);
        a = ask(CALL_RESUME, number, 100, 0, 0);
    }
    check("it has ended", a.a[0], ENDED);
    check("as if nothing had been", a.a[1], 200000);
    check("it was interrupted", times > 3, 1);
}

/* Another hart does what it can while the enclave runs. */
enum { TRIES = 300 };
static volatile u64 inside, second_number, second_done, second_reached, second_entered, second_late;

void second(void)
{
    while (!inside)
        ;
    u64 value, number = second_number;
    for (u64 t = cycles(); cycles() - t < 5000;)
        ;
    for (u64 n = 0; n < TRIES; n++) {
        u64 at = nvmm + LEDGER_AT + (n * 1032 & (ENCLAVE_SIZE - 8));
        second_reached += try_load(at, &value) != LOAD_FAULT;
        second_reached += try_store(at, ~0ull) != STORE_FAULT;
        second_reached += try_jump(at) != FETCH_FAULT;
        second_entered += enter(number, LEDGER_LOOK).a[0] != ERROR_STATE;
        second_entered += ask(CALL_RESUME, number, 0, 0, 0).a[0] != ERROR_STATE;
        second_entered += ask(CALL_DESTROY, number, 0, 0, 0).a[0] != ERROR_STATE;
        second_late += !inside;
    }
    second_done = 1;
    for (;;)
        asm volatile("wfi");
}

static void attack_beside(u64 number)
{
    ledger->value = 300000;
    second_number = number;
    inside = 1;
    struct answer a = enter(number, LEDGER_COUNT);
    inside = 0;
    while (!second_done)
        ;
    check("it has counted", a.a[1], 300000);
    check("all tries were meanwhile", second_late, 0);
    check("they reached nothing", second_reached, 0);
    check("nor entered", second_entered, 0);
}

static void attack_seals(u64 number)
{
    u8 blob[BLOB];
    copy(blob, store->places[store->word & 1], BLOB);
    check("the secret is not in it", words_that((u64)blob & ~7ull, BLOB, is_secret), 0);
    check("nor in what is shared", words_that((u64)ledger_room, 4096, is_secret), 0);
    for (u64 i = 0; i < BLOB; i++) {
        blob[i] ^= 1 << i % 8;
        check("a changed bit", load(number, blob), ERROR_BLOB);
        blob[i] ^= 1 << i % 8;
    }
    check("the one before", load(number, store->places[!(store->word & 1)]), ERROR_OLD);
    check("the right one", load(number, blob), 0);
    check("has everything", count_now(number), BOOKINGS);
}

/* Another program, in the same place, is somebody else. */
static void attack_identity(void)
{
    static u64 image[ENCLAVE_SIZE / 8];
    u64 n = ledger_image_end - ledger_image;
    for (u64 i = 0; i < n; i++)
        image[i] = ledger_image[i];
    image[n - 1] ^= 1; /* the last word of its pages */
    struct answer a = create(image, image + n, nvmm + LEDGER_AT, ENCLAVE_SIZE, ledger_room);
    check("a changed program", a.a[0], 0);
    check("gets nothing", load(a.a[1], store->places[store->word & 1]), ERROR_BLOB);
    check("and goes", ask(CALL_DESTROY, a.a[1], 0, 0, 0).a[0], 0);
}

static struct answer spies(u64 number, u64 what, u64 at)
{
    spy->at = at;
    return enter(number, what);
}

static void hostile_enclave(void)
{
    const struct { const char *what; u64 command, at, how, value; } tries[] = {
        {"reads the host", SPY_READ, MONITOR_BASE + MONITOR_SIZE, FAULTED, LOAD_FAULT},
        {"writes to the host", SPY_WRITE, (u64)&passed, FAULTED, STORE_FAULT},
        {"reads the monitor", SPY_READ, MONITOR_BASE, FAULTED, LOAD_FAULT},
        {"reads the record", SPY_READ, nvmm, FAULTED, LOAD_FAULT},
        {"prints", SPY_WRITE, UART, FAULTED, STORE_FAULT},
        {"ends the machine", SPY_WRITE, 0x100000, FAULTED, STORE_FAULT},
        {"changes the method", SPY_WRITE, NAGORI_CTL_BASE + NAGORI_CTL_METHOD, FAULTED, STORE_FAULT},
        {"jumps to the host", SPY_JUMP, MONITOR_BASE + MONITOR_SIZE, FAULTED, FETCH_FAULT},
        {"jumps to what is shared", SPY_JUMP, (u64)spy->room, FAULTED, FETCH_FAULT},
        {"reads another enclave", SPY_READ, nvmm + LEDGER_AT, FAULTED, LOAD_FAULT},
        {"reads what another one shares", SPY_READ, (u64)ledger_room, FAULTED, LOAD_FAULT},
        {"changes PMP", SPY_CSR, 0, FAULTED, ILLEGAL},
        {"looks at floating-point registers", SPY_FLOAT, 0, FAULTED, ILLEGAL},
        {"seals the host", SPY_SEAL_FROM, MONITOR_BASE + MONITOR_SIZE, ENDED, ERROR_RANGE},
        {"seals the monitor", SPY_SEAL_FROM, MONITOR_BASE, ENDED, ERROR_RANGE},
        {"seals over its end", SPY_SEAL_FROM, nvmm + SPY_AT + SPY_SIZE - 56, ENDED, ERROR_RANGE},
        {"seals over the end of all", SPY_SEAL_FROM, ~0ull - 8, ENDED, ERROR_RANGE},
        {"seals to the monitor", SPY_SEAL_TO, MONITOR_BASE, ENDED, ERROR_RANGE},
        {"seals to the host", SPY_SEAL_TO, MONITOR_BASE + MONITOR_SIZE, ENDED, ERROR_RANGE},
        {"seals over the end of what is shared", SPY_SEAL_TO, (u64)spy_room + 4096 - 64, ENDED, ERROR_RANGE},
        {"seals to an odd place", SPY_SEAL_TO, (u64)spy->room + 1, ENDED, ERROR_RANGE},
        {"seals too much", SPY_SEAL_LONG, SEALED_MOST + 1, ENDED, ERROR_RANGE},
        {"seals all", SPY_SEAL_LONG, ~0ull, ENDED, ERROR_RANGE},
        {"unseals to the host", SPY_UNSEAL_TO, MONITOR_BASE + MONITOR_SIZE, ENDED, ERROR_RANGE},
        {"unseals to the record", SPY_UNSEAL_TO, nvmm, ENDED, ERROR_RANGE},
        {"commits what was not sealed", SPY_COMMIT, 1000, ENDED, ERROR_OLD},
        {"makes an enclave", SPY_CALL, nvmm + ELSEWHERE, ENDED, ERROR_CALL},
    };
    u64 before = passed;
    for (u64 i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct answer a = create(spy_image, spy_image_end, nvmm + SPY_AT, SPY_SIZE, spy_room);
        check("a hostile enclave", a.a[0], 0);
        u64 number = a.a[1];
        if (!i) {
            /* What another one has sealed. */
            copy(spy->room, store->places[store->word & 1], BLOB);
            spy->bytes = ACCOUNT;
            check("unseals another one's", enter(number, SPY_UNSEAL).a[1], ERROR_BLOB);
        }
        a = spies(number, tries[i].command, tries[i].at);
        check(tries[i].what, a.a[0], tries[i].how);
        check(tries[i].what, a.a[1], tries[i].value);
        if (tries[i].how == FAULTED)
            check("it is over", enter(number, SPY_COMMIT).a[0], ERROR_STATE);
        check("it goes", ask(CALL_DESTROY, number, 0, 0, 0).a[0], 0);
    }
    check("nothing of ours was written", passed > before, 1);
}

void host(void)
{
    nvmm = *(volatile u64 *)(NAGORI_CTL_BASE + NAGORI_CTL_NVMM_BASE);
    store = (struct store *)(nvmm + STORE_AT);
    check("no secret is left", words_that(nvmm + LEDGER_AT, ENCLAVE_SIZE, is_secret), 0);
    /* Floating point is on, and another hart runs, before there is an enclave. */
    asm volatile("csrs sstatus, %0" ::"r"(3 << 13));
    check("another hart", ask(CALL_START, 1, (u64)second_start, 0, 0).a[0], 0);
    u64 t = cycles();
    struct answer a = create(ledger_image, ledger_image_end, nvmm + LEDGER_AT, ENCLAVE_SIZE, ledger_room);
    created = cycles() - t;
    check("an enclave", a.a[0], 0);
    u64 number = a.a[1];
    t = cycles();
    a = enter(number, LEDGER_NOTHING);
    entered = cycles() - t;
    check("it runs", a.a[0], ENDED);
    if (store->known != STORE_KNOWN)
        set(&store->known, STORE_KNOWN);
    recover(number);
    while (count_now(number) < BOOKINGS) {
        u64 n = ledger->count + 1;
        check("a booking", book(number, n * n), 0);
    }
    t = cycles();
    check("it walks", enter(number, LEDGER_WALK).a[0], ENDED);
    walked = cycles() - t;
    attack_memory();
    attack_by_tables();
    attack_csrs();
    attack_creation(number);
    attack_registers(number);
    attack_between(number);
    attack_beside(number);
    attack_seals(number);
    check("it goes", ask(CALL_DESTROY, number, 0, 0, 0).a[0], 0);
    check("its memory is zero", words_that(nvmm + LEDGER_AT, ENCLAVE_SIZE, is_set), 0);
    check("it is gone", enter(number, LEDGER_LOOK).a[0], ERROR_NUMBER);
    attack_identity();
    hostile_enclave();
    put("cycles: create ");
    put_number(created);
    put(", enter and exit ");
    put_number(entered);
    put(", book and seal ");
    put_number(sealed);
    put(", commit ");
    put_number(committed);
    put(", unseal ");
    put_number(unsealed);
    put(", walk ");
    put_number(walked);
    put("\n");
    put_number(passed);
    put(" passed, ");
    put_number(failed);
    put(" failed\n");
    leave(failed ? 1 : 0);
}
