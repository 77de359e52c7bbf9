// The two files of OFF2F and the ELF file that they make; what crates/off2f does on the host, for the
// guest. Both give equal bytes for equal input, and refuse the same input.
//
// The functions return 0, or an errno value; `files_error()` says more.
#ifndef OFF2F_FILES_H
#define OFF2F_FILES_H

#include <stddef.h>

#include "layout.h"

// A file's content, from malloc.
struct content {
    char *bytes;
    size_t len;
};

// Why the last function failed.
const char *files_error(void);

// Makes PROG.off2 and PROG.text of an executable or a library. Returns ENOEXEC if it cannot be split.
int files_split(const struct content *elf, struct content *off2, struct content *text);
// Checks PROG.off2: its header, its length and the checksum of its data. EBADMSG if something is wrong.
int files_check_off2(const struct content *off2);
// Checks PROG.text like PROG.off2.
int files_check_text(const struct content *text);
// Gives the ELF file back. Returns EBADMSG if a file is damaged, EINVAL if they do not belong together.
int files_join(const struct content *off2, const struct content *text, struct content *elf);

#endif
