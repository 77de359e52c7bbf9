// What CoreMark has in it, of our own making: a list that is searched, reversed and sorted, products of matrices, a
// machine of states over text, checksums over all of that.
#include "region.h"

struct item {
    struct item *next;
    short key, value;
};
enum { ITEMS = 64, N = 12 };
static struct item items[ITEMS];
static short a[N][N], b[N][N];
static int c[N][N];
static const char TEXT[] = "12,-7.5e3,0x1f,word,+44.0,9999,1e,-,3.14159,.5,a1,007,";

static NOINLINE u16 checksum(u16 crc, u64 value, int bits)
{
    for (int i = 0; i < bits; i++) {
        u16 bit = (crc ^ value >> i) & 1;
        crc >>= 1;
        if (bit)
            crc ^= 0xa001;
    }
    return crc;
}

static NOINLINE struct item *reverse(struct item *l)
{
    struct item *done = 0;
    while (l) {
        struct item *n = l->next;
        l->next = done;
        done = l;
        l = n;
    }
    return done;
}

static NOINLINE struct item *find(struct item *l, short key)
{
    while (l && l->key != key)
        l = l->next;
    return l;
}

static NOINLINE struct item *merge(struct item *x, struct item *y, int by_value)
{
    struct item head, *end = &head;
    while (x && y) {
        int first = by_value ? x->value <= y->value : x->key <= y->key;
        struct item **from = first ? &x : &y;
        end = end->next = *from;
        *from = (*from)->next;
    }
    end->next = x ? x : y;
    return head.next;
}

static NOINLINE struct item *sort(struct item *l, u64 n, int by_value)
{
    if (n == 1) {
        l->next = 0;
        return l;
    }
    struct item *half = l;
    for (u64 i = 0; i < n / 2; i++)
        half = half->next;
    struct item *y = sort(half, n - n / 2, by_value);
    return merge(sort(l, n / 2, by_value), y, by_value);
}

static NOINLINE u16 list(u64 times)
{
    u64 seed = 99;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct item){i + 1 < ITEMS ? &items[i + 1] : 0, (short)(next(&seed) & 255), (short)i};
    struct item *l = items;
    u16 crc = 0;
    for (u64 t = 0; t < times; t++) {
        struct item *f = find(l, (short)(t * 7 & 255));
        crc = checksum(crc, f ? (u64)f->value : t, 16);
        l = reverse(l);
        l = sort(l, ITEMS, (int)t & 1);
        crc = checksum(crc, (u64)l->key, 16);
    }
    return crc;
}

static NOINLINE u16 matrices(u64 times)
{
    u16 crc = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = (short)(i * j + 1), b[i][j] = (short)(i - j);
    for (u64 t = 0; t < times; t++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                int sum = 0;
                for (int k = 0; k < N; k++)
                    sum += a[i][k] * b[k][j];
                c[i][j] = sum;
            }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                a[i][j] = (short)(c[i][j] >> 3 & 0x7f);
        crc = checksum(crc, (u64)c[3][5], 32);
    }
    return crc;
}

enum state { START, SIGN, INTEGER, POINT, EXPONENT, HEX, OTHER, STATES };
static NOINLINE enum state advance(enum state s, char l)
{
    int digit = l >= '0' && l <= '9';
    switch (s) {
    case START: return digit ? INTEGER : l == '+' || l == '-' ? SIGN : l == '.' ? POINT : OTHER;
    case SIGN: return digit ? INTEGER : l == '.' ? POINT : OTHER;
    case INTEGER: return digit ? INTEGER : l == '.' ? POINT : l == 'e' ? EXPONENT : l == 'x' ? HEX : OTHER;
    case POINT: return digit ? POINT : l == 'e' ? EXPONENT : OTHER;
    case EXPONENT: return digit ? EXPONENT : OTHER;
    case HEX: return digit || (l >= 'a' && l <= 'f') ? HEX : OTHER;
    default: return OTHER;
    }
}

static NOINLINE u16 states(u64 times)
{
    u64 counts[STATES] = {0};
    u16 crc = 0;
    for (u64 t = 0; t < times; t++) {
        enum state s = START;
        for (const char *p = TEXT; *p; p++) {
            if (*p == ',') {
                counts[s]++;
                s = START;
            } else {
                s = advance(s, *p);
            }
        }
        crc = checksum(crc, counts[INTEGER] + counts[OTHER], 16);
    }
    return crc;
}

u64 run(u64 hart)
{
    u64 sum = hart;
    MEASURE("list", sum += list(TIMES(10)));
    MEASURE("matrices", sum += matrices(TIMES(10)));
    MEASURE("states", sum += states(TIMES(60)));
    MEASURE("checksum", for (u64 i = 0; i < TIMES(200); i++) sum = checksum((u16)sum, i, 32));
    return sum;
}
