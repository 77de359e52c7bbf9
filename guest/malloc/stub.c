// Stands for libjemalloc.so.2 when libnagori-malloc.so is linked; the guest has the real one.
#include "jemalloc.h"

void *mallocx(size_t size, int flags)
{
    (void)size, (void)flags;
    return NULL;
}
void *rallocx(void *p, size_t size, int flags)
{
    (void)p, (void)size, (void)flags;
    return NULL;
}
void dallocx(void *p, int flags)
{
    (void)p, (void)flags;
}
size_t sallocx(const void *p, int flags)
{
    (void)p, (void)flags;
    return 0;
}
int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size)
{
    (void)name, (void)old, (void)old_size, (void)new, (void)new_size;
    return 0;
}
