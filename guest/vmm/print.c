/* The console: the machine's first 16550A. */
#include "vmm.h"
#include <stdarg.h>

#define UART ((volatile u8 *)0x10000000)
enum { DATA = 0, LINE_STATUS = 5, READY = 1, EMPTY = 0x20 };

static volatile u32 lock;

void lock_console(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        ;
}

void unlock_console(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

void put_char(char c)
{
    while (!(UART[LINE_STATUS] & EMPTY))
        ;
    UART[DATA] = c;
}

int get_char(void)
{
    return UART[LINE_STATUS] & READY ? UART[DATA] : -1;
}

static void number(u64 n, u32 base)
{
    char digits[20];
    int i = 0;
    do
        digits[i++] = "0123456789abcdef"[n % base];
    while (n /= base);
    while (i)
        put_char(digits[--i]);
}

void say(const char *f, ...)
{
    va_list args;
    va_start(args, f);
    lock_console();
    for (const char *p = "vmm: "; *p; p++)
        put_char(*p);
    for (; *f; f++) {
        if (*f != '%') {
            put_char(*f);
            continue;
        }
        switch (*++f) {
        case 's':
            for (const char *s = va_arg(args, const char *); *s; s++)
                put_char(*s);
            break;
        case 'x':
            put_char('0');
            put_char('x');
            number(va_arg(args, u64), 16);
            break;
        default:
            number(va_arg(args, u64), 10);
        }
    }
    put_char('\r');
    put_char('\n');
    unlock_console();
    va_end(args);
}
