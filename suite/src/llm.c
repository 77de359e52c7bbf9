// A language model as a decoder of transformers runs it: attention over all earlier tokens, SwiGLU, RMS norms; weights
// from a seed, tokens chosen greedily. Usage: llm WIDTH LAYERS TOKENS
#include "nagori_mark.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, WORDS = 512 };

static uint32_t seed = 1;

static float *weights(size_t count)
{
    float *w = malloc(count * sizeof *w);
    if (w == NULL)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        w[i] = ((int32_t)seed >> 8) / 8388608.0f * 0.2f;
    }
    return w;
}

static void multiply(float *out, const float *w, const float *x, int rows, int columns)
{
    for (int r = 0; r < rows; r++) {
        float sum = 0;
        for (int c = 0; c < columns; c++)
            sum += w[(size_t)r * columns + c] * x[c];
        out[r] = sum;
    }
}

static void norm(float *out, const float *x, int width)
{
    float sum = 0;
    for (int i = 0; i < width; i++)
        sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / width + 1e-5f);
    for (int i = 0; i < width; i++)
        out[i] = x[i] * scale;
}

struct layer {
    float *q, *k, *v, *o, *gate, *up, *down, *keys, *values;
};

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    int width = atoi(arguments[1]), layers = atoi(arguments[2]), tokens = atoi(arguments[3]);
    int hidden = 3 * width, head = width / HEADS;
    size_t square = (size_t)width * width, tall = (size_t)width * hidden, cache = (size_t)tokens * width;
    struct layer *l = malloc(layers * sizeof *l);
    for (int i = 0; l != NULL && i < layers; i++)
        l[i] = (struct layer){weights(square), weights(square), weights(square), weights(square), weights(tall),
                              weights(tall),   weights(tall),   weights(cache),  weights(cache)};
    float *words = weights((size_t)WORDS * width), *x = weights(width), *y = weights(width), *q = weights(width);
    float *mixed = weights(width), *g = weights(hidden), *u = weights(hidden), *score = weights(tokens);
    float *guess = weights(WORDS);
    int token = 1;
    unsigned sum = 0;
    nagori_roi_begin();
    for (int t = 0; t < tokens; t++) {
        memcpy(x, &words[(size_t)token * width], width * sizeof *x);
        for (int i = 0; i < layers; i++) {
            norm(y, x, width);
            multiply(q, l[i].q, y, width, width);
            multiply(&l[i].keys[(size_t)t * width], l[i].k, y, width, width);
            multiply(&l[i].values[(size_t)t * width], l[i].v, y, width, width);
            for (int h = 0; h < HEADS; h++) {
                float total = 0, *m = &mixed[h * head];
                for (int p = 0; p <= t; p++) {
                    float dot = 0;
                    for (int c = 0; c < head; c++)
                        dot += q[h * head + c] * l[i].keys[(size_t)p * width + h * head + c];
                    total += score[p] = expf(dot / sqrtf(head));
                }
                memset(m, 0, head * sizeof *m);
                for (int p = 0; p <= t; p++)
                    for (int c = 0; c < head; c++)
                        m[c] += score[p] / total * l[i].values[(size_t)p * width + h * head + c];
            }
            multiply(y, l[i].o, mixed, width, width);
            for (int c = 0; c < width; c++)
                x[c] += y[c];
            norm(y, x, width);
            multiply(g, l[i].gate, y, hidden, width);
            multiply(u, l[i].up, y, hidden, width);
            for (int c = 0; c < hidden; c++)
                g[c] = g[c] / (1 + expf(-g[c])) * u[c];
            multiply(y, l[i].down, g, width, hidden);
            for (int c = 0; c < width; c++)
                x[c] += y[c];
        }
        norm(y, x, width);
        multiply(guess, words, y, WORDS, width);
        token = 0;
        for (int w = 1; w < WORDS; w++)
            if (guess[w] > guess[token])
                token = w;
        sum = sum * 31 + token;
    }
    nagori_roi_end();
    printf("%d %08x\n", token, sum);
}
