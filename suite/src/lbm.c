// Lattice Boltzmann (D3Q19, one relaxation time): flow through a box with obstacles, two grids that are swapped.
// Rows are divided among threads. Usage: lbm X Y Z STEPS [THREADS]
#include "nagori_mark.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { Q = 19 };
static const int CX[Q] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
static const int CY[Q] = {0, 0, 0, 1, -1, 0, 0, 1, 1, -1, -1, 0, 0, 0, 0, 1, -1, 1, -1};
static const int CZ[Q] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, 1, -1, -1, 1, 1, -1, -1};
static const int BACK[Q] = {0, 2, 1, 4, 3, 6, 5, 10, 9, 8, 7, 14, 13, 12, 11, 18, 17, 16, 15};
static const double OMEGA = 1.7, FORCE = 1e-4;

static int nx, ny, nz, steps, threads = 1;
static double *from, *to;
static uint8_t *solid;
static pthread_barrier_t all;

static double weight(int q)
{
    return q == 0 ? 1.0 / 3 : q < 7 ? 1.0 / 18 : 1.0 / 36;
}

static size_t cell(int x, int y, int z)
{
    return ((size_t)z * ny + y) * nx + x;
}

static void plane(int z)
{
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            double f[Q], rho = 0, u = 0, v = 0, w = 0;
            for (int q = 0; q < Q; q++) {
                int sx = (x - CX[q] + nx) % nx, sy = (y - CY[q] + ny) % ny, sz = (z - CZ[q] + nz) % nz;
                size_t source = cell(sx, sy, sz);
                f[q] = solid[source] ? from[cell(x, y, z) * Q + BACK[q]] : from[source * Q + q];
                rho += f[q];
                u += f[q] * CX[q];
                v += f[q] * CY[q];
                w += f[q] * CZ[q];
            }
            u = u / rho + FORCE;
            v /= rho;
            w /= rho;
            double square = 1.5 * (u * u + v * v + w * w), *out = &to[cell(x, y, z) * Q];
            for (int q = 0; q < Q; q++) {
                double c = 3 * (CX[q] * u + CY[q] * v + CZ[q] * w);
                out[q] = f[q] + OMEGA * (weight(q) * rho * (1 + c + 0.5 * c * c - square) - f[q]);
            }
        }
}

static void *work(void *number)
{
    int me = (int)(intptr_t)number;
    for (int s = 0; s < steps; s++) {
        for (int z = me * nz / threads; z < (me + 1) * nz / threads; z++)
            plane(z);
        pthread_barrier_wait(&all);
        if (me == 0) {
            double *old = from;
            from = to;
            to = old;
        }
        pthread_barrier_wait(&all);
    }
    return NULL;
}

int main(int n, char **arguments)
{
    if (n < 5)
        return 2;
    nx = atoi(arguments[1]);
    ny = atoi(arguments[2]);
    nz = atoi(arguments[3]);
    steps = atoi(arguments[4]);
    if (n > 5)
        threads = atoi(arguments[5]);
    size_t cells = (size_t)nx * ny * nz;
    from = malloc(cells * Q * sizeof *from);
    to = malloc(cells * Q * sizeof *to);
    solid = calloc(cells, 1);
    if (from == NULL || to == NULL || solid == NULL)
        return 1;
    uint32_t seed = 1;
    for (size_t c = 0; c < cells; c++) {
        seed = seed * 1664525 + 1013904223;
        solid[c] = seed >> 24 < 8;
        for (int q = 0; q < Q; q++)
            from[c * Q + q] = to[c * Q + q] = weight(q);
    }
    pthread_barrier_init(&all, NULL, threads);
    pthread_t others[64];
    nagori_roi_begin();
    for (int t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, work, (void *)(intptr_t)t);
    work(0);
    for (int t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    nagori_roi_end();
    double sum = 0, momentum = 0;
    for (size_t c = 0; c < cells; c++)
        for (int q = 0; q < Q; q++) {
            sum += from[c * Q + q];
            momentum += from[c * Q + q] * CX[q];
        }
    printf("%.9e %.9e\n", sum, momentum);
}
