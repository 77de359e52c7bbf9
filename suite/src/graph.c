// Breadth-first search and PageRank of a Kronecker graph with 2^SCALE nodes and 8 edges a node, as compressed rows.
// Usage: graph SCALE ROUNDS
#include "nagori_mark.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEGREE = 8 };

static uint64_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return seed >> 33;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    int scale = atoi(arguments[1]), rounds = atoi(arguments[2]);
    uint32_t nodes = 1u << scale, edges = nodes * DEGREE;
    uint32_t *from = malloc(edges * sizeof *from), *to = malloc(edges * sizeof *to);
    uint32_t *start = calloc(nodes + 2, sizeof *start), *next = malloc(edges * sizeof *next);
    int32_t *depth = malloc(nodes * sizeof *depth);
    uint32_t *queue = malloc(nodes * sizeof *queue);
    float *rank = malloc(nodes * sizeof *rank), *sum = malloc(nodes * sizeof *sum);
    if (!from || !to || !start || !next || !depth || !queue || !rank || !sum)
        return 1;
    for (uint32_t e = 0; e < edges; e++) {
        uint32_t u = 0, v = 0;
        // Quadrants with probabilities 0.57, 0.19, 0.19, 0.05.
        for (int b = 0; b < scale; b++) {
            uint32_t p = draw() % 100;
            u = u << 1 | (p >= 76);
            v = v << 1 | ((p >= 57 && p < 76) || p >= 95);
        }
        // Names say nothing of the degree.
        from[e] = (u * 2654435761u) >> (32 - scale);
        to[e] = (v * 2654435761u) >> (32 - scale);
        start[from[e] + 2]++;
    }
    for (uint32_t n = 1; n < nodes + 2; n++)
        start[n] += start[n - 1];
    for (uint32_t e = 0; e < edges; e++)
        next[start[from[e] + 1]++] = to[e];

    nagori_roi_begin();
    uint32_t reached = 0;
    uint64_t far = 0;
    for (int r = 0; r < rounds; r++) {
        for (uint32_t n = 0; n < nodes; n++)
            depth[n] = -1;
        uint32_t head = 0, tail = 0, root = from[r];
        depth[root] = 0;
        queue[tail++] = root;
        while (head < tail) {
            uint32_t u = queue[head++];
            far += depth[u];
            for (uint32_t e = start[u]; e < start[u + 1]; e++)
                if (depth[next[e]] < 0) {
                    depth[next[e]] = depth[u] + 1;
                    queue[tail++] = next[e];
                }
        }
        reached += tail;
    }
    for (uint32_t n = 0; n < nodes; n++)
        rank[n] = 1;
    for (int r = 0; r < rounds; r++) {
        for (uint32_t n = 0; n < nodes; n++)
            sum[n] = 0.15f;
        for (uint32_t u = 0; u < nodes; u++) {
            uint32_t degree = start[u + 1] - start[u];
            if (degree == 0)
                continue;
            float share = 0.85f * rank[u] / degree;
            for (uint32_t e = start[u]; e < start[u + 1]; e++)
                sum[next[e]] += share;
        }
        float *old = rank;
        rank = sum;
        sum = old;
    }
    nagori_roi_end();

    double total = 0;
    for (uint32_t n = 0; n < nodes; n++)
        total += rank[n] * (n % 5 + 1);
    printf("%u %lu %.3f\n", reached, (unsigned long)far, total);
}
