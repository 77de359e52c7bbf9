// What Dhrystone has in it, of our own making: records, strings, small functions, arrays, branches that depend on them.
#include "region.h"

enum kind { FIRST, SECOND, THIRD };
struct record {
    struct record *next;
    enum kind kind;
    int number;
    char text[32];
};
static struct record one, two;
static int table[50], grid[50][50];
static int global;
static char letter;

static NOINLINE void copy_text(char *d, const char *s)
{
    while ((*d++ = *s++))
        ;
}
static NOINLINE int compare_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (u8)*a - (u8)*b;
}
static NOINLINE enum kind other_kind(enum kind k, int n)
{
    switch (k) {
    case FIRST: return n > 100 ? SECOND : THIRD;
    case SECOND: return n & 1 ? FIRST : THIRD;
    default: return SECOND;
    }
}
static NOINLINE void step(struct record *r)
{
    struct record *n = r->next;
    *n = *r;
    n->number = r->number + 5;
    n->next = r;
    if (n->kind == FIRST) {
        n->number += 6;
        n->kind = other_kind(r->kind, n->number);
    } else {
        *r = *n->next;
    }
}
static NOINLINE void tables(int *t, int (*g)[50], int a, int b)
{
    int at = a + 5;
    t[at] = b;
    t[at + 1] = t[at];
    t[at + 30 > 49 ? 49 : at + 30] = at;
    for (int i = at; i <= at + 1; i++)
        g[at][i] = at;
    g[at][at - 1]++;
    g[at + 20 > 49 ? 49 : at + 20][at] = t[at];
    global = 5;
}
static NOINLINE int letters(char a, char b)
{
    if (a != b)
        return 0;
    letter = a;
    return 1;
}

static NOINLINE u64 loop(u64 times)
{
    char left[32], right[32];
    copy_text(left, "a text of thirty characters, 1st");
    u64 sum = 0;
    for (u64 i = 0; i < times; i++) {
        int a = 2, b = 3 + (int)(i & 3), c;
        copy_text(right, "a text of thirty characters, 2nd");
        enum kind k = compare_text(left, right) > 0 ? FIRST : SECOND;
        while (a < b) {
            c = 5 * a - b;
            c += a + 2;
            a++;
        }
        tables(table, grid, a, c);
        step(&one);
        for (char l = 'A'; l <= 'C'; l++)
            if (letters(l, 'C'))
                k = other_kind(k, global);
        b *= a;
        a = b / (c | 1);
        b = 7 * (b - c) - a;
        sum += (u64)(a + b) + k;
        HIDE(sum);
    }
    return sum;
}

u64 run(u64 hart)
{
    one.next = &two;
    two.next = &one;
    one.kind = FIRST;
    one.number = 40;
    copy_text(one.text, "a record with some text");
    u64 sum = hart;
    MEASURE("records", sum += loop(TIMES(300)));
    return sum;
}
