#include "files.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xxh64.h"

enum {
    MAX_SEGMENTS = 1024, // more than any linker makes
};
static const uint64_t MAX_ELF = 1u << 30;

static char error_text[256];

const char *files_error(void)
{
    return error_text;
}

static int fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(int error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(error_text, sizeof error_text, format, list);
    va_end(list);
    return error;
}

static uint64_t down(uint64_t at)
{
    return at / OFF2F_PAGE * OFF2F_PAGE;
}

static uint64_t up(uint64_t at)
{
    return down(at + OFF2F_PAGE - 1);
}

// --- The ELF file ---

struct elf {
    const struct content *file;
    Elf64_Ehdr h;
    Elf64_Phdr text;
};

static Elf64_Phdr segment(const struct elf *e, unsigned i)
{
    Elf64_Phdr p;
    memcpy(&p, e->file->bytes + e->h.e_phoff + i * sizeof p, sizeof p);
    return p;
}

static int read_elf(const struct content *file, struct elf *e)
{
    unsigned texts = 0;
    e->file = file;
    if (file->len < SELFMAG || memcmp(file->bytes, ELFMAG, SELFMAG) != 0)
        return fail(ENOEXEC, "it does not begin as ELF files do");
    if (file->len < sizeof e->h)
        return fail(ENOEXEC, "it ends within its header");
    if (file->len > MAX_ELF)
        return fail(ENOEXEC, "%zu bytes; the most are %llu", file->len, (unsigned long long)MAX_ELF);
    memcpy(&e->h, file->bytes, sizeof e->h);
    if (e->h.e_ident[EI_CLASS] != ELFCLASS64 || e->h.e_ident[EI_DATA] != ELFDATA2LSB ||
        e->h.e_ident[EI_VERSION] != EV_CURRENT)
        return fail(ENOEXEC, "it is not 64-bit, little-endian, of version 1");
    if (e->h.e_type != ET_EXEC && e->h.e_type != ET_DYN)
        return fail(ENOEXEC, "type %u is neither an executable nor a library", e->h.e_type);
    if (e->h.e_phentsize != sizeof(Elf64_Phdr))
        return fail(ENOEXEC, "its program headers do not have 56 bytes each");
    if (e->h.e_phnum == 0 || e->h.e_phnum > MAX_SEGMENTS)
        return fail(ENOEXEC, "%u program headers", e->h.e_phnum);
    if (e->h.e_phoff > file->len ||
        e->h.e_phnum * sizeof(Elf64_Phdr) > file->len - e->h.e_phoff)
        return fail(ENOEXEC, "its program headers lie behind its end");
    for (unsigned i = 0; i < e->h.e_phnum; i++) {
        Elf64_Phdr p = segment(e, i);
        if (p.p_type != PT_LOAD && p.p_type != PT_NOTE)
            continue;
        if (p.p_offset > file->len || p.p_filesz > file->len - p.p_offset)
            return fail(ENOEXEC, "segment %u ends behind the file", i);
        if (p.p_type == PT_LOAD && p.p_flags & PF_X) {
            e->text = p;
            texts++;
        }
    }
    if (texts != 1)
        return fail(ENOEXEC, "%u executable segments, not one", texts);
    const Elf64_Phdr *t = &e->text;
    if (t->p_flags & PF_W)
        return fail(ENOEXEC, "its executable segment is writable");
    if (t->p_filesz == 0 || t->p_memsz != t->p_filesz)
        return fail(ENOEXEC, "its executable segment has no content in the file, or not all of it");
    if (t->p_offset % OFF2F_PAGE != t->p_vaddr % OFF2F_PAGE)
        return fail(ENOEXEC, "its executable segment cannot be mapped in pages of 4096 bytes");
    if (t->p_vaddr + t->p_memsz < t->p_vaddr)
        return fail(ENOEXEC, "its executable segment ends behind the last address");
    return 0;
}

// Whether two ranges have a byte in common.
static bool meet(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
    return a < a_end && a < b_end && b < a_end;
}

