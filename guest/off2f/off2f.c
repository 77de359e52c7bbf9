// off2f: the text store in the guest. See docs/off2f.md.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store.h"

static const char USAGE[] =
    "usage: off2f format                  make an empty text store\n"
    "       off2f put FILE.text [NAME]    put a text; one with the same name is replaced\n"
    "       off2f list                    show the texts\n"
    "       off2f remove NAME             remove a text; processes that run it run on\n"
    "       off2f fsck [--repair]         check everything\n"
    "       off2f load LIBRARY.off2 PROGRAM [ARGUMENT...]\n"
    "                                     run a program with a library whose text is in the store\n"
    "       off2f stat                    what the kernel module has done\n"
    "The store is where the device tree's node " OFF2F_COMPATIBLE " says\n"
    "(nagori boot --set memory.text_store=\"64 MiB\").\n";

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("off2f: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

// The store's place, from the device tree.
static struct off2f_place from_tree(void)
{
    static const char ROOT[] = "/proc/device-tree";
    DIR *dir = opendir(ROOT);
    struct dirent *e;
    while (dir && (e = readdir(dir)) != NULL) {
        char path[512];
        unsigned char reg[16];
        if (strncmp(e->d_name, "text-store@", 11) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s/reg", ROOT, e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, reg, sizeof reg) != sizeof reg)
            die("%s cannot be read", path);
        close(fd);
        closedir(dir);
        uint64_t v[2] = {0, 0};
        for (int i = 0; i < 16; i++)
            v[i / 8] = v[i / 8] << 8 | reg[i];
        return (struct off2f_place){v[0], v[1]};
    }
    die("the machine has no text store: no node %s in the device tree", OFF2F_COMPATIBLE);
}

static bool in_use(void *context, uint64_t offset, uint64_t bytes)
{
    struct off2f_place range = {offset, bytes};
    return ioctl(*(int *)context, OFF2F_IN_USE, &range) != 0;
}

// Maps the store: through the module if it is loaded, which knows what is mapped, else as memory.
static struct store open_store(bool change)
{
    static int fd;
    struct store s = {0};
    struct off2f_place place;
    int access = change ? O_RDWR : O_RDONLY, protection = PROT_READ | (change ? PROT_WRITE : 0);
    off_t at = 0;
    fd = open("/dev/off2f", access | O_CLOEXEC);
    if (fd >= 0) {
        if (ioctl(fd, OFF2F_GET_PLACE, &place) != 0)
            die("/dev/off2f: %s", strerror(errno));
        if (change && ioctl(fd, OFF2F_LOCK) != 0)
            die("another process changes the store");
        s.in_use = in_use;
        s.context = &fd;
    } else {
        place = from_tree();
        at = (off_t)place.base;
        fd = open("/dev/mem", access | O_CLOEXEC);
        if (fd < 0)
            die("/dev/mem: %s", strerror(errno));
    }
    s.bytes = place.bytes;
    s.base = mmap(NULL, s.bytes, protection, MAP_SHARED, fd, at);
    if (s.base == MAP_FAILED)
        die("the store cannot be mapped: %s", strerror(errno));
    // A flush acts on the caches of the hart that performs it.
    if (change) {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(sched_getcpu(), &own);
        if (sched_setaffinity(0, sizeof own, &own) != 0)
            die("cannot stay on one hart: %s", strerror(errno));
    }
    return s;
}

static int done(int error)
{
    if (error != 0)
        fprintf(stderr, "off2f: %s\n", store_error());
    return error == 0 ? 0 : 1;
}

static int put(const char *path, const char *name)
{
    char own[OFF2F_NAME];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        die("%s: %s", path, strerror(errno));
    char *file = st.st_size == 0 ? MAP_FAILED
                                 : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        die("%s: it is empty or cannot be mapped", path);
    if (store_text_check(file, (size_t)st.st_size) != 0)
        die("%s: %s", path, store_error());
    if (!name) {
        const char *base = strrchr(path, '/');
        snprintf(own, sizeof own, "%s", base ? base + 1 : path);
        size_t len = strlen(own);
        if (len > 5 && strcmp(own + len - 5, ".text") == 0)
            own[len - 5] = 0;
        name = own;
    }
    struct store s = open_store(true);
    struct store_text t = {name, (const struct off2f_text *)file, file + OFF2F_PAGE};
    return done(store_put(&s, &t));
}

static void show(const struct off2f_record *r)
{
    char id[2 * OFF2F_ID + 1];
    for (unsigned i = 0; i < r->id.len; i++)
        sprintf(id + 2 * i, "%02x", r->id.bytes[i]);
    printf("text name=%s pages=%llu offset=%#llx build_id=%s checksum=%016llx\n", r->name,
           (unsigned long long)r->pages, (unsigned long long)r->offset, id,
           (unsigned long long)r->checksum);
}

static int load(char **words)
{
    char variable[64];
    int off2 = open(words[0], O_RDONLY | O_CLOEXEC), fd = open("/dev/off2f", O_RDONLY | O_CLOEXEC);
    if (off2 < 0)
        die("%s: %s", words[0], strerror(errno));
    if (fd < 0)
        die("/dev/off2f: %s (is the module off2f loaded?)", strerror(errno));
    int library = ioctl(fd, OFF2F_OPEN, &off2);
    if (library < 0)
        die("%s: %s (see dmesg)", words[0], strerror(errno));
    snprintf(variable, sizeof variable, "/proc/self/fd/%d", library);
    setenv("LD_PRELOAD", variable, 1);
    execvp(words[1], words + 1);
    die("%s: %s", words[1], strerror(errno));
}

static int stat_module(void)
{
    char text[1024];
    int fd = open("/dev/off2f", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        die("/dev/off2f: %s (is the module off2f loaded?)", strerror(errno));
    fwrite(text, 1, (size_t)n, stdout);
    return 0;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    struct store s;
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        fputs(USAGE, stdout);
        return 0;
    }
    if (strcmp(what, "put") == 0 && (count == 3 || count == 4))
        return put(words[2], count == 4 ? words[3] : NULL);
    if (strcmp(what, "load") == 0 && count >= 4)
        return load(words + 2);
    if (strcmp(what, "stat") == 0 && count == 2)
        return stat_module();
    if (strcmp(what, "format") == 0 && count == 2) {
        s = open_store(true);
        return done(store_format(&s));
    }
    if (strcmp(what, "list") == 0 && count == 2) {
        s = open_store(false);
        return done(store_list(&s, show));
    }
    if (strcmp(what, "remove") == 0 && count == 3) {
        s = open_store(true);
        return done(store_remove(&s, words[2]));
    }
    bool repair = count == 3 && strcmp(words[2], "--repair") == 0;
    if (strcmp(what, "fsck") == 0 && (count == 2 || repair)) {
        s = open_store(repair);
        return done(store_fsck(&s, repair, stdout));
    }
    fputs(USAGE, stderr);
    return 2;
}
