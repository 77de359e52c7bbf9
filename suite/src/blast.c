// A blast wave in three dimensions: five conserved quantities on N x N x N cells, periodic; each step solves an
// implicit system (7 points, 5 quantities that are coupled in every cell) by BiCGSTAB. Usage: blast N STEPS
#include "nagori_mark.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { Q = 5, ITERATIONS = 4 };

static int n;
static size_t cells;
static double *state;

// y = (1 + implicit diffusion and advection around the present state) x.
static void apply(const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                size_t c = ((size_t)i * n + j) * n + k;
                size_t around[6] = {
                    ((size_t)((i + 1) % n) * n + j) * n + k, ((size_t)((i + n - 1) % n) * n + j) * n + k,
                    ((size_t)i * n + (j + 1) % n) * n + k,   ((size_t)i * n + (j + n - 1) % n) * n + k,
                    ((size_t)i * n + j) * n + (k + 1) % n,   ((size_t)i * n + j) * n + (k + n - 1) % n,
                };
                double rho = state[c * Q], pressure = 0.4 * state[c * Q + 4];
                double mix[Q];
                for (int q = 0; q < Q; q++) {
                    double flow = 0, sum = 0;
                    for (int d = 0; d < 3; d++) {
                        double speed = state[c * Q + 1 + d] / rho;
                        double ahead = x[around[2 * d] * Q + q], behind = x[around[2 * d + 1] * Q + q];
                        flow += speed * (ahead - behind);
                        sum += ahead + behind;
                    }
                    mix[q] = x[c * Q + q] + 0.1 * flow - 0.05 * (sum - 6 * x[c * Q + q]);
                }
                for (int q = 0; q < Q; q++) {
                    double coupled = 0;
                    for (int p = 0; p < Q; p++)
                        coupled += (p == q ? 1 : 0.01 * pressure / (1 + p + q)) * mix[p];
                    y[c * Q + q] = coupled;
                }
            }
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < cells * Q; i++)
        sum += a[i] * b[i];
    return sum;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    n = atoi(arguments[1]);
    int steps = atoi(arguments[2]);
    cells = (size_t)n * n * n;
    enum { R, R0, P, V, S, T, X, VECTORS };
    double *v[VECTORS];
    state = malloc(cells * Q * sizeof(double));
    for (int i = 0; i < VECTORS; i++)
        if ((v[i] = calloc(cells * Q, sizeof(double))) == NULL || state == NULL)
            return 1;
    for (size_t c = 0; c < cells; c++) {
        int i = c / n / n, j = c / n % n, k = c % n;
        double r = (i - n / 2) * (i - n / 2) + (j - n / 2) * (j - n / 2) + (k - n / 2) * (k - n / 2);
        double at[Q] = {1, 0.1, 0, 0, r < n * n / 64.0 ? 10 : 1};
        for (int q = 0; q < Q; q++)
            state[c * Q + q] = at[q];
    }
    nagori_roi_begin();
    for (int s = 0; s < steps; s++) {
        apply(v[X], v[V]);
        for (size_t i = 0; i < cells * Q; i++)
            v[P][i] = v[R][i] = v[R0][i] = state[i] - v[V][i];
        double rho = dot(v[R0], v[R]);
        for (int it = 0; it < ITERATIONS; it++) {
            apply(v[P], v[V]);
            double alpha = rho / dot(v[R0], v[V]);
            for (size_t i = 0; i < cells * Q; i++)
                v[S][i] = v[R][i] - alpha * v[V][i];
            apply(v[S], v[T]);
            double omega = dot(v[T], v[S]) / (dot(v[T], v[T]) + 1e-300);
            for (size_t i = 0; i < cells * Q; i++) {
                v[X][i] += alpha * v[P][i] + omega * v[S][i];
                v[R][i] = v[S][i] - omega * v[T][i];
            }
            double next = dot(v[R0], v[R]), beta = next / (rho + 1e-300) * alpha / (omega + 1e-300);
            rho = next;
            for (size_t i = 0; i < cells * Q; i++)
                v[P][i] = v[R][i] + beta * (v[P][i] - omega * v[V][i]);
        }
        for (size_t i = 0; i < cells * Q; i++)
            state[i] = v[X][i];
    }
    nagori_roi_end();
    double sum[Q] = {0};
    for (size_t i = 0; i < cells * Q; i++)
        sum[i % Q] += state[i];
    printf("%.6e %.6e %.6e\n", sum[0], sum[1], sum[4]);
}
