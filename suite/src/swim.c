// Shallow water over an uneven ground on a rotating plane: leapfrog steps on N x N cells, all fields periodic.
// Usage: swim N STEPS
#include "nagori_mark.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int n;

static size_t at(int i, int j)
{
    return (size_t)((i + n) % n) * n + (j + n) % n;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    n = atoi(arguments[1]);
    int steps = atoi(arguments[2]);
    enum { U, V, H, FIELDS };
    double *old[FIELDS], *now[FIELDS], *new[FIELDS], *depth = malloc(sizeof(double) * n * n);
    for (int f = 0; f < FIELDS; f++) {
        old[f] = calloc((size_t)n * n, sizeof(double));
        now[f] = calloc((size_t)n * n, sizeof(double));
        new[f] = calloc((size_t)n * n, sizeof(double));
        if (depth == NULL || old[f] == NULL || now[f] == NULL || new[f] == NULL)
            return 1;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            depth[at(i, j)] = 100 + 20 * sin(6.2831853 * i / n) * cos(6.2831853 * j / n);
            double x = (double)(i - n / 2) / n * 12, y = (double)(j - n / 3) / n * 12;
            now[H][at(i, j)] = old[H][at(i, j)] = exp(-x * x - y * y);
        }
    const double g = 9.8, dx = 1000, dt = 10, f0 = 1e-4, drag = 1e-6;
    nagori_roi_begin();
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                size_t c = at(i, j), e = at(i + 1, j), w = at(i - 1, j), o = at(i, j + 1), p = at(i, j - 1);
                double u = now[U][c], v = now[V][c];
                double advect_u = u * (now[U][e] - now[U][w]) + v * (now[U][o] - now[U][p]);
                double advect_v = u * (now[V][e] - now[V][w]) + v * (now[V][o] - now[V][p]);
                double slope_x = now[H][e] - now[H][w], slope_y = now[H][o] - now[H][p];
                new[U][c] = old[U][c] + dt * (2 * f0 * v - (g * slope_x + advect_u) / dx - 2 * drag * u);
                new[V][c] = old[V][c] + dt * (-2 * f0 * u - (g * slope_y + advect_v) / dx - 2 * drag * v);
                double flux_x = depth[e] * now[U][e] - depth[w] * now[U][w];
                double flux_y = depth[o] * now[V][o] - depth[p] * now[V][p];
                new[H][c] = old[H][c] - dt * (flux_x + flux_y) / dx;
            }
        for (int f = 0; f < FIELDS; f++) {
            // Asselin's filter keeps odd and even steps together.
            for (size_t c = 0; c < (size_t)n * n; c++)
                now[f][c] += 0.05 * (old[f][c] - 2 * now[f][c] + new[f][c]);
            double *first = old[f];
            old[f] = now[f];
            now[f] = new[f];
            new[f] = first;
        }
    }
    nagori_roi_end();
    double sum = 0, most = 0;
    for (size_t c = 0; c < (size_t)n * n; c++) {
        sum += now[H][c];
        most = fmax(most, now[H][c]);
    }
    printf("%.6e %.6f\n", sum, most);
}
