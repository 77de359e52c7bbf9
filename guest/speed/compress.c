// Compression of a text by references to what was there before (LZ77 with chains of equal hashes,
// lazy matching), and back again; each pass starts elsewhere in the text.
#include "speed.h"
enum { MOST = 1 << 16, HASH = 1 << 12, CHAIN = 24, LEAST_MATCH = 4, LONGEST = 255 + LEAST_MATCH };
extern const u8 text[], text_end[];
static u8 input[MOST] LINE, packed[2 * MOST] LINE, output[MOST] LINE;
static int head[HASH] LINE, before[MOST] LINE;

static u32 hash(const u8 *p)
{
    u32 v = (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
    return v * 2654435761u >> 20;
}

static void enter(int at)
{
    u32 h = hash(input + at);
    before[at] = head[h];
    head[h] = at;
}

static int longest(int at, int n, int *from)
{
    int best = 0, most = n - at < LONGEST ? n - at : LONGEST, tries = CHAIN;
    for (int c = head[hash(input + at)]; c >= 0 && tries--; c = before[c]) {
        if (best && input[c + best] != input[at + best])
            continue;
        int k = 0;
        while (k < most && input[c + k] == input[at + k])
            k++;
        if (k > best) {
            best = k;
            *from = c;
            if (k == most)
                break;
        }
    }
    return best;
}

// A literal is 0 and a byte; a reference is 1, length, distance in two bytes. Flags are in groups
// of eight before what they tell.
static int pack(int n)
{
    int out = 0, flags = 0, bit = 8;
    for (int i = 0; i < HASH; i++)
        head[i] = -1;
    for (int at = 0; at < n;) {
        int from = 0, later = 0, k = 0;
        if (at + LEAST_MATCH < n) {
            k = longest(at, n, &from);
            enter(at);
            // A longer one that starts at the next byte is worth a literal.
            if (k >= LEAST_MATCH && at + 1 + LEAST_MATCH < n && longest(at + 1, n, &later) > k)
                k = 0;
        }
        if (bit == 8) {
            flags = out++;
            packed[flags] = 0;
            bit = 0;
        }
        if (k < LEAST_MATCH) {
            packed[out++] = input[at++];
        } else {
            packed[flags] |= (u8)(1 << bit);
            packed[out++] = (u8)(k - LEAST_MATCH);
            packed[out++] = (u8)(at - from);
            packed[out++] = (u8)((at - from) >> 8);
            for (int end = at + k; ++at < end;)
                if (at + LEAST_MATCH < n)
                    enter(at);
        }
        bit++;
    }
    return out;
}

static int unpack(int n)
{
    int out = 0, flags = 0, bit = 8;
    for (int at = 0; at < n;) {
        if (bit == 8) {
            flags = packed[at++];
            bit = 0;
        }
        if (flags >> bit++ & 1) {
            int k = packed[at] + LEAST_MATCH, d = packed[at + 1] | packed[at + 2] << 8;
            at += 3;
            for (; k--; out++)
                output[out] = output[out - d];
        } else {
            output[out++] = packed[at++];
        }
    }
    return out;
}

u64 run(u64 hart)
{
    u64 sum = hart;
    int n = (int)(text_end - text);
    for (u64 pass = 0; pass < TIMES(200); pass++) {
        for (int i = 0; i < n; i++)
            input[i] = text[(i + (int)pass * 997) % n];
        int size = pack(n), back = unpack(size);
        for (int i = 0; i < n; i++)
            if (back != n || output[i] != input[i])
                __builtin_trap();
        sum = mix(sum, (u64)size);
    }
    return sum;
}
