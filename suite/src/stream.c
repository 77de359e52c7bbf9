// The four loops of STREAM over three arrays of N doubles. Usage: stream N ROUNDS [THREADS]
#include "nagori_mark.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double *a, *b, *c;
static long n;
static int rounds, threads = 1;
static pthread_barrier_t all;

static void *work(void *number)
{
    long me = (long)(intptr_t)number, low = me * n / threads, high = (me + 1) * n / threads;
    for (int r = 0; r < rounds; r++) {
        for (long i = low; i < high; i++)
            c[i] = a[i];
        pthread_barrier_wait(&all);
        for (long i = low; i < high; i++)
            b[i] = 3 * c[i];
        pthread_barrier_wait(&all);
        for (long i = low; i < high; i++)
            c[i] = a[i] + b[i];
        pthread_barrier_wait(&all);
        for (long i = low; i < high; i++)
            a[i] = b[i] + 3 * c[i];
        pthread_barrier_wait(&all);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    n = atol(arguments[1]);
    rounds = atoi(arguments[2]);
    if (count > 3)
        threads = atoi(arguments[3]);
    a = malloc(n * sizeof *a);
    b = malloc(n * sizeof *b);
    c = malloc(n * sizeof *c);
    if (a == NULL || b == NULL || c == NULL)
        return 1;
    for (long i = 0; i < n; i++) {
        a[i] = 1 + i % 7;
        b[i] = 2;
        c[i] = 0;
    }
    pthread_barrier_init(&all, NULL, threads);
    pthread_t others[64];
    nagori_roi_begin();
    for (long t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, work, (void *)(intptr_t)t);
    work(0);
    for (long t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    nagori_roi_end();
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += a[i] + b[i] + c[i];
    printf("%.9e\n", sum);
}
