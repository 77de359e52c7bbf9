// off2f: the files of OFF2F and the text store, in the guest. See docs/off2f.md.

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

#include "files.h"
#include "store.h"

static const char USAGE[] =
    "usage: off2f split PROG [DIR]          make PROG.off2 and PROG.text, in DIR or beside PROG\n"
    "       off2f join PROG.off2 ELF        make the ELF file again, with the PROG.text beside PROG.off2\n"
    "       off2f show FILE                 what a PROG.off2 or PROG.text has, after checking it\n"
    "       off2f format                  make an empty text store\n"
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

// --- Files ---

static struct content read_file(const char *path)
{
    struct content c = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        die("%s: %s", path, strerror(errno));
    // One byte more, so that an empty file is one, too.
    c.len = (size_t)st.st_size;
    c.bytes = malloc(c.len + 1);
    if (!c.bytes)
        die("%s: no memory for %zu bytes", path, c.len);
    for (size_t at = 0; at < c.len;) {
        ssize_t n = read(fd, c.bytes + at, c.len - at);
        if (n <= 0)
            die("%s: cannot be read: %s", path, n < 0 ? strerror(errno) : "it has become shorter");
        at += (size_t)n;
    }
    close(fd);
    return c;
}

// Writes a file that must not exist, with the mode of another one; removes `also` and it if that fails.
static void write_new(const char *path, const struct content *c, const char *like, const char *also)
{
    struct stat st;
    int fd = stat(like, &st) == 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    int error = errno;
    bool written = fd >= 0;
    for (size_t at = 0; written && at < c->len;) {
        ssize_t n = write(fd, c->bytes + at, c->len - at);
        written = n > 0;
        error = errno;
        at += written ? (size_t)n : 0;
    }
    if (written && (fchmod(fd, st.st_mode & 07777) != 0 || close(fd) != 0)) {
        error = errno;
        written = false;
    }
    if (written)
        return;
    if (fd >= 0)
        unlink(path);
    if (also)
        unlink(also);
    die("%s: cannot be written: %s", path, strerror(error));
}

// A path with another ending in the place of one, or behind it.
static char *with_ending(const char *path, const char *old, const char *ending)
{
    size_t len = strlen(path), without = strlen(old);
    char *result = malloc(len + strlen(ending) + 1);
    if (!result)
        die("no memory");
    if (len > without && strcmp(path + len - without, old) == 0)
        len -= without;
    sprintf(result, "%.*s%s", (int)len, path, ending);
    return result;
}

static int split(const char *path, const char *dir)
{
    struct content elf = read_file(path), off2, text;
    if (files_split(&elf, &off2, &text) != 0)
        die("%s: %s", path, files_error());
    char *to = with_ending(path, "", "");
    if (dir) {
        const char *base = strrchr(path, '/');
        base = base ? base + 1 : path;
        to = malloc(strlen(dir) + strlen(base) + 2);
        if (!to)
            die("no memory");
        sprintf(to, "%s/%s", dir, base);
    }
    char *first = with_ending(to, "", ".off2");
    write_new(first, &off2, path, NULL);
    write_new(with_ending(to, "", ".text"), &text, path, first);
    return 0;
}

static int join(const char *path, const char *to)
{
    char *beside = with_ending(path, ".off2", ".text");
    struct content off2 = read_file(path), text = read_file(beside), elf;
    if (files_join(&off2, &text, &elf) != 0)
        die("%s and %s: %s", path, beside, files_error());
    write_new(to, &elf, path, NULL);
    return 0;
}

static void row(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void row(const char *name, const char *format, ...)
{
    va_list list;
    printf("%-20s ", name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
}

// As `nagori off2f show` prints it.
static int show_file(const char *path)
{
    struct content c = read_file(path);
    bool is_text = c.len >= 8 && memcmp(c.bytes, OFF2F_TEXT_MAGIC, 8) == 0;
    struct off2f_off2 h = {0};
    struct off2f_text t;
    if (!is_text && (c.len < 8 || memcmp(c.bytes, OFF2F_OFF2_MAGIC, 8) != 0))
        die("%s: it is neither PROG.off2 nor PROG.text: it has the first bytes of neither", path);
    if ((is_text ? files_check_text(&c) : files_check_off2(&c)) != 0)
        die("%s: %s", path, files_error());
    memcpy(&t, c.bytes, sizeof t);
    if (!is_text) {
        memcpy(&h, c.bytes, sizeof h);
        t.pages = h.text_pages;
        t.vaddr = h.text_vaddr;
        t.checksum = h.text_checksum;
    }
    char id[2 * OFF2F_ID + 1];
    for (unsigned i = 0; i < t.id.len; i++)
        sprintf(id + 2 * i, "%02x", t.id.bytes[i]);
    row("build id", "%s", id);
    row("build id from", "%s", t.id.from_linker ? "linker" : "content");
    if (!is_text) {
        row("elf bytes", "%llu", (unsigned long long)h.elf_bytes);
        row("elf checksum", "%016llx", (unsigned long long)h.elf_checksum);
    }
    row("file", "%s", is_text ? "text" : "off2");
    if (!is_text) {
        row("kind", "%s",
            h.elf_type == 2 ? "executable" : "position-independent executable or library");
        row("machine", "%u", h.elf_machine);
        row("pages in text only", "%llu", (unsigned long long)h.cut_pages);
    }
    row("text address", "0x%llx", (unsigned long long)t.vaddr);
    row("text bytes", "%llu", (unsigned long long)t.pages * OFF2F_PAGE);
    row("text checksum", "%016llx", (unsigned long long)t.checksum);
    if (!is_text)
        row("text offset", "%llu", (unsigned long long)h.text_offset);
    row("text pages", "%llu", (unsigned long long)t.pages);
    return 0;
}

// --- The store ---

static bool in_use(void *context, uint64_t offset, uint64_t bytes)
{
    struct off2f_place range = {offset, bytes};
    return ioctl(*(int *)context, OFF2F_IN_USE, &range) != 0;
}

static bool flush(void *context, uint64_t offset, uint64_t bytes)
{
    struct off2f_place range = {offset, bytes};
    return ioctl(*(int *)context, OFF2F_FLUSH, &range) == 0;
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
        s.flush = flush;
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
    if (strcmp(what, "split") == 0 && (count == 3 || count == 4))
        return split(words[2], count == 4 ? words[3] : NULL);
    if (strcmp(what, "join") == 0 && count == 4)
        return join(words[2], words[3]);
    if (strcmp(what, "show") == 0 && count == 3)
        return show_file(words[2]);
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
