// Products of dense matrices of 64 x 64 doubles.
#include "speed.h"
enum { N = 64 };
static double a[N][N] LINE, b[N][N] LINE, c[N][N] LINE;
u64 run(u64 hart)
{
    for (u64 i = 0; i < N; i++)
        for (u64 j = 0; j < N; j++) {
            a[i][j] = (double)(i + j) / 7;
            b[i][j] = (double)(i * j % 13) - 5;
        }
    for (u64 pass = 0; pass < TIMES(60); pass++)
        for (u64 i = 0; i < N; i++) {
            for (u64 j = 0; j < N; j++)
                c[i][j] /= 3;
            // By rows of all three.
            for (u64 k = 0; k < N; k++) {
                double factor = a[i][k];
                for (u64 j = 0; j < N; j++)
                    c[i][j] += factor * b[k][j];
            }
        }
    u64 sum = hart;
    for (u64 i = 0; i < N; i++)
        for (u64 j = 0; j < N; j++) {
            union { double real; u64 bits; } u = { c[i][j] };
            sum = mix(sum, u.bits);
        }
    return sum;
}