// Whether something other than the text needs a range of the file. The kernel reads the headers through the
// file before anything is mapped.
static bool kept(const struct elf *e, uint64_t from, uint64_t to)
{
    uint64_t table_end = e->h.e_phoff + e->h.e_phnum * sizeof(Elf64_Phdr);
    if (meet(0, sizeof e->h, from, to) || meet(e->h.e_phoff, table_end, from, to))
        return true;
    for (unsigned i = 0; i < e->h.e_phnum; i++) {
        Elf64_Phdr p = segment(e, i);
        if (p.p_type == PT_LOAD && !(p.p_flags & PF_X) &&
            meet(p.p_offset, p.p_offset + p.p_filesz, from, to))
            return true;
    }
    return false;
}

// The first GNU build id in notes; false without one, or if the notes are broken before it.
static bool id_in(const char *notes, uint64_t len, struct off2f_id *id)
{
    while (len >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr n;
        memcpy(&n, notes, sizeof n);
        uint64_t desc = sizeof n + ((uint64_t)n.n_namesz + 3) / 4 * 4, end = desc + n.n_descsz;
        if (end > len)
            return false;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
            memcmp(notes + sizeof n, "GNU", 4) == 0) {
            if (n.n_descsz < 1 || n.n_descsz > OFF2F_ID)
                return false;
            id->from_linker = 1;
            id->len = n.n_descsz;
            memcpy(id->bytes, notes + desc, n.n_descsz);
            return true;
        }
        end = (end + 3) / 4 * 4;
        if (end > len)
            return false;
        notes += end;
        len -= end;
    }
    return false;
}

static struct off2f_id build_id(const struct elf *e)
{
    struct off2f_id id = {0};
    for (unsigned i = 0; i < e->h.e_phnum; i++) {
        Elf64_Phdr p = segment(e, i);
        if (p.p_type == PT_NOTE && id_in(e->file->bytes + p.p_offset, p.p_filesz, &id))
            return id;
    }
    id.len = 16;
    for (unsigned seed = 0; seed < 2; seed++) {
        uint64_t sum = xxh64_seeded(e->file->bytes, e->file->len, seed);
        memcpy(id.bytes + 8 * seed, &sum, 8);
    }
    return id;
}

// --- Splitting ---

// A file with room for `len` bytes behind a header's page.
static int make(struct content *c, uint64_t len)
{
    c->len = OFF2F_PAGE + len;
    c->bytes = calloc(1, c->len);
    return c->bytes ? 0 : fail(ENOMEM, "no memory for %zu bytes", c->len);
}

static void seal(struct content *c, const void *header, size_t len)
{
    memcpy(c->bytes, header, len);
    uint64_t sum = xxh64(c->bytes, OFF2F_SUM_AT);
    memcpy(c->bytes + OFF2F_SUM_AT, &sum, sizeof sum);
}

