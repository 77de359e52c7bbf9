// Electromagnetic fields in a box with a dielectric sphere: Yee's scheme on N x N x N cells, six fields in arrays of
// their own. Usage: fdtd N STEPS
#include "nagori_mark.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    int n = atoi(arguments[1]), steps = atoi(arguments[2]);
    size_t cells = (size_t)n * n * n, sx = (size_t)n * n, sy = n;
    double *e[3], *h[3], *factor = malloc(cells * sizeof(double));
    for (int d = 0; d < 3; d++) {
        e[d] = calloc(cells, sizeof(double));
        h[d] = calloc(cells, sizeof(double));
        if (factor == NULL || e[d] == NULL || h[d] == NULL)
            return 1;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                double x = i - n / 2, y = j - n / 2, z = k - n / 2;
                factor[i * sx + j * sy + k] = 0.5 / (x * x + y * y + z * z < n * n / 16.0 ? 4 : 1);
            }
    nagori_roi_begin();
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < n - 1; i++)
            for (int j = 0; j < n - 1; j++)
                for (int k = 0; k < n - 1; k++) {
                    size_t c = i * sx + j * sy + k;
                    h[0][c] -= 0.5 * (e[2][c + sy] - e[2][c] - e[1][c + 1] + e[1][c]);
                    h[1][c] -= 0.5 * (e[0][c + 1] - e[0][c] - e[2][c + sx] + e[2][c]);
                    h[2][c] -= 0.5 * (e[1][c + sx] - e[1][c] - e[0][c + sy] + e[0][c]);
                }
        for (int i = 1; i < n; i++)
            for (int j = 1; j < n; j++)
                for (int k = 1; k < n; k++) {
                    size_t c = i * sx + j * sy + k;
                    e[0][c] += factor[c] * (h[2][c] - h[2][c - sy] - h[1][c] + h[1][c - 1]);
                    e[1][c] += factor[c] * (h[0][c] - h[0][c - 1] - h[2][c] + h[2][c - sx]);
                    e[2][c] += factor[c] * (h[1][c] - h[1][c - sx] - h[0][c] + h[0][c - sy]);
                }
        e[2][n / 4 * sx + n / 2 * sy + n / 2] += sin(0.3 * s);
    }
    nagori_roi_end();
    double sum = 0;
    for (int d = 0; d < 3; d++)
        for (size_t c = 0; c < cells; c++)
            sum += e[d][c] * e[d][c] + h[d][c] * h[d][c];
    printf("%.9e\n", sum);
}
