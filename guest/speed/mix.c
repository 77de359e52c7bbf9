// Typical work of control programs, in turn: lists, small integer matrices, a state machine over
// text, and a CRC over all results.
#include "speed.h"

static u16 crc(u16 sum, u64 value, int bytes)
{
    for (int i = 0; i < 8 * bytes; i++, value >>= 1) {
        u16 low = (u16)((sum ^ value) & 1);
        sum = (u16)(sum >> 1 ^ (low ? 0xa001 : 0));
    }
    return sum;
}

// Lists: build, find, reverse, sort by merging.
struct node {
    struct node *next;
    short key, value;
};
enum { NODES = 250 };
static struct node nodes[NODES] LINE;

static struct node *reverse(struct node *list)
{
    struct node *out = 0;
    while (list) {
        struct node *rest = list->next;
        list->next = out;
        out = list;
        list = rest;
    }
    return out;
}

static struct node *find(struct node *list, short key)
{
    while (list && list->key != key)
        list = list->next;
    return list;
}

static int by_key(const struct node *a, const struct node *b)
{
    return a->key - b->key;
}

static int by_value(const struct node *a, const struct node *b)
{
    return a->value - b->value;
}

static struct node *sort(struct node *list, int n, int (*order)(const struct node *, const struct node *))
{
    if (n < 2)
        return list;
    struct node *left = list, *cut = list, out, *tail = &out;
    for (int i = 1; i < n / 2; i++)
        cut = cut->next;
    struct node *right = cut->next;
    cut->next = 0;
    left = sort(left, n / 2, order);
    right = sort(right, n - n / 2, order);
    while (left && right) {
        struct node **least = order(left, right) <= 0 ? &left : &right;
        tail->next = *least;
        tail = *least;
        *least = tail->next;
    }
    tail->next = left ? left : right;
    return out.next;
}

static u16 lists(u64 *seed, u16 sum)
{
    for (int i = 0; i < NODES; i++) {
        u64 r = next(seed);
        nodes[i] = (struct node){ i + 1 < NODES ? nodes + i + 1 : 0, (short)(r & 511), (short)(r >> 16) };
    }
    struct node *list = nodes;
    for (int i = 0; i < 12; i++) {
        struct node *found = find(list, (short)(next(seed) & 511));
        sum = crc(sum, found ? (u64)found->value : 7, 2);
        list = reverse(list);
    }
    list = sort(list, NODES, by_value);
    sum = crc(sum, (u64)list->key, 2);
    list = sort(list, NODES, by_key);
    for (int i = 0; i < 10; i++, list = list->next)
        sum = crc(sum, (u64)list->value, 2);
    return sum;
}

// Matrices: constants, vectors, products, bit fields of products.
enum { N = 12 };
static short a[N][N], b[N][N];
static int c[N][N];

static u16 matrices(u64 *seed, u16 sum)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            u64 r = next(seed);
            a[i][j] = (short)(r % 199);
            b[i][j] = (short)(r >> 20 & 127);
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int total = 0, fields = 0;
            for (int k = 0; k < N; k++) {
                int p = a[i][k] * b[k][j];
                total += p;
                fields += (p >> 2 & 15) * (p >> 5 & 127);
            }
            c[i][j] = total ^ fields;
        }
    int total = 0, last = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            total += c[i][j] > last ? 10 : c[i][j] & 7;
            last = c[i][j];
        }
    return crc(sum, (u64)total, 4);
}

// A state machine: which of a text's words are numbers, and of what kind.
enum state { START, SIGN, INTEGER, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, SCIENTIFIC, WORD, STATES };
static const char *const words[8] = {
    "5012", "-874", "+122", "35.54400", ".1234500", "-110.700", "5.500e+3", "T0.3e-1F",
};
static char line[512];

static enum state step(enum state s, char ch)
{
    int digit = ch >= '0' && ch <= '9', sign = ch == '+' || ch == '-';
    switch (s) {
    case START: return digit ? INTEGER : sign ? SIGN : ch == '.' ? POINT : WORD;
    case SIGN: return digit ? INTEGER : ch == '.' ? POINT : WORD;
    case INTEGER: return digit ? INTEGER : ch == '.' ? FRACTION : ch == 'e' ? EXPONENT : WORD;
    case POINT: return digit ? FRACTION : WORD;
    case FRACTION: return digit ? FRACTION : ch == 'e' ? EXPONENT : WORD;
    case EXPONENT: return digit ? SCIENTIFIC : sign ? EXPONENT_SIGN : WORD;
    case EXPONENT_SIGN: return digit ? SCIENTIFIC : WORD;
    case SCIENTIFIC: return digit ? SCIENTIFIC : WORD;
    default: return WORD;
    }
}

static u16 states(u64 *seed, u16 sum)
{
    int n = 0;
    while (n < 480) {
        for (const char *w = words[next(seed) >> 9 & 7]; *w;)
            line[n++] = *w++;
        line[n++] = ',';
    }
    u32 ends[STATES] = { 0 }, visits[STATES] = { 0 };
    for (int pass = 0; pass < 2; pass++) {
        enum state s = START;
        for (int i = 0; i < n; i++) {
            if (line[i] == ',') {
                ends[s]++;
                s = START;
            } else {
                s = step(s, line[i]);
                visits[s]++;
            }
        }
        // The second pass meets damage.
        for (int i = 0; i < n; i += 7)
            if (line[i] != ',')
                line[i] ^= 1;
    }
    for (int i = 0; i < STATES; i++)
        sum = crc(sum, ends[i] << 16 ^ visits[i], 4);
    return sum;
}

u64 run(u64 hart)
{
    u64 seed = 362436069 + hart;
    u16 sum = 0;
    for (u64 pass = 0; pass < TIMES(2000); pass++)
        sum = states(&seed, matrices(&seed, lists(&seed, sum)));
    return sum;
}
