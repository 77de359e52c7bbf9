/* Calls by which others learn of a thread's progress, or by which it learns of theirs: each ends the epoch first, so
 * that a delay is served before its effects are seen. */
#define _GNU_SOURCE
#include "helper.h"

#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

#define PASS1(ret, name, t1)                                                   \
    ret name(t1 a)                                                             \
    {                                                                          \
        NEXT(name, NULL);                                         \
        SYNCHRONISE();                                                         \
        return next(a);                                                        \
    }
#define PASS2(ret, name, t1, t2, version)                                      \
    ret name(t1 a, t2 b)                                                       \
    {                                                                          \
        NEXT(name, version);                                  \
        SYNCHRONISE();                                                         \
        return next(a, b);                                                     \
    }
#define PASS3(ret, name, t1, t2, t3, version)                                  \
    ret name(t1 a, t2 b, t3 c)                                                 \
    {                                                                          \
        NEXT(name, version);                              \
        SYNCHRONISE();                                                         \
        return next(a, b, c);                                                  \
    }

/* Condition variables have two versions in glibc for x86-64; the old one is for programs of before 2003. */
#ifdef __x86_64__
#define COND "GLIBC_2.3.2"
#else
#define COND NULL
#endif

PASS1(int, pthread_mutex_lock, pthread_mutex_t *)
PASS1(int, pthread_mutex_trylock, pthread_mutex_t *)
PASS1(int, pthread_mutex_unlock, pthread_mutex_t *)
PASS2(int, pthread_mutex_timedlock, pthread_mutex_t *, const struct timespec *, NULL)
PASS1(int, pthread_spin_lock, pthread_spinlock_t *)
PASS1(int, pthread_spin_unlock, pthread_spinlock_t *)
PASS1(int, pthread_rwlock_rdlock, pthread_rwlock_t *)
PASS1(int, pthread_rwlock_wrlock, pthread_rwlock_t *)
PASS1(int, pthread_rwlock_unlock, pthread_rwlock_t *)
PASS1(int, pthread_barrier_wait, pthread_barrier_t *)
PASS1(int, sem_wait, sem_t *)
PASS1(int, sem_trywait, sem_t *)
PASS1(int, sem_post, sem_t *)
PASS2(int, sem_timedwait, sem_t *, const struct timespec *, NULL)
PASS2(int, pthread_join, pthread_t, void **, NULL)

int pthread_cond_signal(pthread_cond_t *a)
{
    NEXT(pthread_cond_signal, COND);
    SYNCHRONISE();
    return next(a);
}

int pthread_cond_broadcast(pthread_cond_t *a)
{
    NEXT(pthread_cond_broadcast, COND);
    SYNCHRONISE();
    return next(a);
}

PASS2(int, pthread_cond_wait, pthread_cond_t *, pthread_mutex_t *, COND)
PASS3(int, pthread_cond_timedwait, pthread_cond_t *, pthread_mutex_t *, const struct timespec *, COND)

/* Threads. */

static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ended(void *unused)
{
    (void)unused;
    nagori_bye();
}

static void make_key(void)
{
    if (pthread_key_create(&at_end, ended) != 0)
        nagori_die("no key for the end of threads");
}

struct start {
    void *(*run)(void *);
    void *argument;
};

static void *started(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    nagori_begin();
    pthread_setspecific(at_end, &at_end);
    return start.run(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    NEXT(pthread_create, NULL);
    pthread_once(&once, make_key);
    struct start *start = malloc(sizeof *start);
    if (!start)
        nagori_die("no memory");
    *start = (struct start){run, argument};
    nagori_close(FORK, 1);
    int failed = next(thread, attributes, started, start);
    if (failed)
        free(start);
    return failed;
}

/* Processes. */

pid_t fork(void)
{
    NEXT(fork, NULL);
    nagori_close(FORK, 1);
    return next();
}

_Noreturn void _exit(int status)
{
    NEXT(_exit, NULL);
    nagori_bye();
    next(status);
    __builtin_unreachable();
}

_Noreturn void _Exit(int status)
{
    _exit(status);
}

/* Environments for a new program: what loads the helper there must be in it, even if the program has cleared it. */
static const char *const needed[] = {"LD_PRELOAD=", "NAGORI_NATIVE_SOCKET="};

static size_t length(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

static const char *find(char *const *list, const char *name)
{
    for (size_t i = 0; list && list[i]; i++)
        if (strncmp(list[i], name, strlen(name)) == 0)
            return list[i];
    return NULL;
}

/* What the helper was started with; the program may change its environment later. */
static char ours[2][4096];

__attribute__((constructor)) static void remember(void)
{
    for (size_t i = 0; i < 2; i++) {
        const char *entry = find(environ, needed[i]);
        if (!entry || strlen(entry) >= sizeof ours[i])
            nagori_die("the environment lacks what loads the helper");
        strcpy(ours[i], entry);
    }
}

static char **complete(char **place, char *const *list)
{
    size_t n = 0;
    for (size_t i = 0; list && list[i]; i++)
        if (strncmp(list[i], needed[0], strlen(needed[0])) != 0 || strstr(list[i], "nagori"))
            place[n++] = list[i];
    for (size_t i = 0; i < 2; i++)
        if (!find(list, needed[i]) || (i == 0 && !strstr(find(list, needed[0]), "nagori")))
            place[n++] = ours[i];
    place[n] = NULL;
    return place;
}

int execve(const char *path, char *const *arguments, char *const *environment)
{
    NEXT(execve, NULL);
    nagori_close(EXEC, 1);
    char *room[length(environment) + 3];
    char **completed = complete(room, environment);
    nagori_quiet(1);
    int failed = next(path, arguments, completed);
    nagori_quiet(0);
    return failed;
}

int execv(const char *path, char *const *arguments)
{
    return execve(path, arguments, environ);
}

int execvpe(const char *file, char *const *arguments, char *const *environment)
{
    NEXT(execvpe, NULL);
    nagori_close(EXEC, 1);
    char *room[length(environment) + 3];
    char **completed = complete(room, environment);
    nagori_quiet(1);
    int failed = next(file, arguments, completed);
    nagori_quiet(0);
    return failed;
}

int execvp(const char *file, char *const *arguments)
{
    return execvpe(file, arguments, environ);
}

/* Arguments as a list of parameters. */
#define COLLECT(first)                                                         \
    va_list list;                                                              \
    size_t n = 1;                                                              \
    va_start(list, first);                                                     \
    while (va_arg(list, char *))                                               \
        n++;                                                                   \
    va_end(list);                                                              \
    char *arguments[n + 1];                                                    \
    arguments[0] = (char *)first;                                              \
    va_start(list, first);                                                     \
    for (size_t i = 1; i <= n; i++)                                            \
    arguments[i] = va_arg(list, char *)

int execl(const char *path, const char *first, ...)
{
    COLLECT(first);
    va_end(list);
    return execv(path, arguments);
}

int execlp(const char *file, const char *first, ...)
{
    COLLECT(first);
    va_end(list);
    return execvp(file, arguments);
}

int execle(const char *path, const char *first, ...)
{
    COLLECT(first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, arguments, environment);
}


int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment)
{
    NEXT(posix_spawn, NULL);
    nagori_close(FORK, 1);
    char *room[length(environment) + 3];
    return next(pid, path, actions, attributes, arguments, complete(room, environment));
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment)
{
    NEXT(posix_spawnp, NULL);
    nagori_close(FORK, 1);
    char *room[length(environment) + 3];
    return next(pid, file, actions, attributes, arguments, complete(room, environment));
}
