// A scalar wave on a curved background: finite differences of fourth order in N x N x N points, Runge-Kutta of third
// order, two fields and their rates. Usage: wave N STEPS
#include "nagori_mark.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIELDS = 2, GHOST = 2 };

static int n, row;
static size_t points;

static size_t at(int i, int j, int k)
{
    return ((size_t)i * row + j) * row + k;
}

static double second(const double *f, size_t c, size_t stride)
{
    return (-f[c - 2 * stride] + 16 * f[c - stride] - 30 * f[c] + 16 * f[c + stride] - f[c + 2 * stride]) / 12;
}

static void rates(double *field[FIELDS], double *rate[FIELDS], const double *speed, double h)
{
    for (int i = GHOST; i < n + GHOST; i++)
        for (int j = GHOST; j < n + GHOST; j++)
            for (int k = GHOST; k < n + GHOST; k++) {
                size_t c = at(i, j, k);
                double curve = second(field[0], c, (size_t)row * row) + second(field[0], c, row);
                curve += second(field[0], c, 1);
                rate[0][c] = field[1][c];
                rate[1][c] = speed[c] * curve / (h * h) - 0.1 * field[1][c];
            }
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    n = atoi(arguments[1]);
    int steps = atoi(arguments[2]);
    row = n + 2 * GHOST;
    points = (size_t)row * row * row;
    double *field[FIELDS], *rate[FIELDS], *stage[FIELDS], *speed = malloc(points * sizeof(double));
    for (int f = 0; f < FIELDS; f++) {
        field[f] = calloc(points, sizeof(double));
        rate[f] = calloc(points, sizeof(double));
        stage[f] = calloc(points, sizeof(double));
        if (speed == NULL || field[f] == NULL || rate[f] == NULL || stage[f] == NULL)
            return 1;
    }
    double h = 1.0 / n, dt = 0.2 * h;
    for (int i = 0; i < row; i++)
        for (int j = 0; j < row; j++)
            for (int k = 0; k < row; k++) {
                double x = (i - row / 2) * h, y = (j - row / 2) * h, z = (k - row / 2) * h, r = x * x + y * y + z * z;
                field[0][at(i, j, k)] = exp(-40 * r);
                speed[at(i, j, k)] = 1 / (1 + 0.5 / (0.1 + r));
            }
    static const double OLD[3] = {0, 0.75, 1.0 / 3}, NEW[3] = {1, 0.25, 2.0 / 3};
    nagori_roi_begin();
    for (int s = 0; s < steps; s++) {
        for (int f = 0; f < FIELDS; f++)
            for (size_t c = 0; c < points; c++)
                stage[f][c] = field[f][c];
        for (int k = 0; k < 3; k++) {
            rates(stage, rate, speed, h);
            for (int f = 0; f < FIELDS; f++)
                for (size_t c = 0; c < points; c++)
                    stage[f][c] = OLD[k] * field[f][c] + NEW[k] * (stage[f][c] + dt * rate[f][c]);
        }
        for (int f = 0; f < FIELDS; f++) {
            double *old = field[f];
            field[f] = stage[f];
            stage[f] = old;
        }
    }
    nagori_roi_end();
    double sum = 0;
    for (size_t c = 0; c < points; c++)
        sum += field[0][c] * field[0][c] + field[1][c] * field[1][c];
    printf("%.9e\n", sum);
}
