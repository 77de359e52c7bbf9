// Products of matrices of 64 x 64 doubles.
#include "speed.h"
enum { N = 64 };
static double a[N][N], b[N][N], c[N][N];
u64 run(void)
{
    for (u64 i = 0; i < N; i++)
        for (u64 j = 0; j < N; j++) {
            a[i][j] = (double)(i + j) / 7;
            b[i][j] = (double)(i * j % 13) - 5;
        }
    for (u64 pass = 0; pass < (TIMES(40) ? TIMES(40) : 1); pass++)
        for (u64 i = 0; i < N; i++)
            for (u64 j = 0; j < N; j++) {
                double sum = c[i][j] / 3;
                for (u64 k = 0; k < N; k++)
                    sum += a[i][k] * b[k][j];
                c[i][j] = sum;
            }
    return (u64)(long)c[3][5];
}