int files_split(const struct content *file, struct content *off2, struct content *text)
{
    struct elf e;
    *off2 = *text = (struct content){0};
    int error = read_elf(file, &e);
    if (error != 0)
        return error;
    uint64_t offset = down(e.text.p_offset), end = e.text.p_offset + e.text.p_filesz;
    // Pages that lie within the segment as a whole, and that nothing else needs.
    uint64_t cut = up(e.text.p_offset), cut_end = down(end);
    while (cut < cut_end && kept(&e, cut, cut + OFF2F_PAGE))
        cut += OFF2F_PAGE;
    while (cut_end > cut && kept(&e, cut_end - OFF2F_PAGE, cut_end))
        cut_end -= OFF2F_PAGE;
    if (cut_end <= cut)
        cut = cut_end = offset;
    else if (kept(&e, cut, cut_end))
        return fail(ENOEXEC, "another segment or the program headers lie in the midst of its text");

    struct off2f_off2 h = {
        .magic = OFF2F_OFF2_MAGIC,
        .version = OFF2F_VERSION,
        .id = build_id(&e),
        .elf_bytes = file->len,
        .elf_checksum = xxh64(file->bytes, file->len),
        .text_offset = offset,
        .text_pages = (up(end) - offset) / OFF2F_PAGE,
        .text_vaddr = down(e.text.p_vaddr),
        .cut_offset = cut,
        .cut_pages = (cut_end - cut) / OFF2F_PAGE,
        .elf_type = e.h.e_type,
        .elf_machine = e.h.e_machine,
    };
    uint64_t pages = h.text_pages * OFF2F_PAGE, left = file->len - offset;
    if ((error = make(text, pages)) != 0 || (error = make(off2, file->len - (cut_end - cut))) != 0)
        return error;
    memcpy(text->bytes + OFF2F_PAGE, file->bytes + offset, left < pages ? left : pages);
    memcpy(off2->bytes + OFF2F_PAGE, file->bytes, cut);
    memcpy(off2->bytes + OFF2F_PAGE + cut, file->bytes + cut_end, file->len - cut_end);
    h.text_checksum = xxh64(text->bytes + OFF2F_PAGE, pages);
    h.data_checksum = xxh64(off2->bytes + OFF2F_PAGE, off2->len - OFF2F_PAGE);
    seal(off2, &h, sizeof h);
    struct off2f_text t = {
        .magic = OFF2F_TEXT_MAGIC,
        .version = OFF2F_VERSION,
        .id = h.id,
        .pages = h.text_pages,
        .vaddr = h.text_vaddr,
        .checksum = h.text_checksum,
    };
    seal(text, &t, sizeof t);
    return 0;
}

// --- Checking and joining ---

static bool is_zero(const char *bytes, size_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len == 0;
}

// What both headers begin with; `fields` is where the known ones end.
static int check_header(const struct content *c, const char *what, const char *magic, size_t fields)
{
    struct off2f_text h; // as in both up to the build id
    uint64_t sum;
    if (c->len < sizeof h.magic || memcmp(c->bytes, magic, sizeof h.magic) != 0)
        return fail(EBADMSG, "%s: it has not the format's first bytes", what);
    if (c->len < OFF2F_PAGE)
        return fail(EBADMSG, "%s: it ends within its header", what);
    memcpy(&h, c->bytes, sizeof h);
    if (h.version != OFF2F_VERSION)
        return fail(EBADMSG, "%s: version %u of the format is not known, only %d", what, h.version,
                    OFF2F_VERSION);
    memcpy(&sum, c->bytes + OFF2F_SUM_AT, sizeof sum);
    if (sum != xxh64(c->bytes, OFF2F_SUM_AT))
        return fail(EBADMSG, "%s: the checksum of its header is wrong", what);
    if (h.id.from_linker > 1 || h.id.len < 1 || h.id.len > OFF2F_ID || h.id.zero != 0 ||
        !is_zero((const char *)h.id.bytes + h.id.len, OFF2F_ID - h.id.len))
        return fail(EBADMSG, "%s: its build id cannot be one", what);
    if (!is_zero(c->bytes + fields, OFF2F_SUM_AT - fields))
        return fail(EBADMSG, "%s: its header has fields that are not known", what);
    return 0;
}

