// Preloaded before an allocator that is not ours: what the allocator maps is bound to the NUMA node of NVMM, and what
// others map stays where the kernel puts it. Debian's jemalloc gets all memory from mmap.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODE = 1, POLICY_BIND = 2 };

// The text of the allocator: who calls from there is it.
static uintptr_t low, high;

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (info->dlpi_name == NULL || strstr(info->dlpi_name, "libjemalloc") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            low = info->dlpi_addr + p->p_vaddr;
            high = low + p->p_memsz;
        }
    }
    return 1;
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    void *got = (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
    if (got == MAP_FAILED || !(flags & MAP_ANONYMOUS))
        return got;
    if (high == 0)
        dl_iterate_phdr(find, NULL);
    if (caller < low || caller >= high)
        return got;
    unsigned long mask = 1UL << NODE;
    if (syscall(SYS_mbind, got, length, POLICY_BIND, &mask, sizeof mask * 8 + 1, 0) != 0) {
        static const char SAID[] = "libnagori-bind: memory cannot be bound to NVMM\n";
        (void)!write(STDERR_FILENO, SAID, sizeof SAID - 1);
        _exit(127);
    }
    return got;
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
