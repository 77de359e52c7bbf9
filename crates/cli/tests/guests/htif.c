/* Talks to the host as the field's benchmarks do: the words tohost and fromhost, system calls by
 * eight words of memory, the console device; leaves a signature. */
typedef unsigned long u64;

extern volatile u64 tohost, fromhost;
__asm__(".section .tohost,\"aw\",@progbits\n"
        ".globl tohost\n.balign 64\ntohost: .dword 0\n.size tohost, 8\n.type tohost, @object\n"
        ".globl fromhost\n.balign 64\nfromhost: .dword 0\n.size fromhost, 8\n.type fromhost, @object\n"
        ".globl begin_signature\n.balign 16\nbegin_signature:\n"
        ".dword 0x0123456789abcdef, 0xfedcba9876543210, 0x1122334455667788\n.word 0xdeadbeef\n"
        ".globl end_signature\nend_signature:\n.word 0\n.text\n");
__asm__(".section .text.start,\"ax\",@progbits\n.globl _start\n_start:\n"
        "bnez a0, .\nla sp, stack_top\nj start\n"
        ".bss\n.balign 16\n.skip 8192\nstack_top:\n.text\n");

static u64 call(u64 number, u64 a, u64 b, u64 c)
{
    volatile u64 block[8] __attribute__((aligned(64)));
    block[0] = number;
    block[1] = a;
    block[2] = b;
    block[3] = c;
    __sync_synchronize();
    tohost = (u64)block;
    while (fromhost == 0)
        ;
    fromhost = 0;
    __sync_synchronize();
    return block[0];
}

static void put(char c)
{
    while (tohost)
        ;
    tohost = 0x0101000000000000ul | (unsigned char)c;
}

static int get(void)
{
    while (tohost)
        ;
    tohost = 0x0100000000000000ul;
    u64 answer;
    while ((answer = fromhost) == 0)
        ;
    fromhost = 0;
    return answer >> 56 == 1 && answer & 0x100 ? (int)(answer & 0xff) : -1;
}

static void print(u64 fd, const char *text)
{
    u64 n = 0;
    while (text[n])
        n++;
    if (call(64, fd, (u64)text, n) != n)
        tohost = 99 << 1 | 1;
}

void start(void)
{
    char line[17] = {0};
    print(1, "by a system call\n");
    print(2, "to stderr\n");
    for (const char *s = "by characters: "; *s; s++)
        put(*s);
    put((char)get());
    put((char)get());
    put('\n');
    while (tohost)
        ;
    u64 n = call(63, 0, (u64)line, 16);
    line[n] = 0;
    print(1, "read: ");
    print(1, line);
    if (call(17, 0, 0, 0) != -38ul || call(64, 9, (u64)line, 1) != -9ul)
        tohost = 98 << 1 | 1;
    call(93, 7, 0, 0);
    for (;;)
        ;
}