int files_check_off2(const struct content *c)
{
    static const char WHAT[] = "PROG.off2";
    struct off2f_off2 h;
    int error = check_header(c, WHAT, OFF2F_OFF2_MAGIC, sizeof h);
    if (error != 0)
        return error;
    memcpy(&h, c->bytes, sizeof h);
    // The first comparison makes sure that no sum of the others overflows.
    bool sound = h.elf_bytes <= MAX_ELF && h.text_offset <= MAX_ELF && h.text_pages <= MAX_ELF &&
                 h.cut_offset <= MAX_ELF && h.cut_pages <= MAX_ELF &&
                 h.text_offset % OFF2F_PAGE == 0 && h.text_vaddr % OFF2F_PAGE == 0 &&
                 h.cut_offset % OFF2F_PAGE == 0 && h.zero == 0 && h.text_pages > 0 &&
                 h.text_offset < h.elf_bytes &&
                 h.text_offset + h.text_pages * OFF2F_PAGE < h.elf_bytes + OFF2F_PAGE &&
                 h.cut_offset >= h.text_offset &&
                 h.cut_offset + h.cut_pages * OFF2F_PAGE <=
                     h.text_offset + h.text_pages * OFF2F_PAGE &&
                 h.cut_offset + h.cut_pages * OFF2F_PAGE <= h.elf_bytes;
    if (!sound)
        return fail(EBADMSG, "%s: the fields of its header contradict each other", WHAT);
    uint64_t expected = h.elf_bytes - h.cut_pages * OFF2F_PAGE;
    if (c->len - OFF2F_PAGE != expected)
        return fail(EBADMSG, "%s: %zu bytes of data, not %llu", WHAT, c->len - OFF2F_PAGE,
                    (unsigned long long)expected);
    if (xxh64(c->bytes + OFF2F_PAGE, expected) != h.data_checksum)
        return fail(EBADMSG, "%s: the checksum of its data is wrong", WHAT);
    return 0;
}

int files_check_text(const struct content *c)
{
    static const char WHAT[] = "PROG.text";
    struct off2f_text h;
    int error = check_header(c, WHAT, OFF2F_TEXT_MAGIC, sizeof h);
    if (error != 0)
        return error;
    memcpy(&h, c->bytes, sizeof h);
    if (h.pages == 0 || h.pages > MAX_ELF / OFF2F_PAGE + 1 || h.vaddr % OFF2F_PAGE != 0)
        return fail(EBADMSG, "%s: the fields of its header contradict each other", WHAT);
    if (c->len - OFF2F_PAGE != h.pages * OFF2F_PAGE)
        return fail(EBADMSG, "%s: %zu bytes of text, not %llu pages", WHAT, c->len - OFF2F_PAGE,
                    (unsigned long long)h.pages);
    if (xxh64(c->bytes + OFF2F_PAGE, h.pages * OFF2F_PAGE) != h.checksum)
        return fail(EBADMSG, "%s: the checksum of its text is wrong", WHAT);
    return 0;
}

int files_join(const struct content *off2, const struct content *text, struct content *elf)
{
    struct off2f_off2 h;
    struct off2f_text t;
    *elf = (struct content){0};
    int error = files_check_off2(off2);
    if (error == 0)
        error = files_check_text(text);
    if (error != 0)
        return error;
    memcpy(&h, off2->bytes, sizeof h);
    memcpy(&t, text->bytes, sizeof t);
    const char *differs = memcmp(&h.id, &t.id, sizeof h.id) != 0 ? "build ids"
                          : h.text_pages != t.pages              ? "pages of text"
                          : h.text_checksum != t.checksum        ? "checksums of the text"
                          : h.text_vaddr != t.vaddr              ? "addresses of the text"
                                                                 : NULL;
    if (differs)
        return fail(EINVAL,
                    "the two files do not belong together: their %s differ; split the program again",
                    differs);
    uint64_t cut = h.cut_pages * OFF2F_PAGE, from = h.cut_offset - h.text_offset;
    const char *data = off2->bytes + OFF2F_PAGE;
    elf->len = h.elf_bytes;
    elf->bytes = malloc(elf->len);
    if (!elf->bytes)
        return fail(ENOMEM, "no memory for %zu bytes", elf->len);
    memcpy(elf->bytes, data, h.cut_offset);
    memcpy(elf->bytes + h.cut_offset, text->bytes + OFF2F_PAGE + from, cut);
    memcpy(elf->bytes + h.cut_offset + cut, data + h.cut_offset, h.elf_bytes - h.cut_offset - cut);
    if (xxh64(elf->bytes, elf->len) != h.elf_checksum)
        return fail(EINVAL, "the two files do not belong together: the checksum of the ELF file that "
                            "they make is not the recorded one; split the program again");
    return 0;
}
