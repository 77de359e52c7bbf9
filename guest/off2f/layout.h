// Layouts that the host's tool, the guest's tool and the kernel module share: the headers of PROG.off2
// and PROG.text, and the text store on NVMM. All numbers are little-endian; checksums are XXH64 with
// seed 0. docs/off2f.md describes them.
#ifndef OFF2F_LAYOUT_H
#define OFF2F_LAYOUT_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

enum {
    OFF2F_PAGE = 4096,
    OFF2F_VERSION = 1,
    OFF2F_SUM_AT = OFF2F_PAGE - 8, // place of the checksum of a file's header
    OFF2F_ID = 32,                 // most bytes of a build id
    OFF2F_NAME = 128,              // bytes of a name with its end
    OFF2F_SLOTS = 240,             // records of the store's directory
    OFF2F_DIRECTORY = 4096,        // where they begin
    OFF2F_DATA = 65536,            // where texts begin
    OFF2F_HUGE = 2 << 20,          // bytes of a huge page
};

#define OFF2F_OFF2_MAGIC "\x89OFF2\r\n\x1a"
#define OFF2F_TEXT_MAGIC "\x89TEXT\r\n\x1a"
#define OFF2F_STORE_MAGIC "\x89STOR\r\n\x1a"
// The node of the device tree that says where the store is.
#define OFF2F_COMPATIBLE "nagori,text-store"

// What identifies a build: the linker's build id, or a hash of the content.
struct off2f_id {
    uint32_t from_linker;
    uint32_t len; // 1 to 32
    uint32_t zero;
    uint8_t bytes[OFF2F_ID];
} __attribute__((packed, aligned(4)));

// The first page of PROG.off2.
struct off2f_off2 {
    char magic[8];
    uint32_t version;
    struct off2f_id id;
    uint64_t elf_bytes;
    uint64_t elf_checksum;
    uint64_t text_offset;
    uint64_t text_pages;
    uint64_t text_vaddr;
    uint64_t text_checksum;
    uint64_t data_checksum;
    uint64_t cut_offset;
    uint64_t cut_pages;
    uint16_t elf_type;
    uint16_t elf_machine;
    uint32_t zero;
} __attribute__((packed, aligned(8)));

// The first page of PROG.text.
struct off2f_text {
    char magic[8];
    uint32_t version;
    struct off2f_id id;
    uint64_t pages;
    uint64_t vaddr;
    uint64_t checksum;
} __attribute__((packed, aligned(8)));

// The store's first line.
struct off2f_store {
    char magic[8];
    uint32_t version;
    uint32_t slots;
    uint64_t bytes;
    uint64_t zero[4];
    uint64_t checksum; // of what is before it
};

// A record of the directory: four lines. It counts if `commit` is right, and is free if that is 0.
struct off2f_record {
    uint64_t commit;   // checksum of what follows, 1 instead of 0
    uint64_t sequence; // of two records with one name, the higher one counts
    uint64_t offset;   // of the text from the start of the store, in whole pages
    uint64_t pages;
    uint64_t vaddr;
    uint64_t checksum; // of the text
    struct off2f_id id;
    char name[OFF2F_NAME];
    uint8_t zero[36];
} __attribute__((packed, aligned(8)));

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

// Requests to /dev/off2f.
struct off2f_place {
    uint64_t base; // physical address
    uint64_t bytes;
};
#define OFF2F_GET_PLACE _IOR('2', 1, struct off2f_place)
// The caller changes the store until it closes the device; EBUSY if another one does.
#define OFF2F_LOCK _IO('2', 2)
// Whether a range of the store (base: from its start) is mapped as text: 1 or 0.
#define OFF2F_IN_USE _IOW('2', 3, struct off2f_place)
// A descriptor of the ELF file that the PROG.off2 with this descriptor and its text in the store make.
#define OFF2F_OPEN _IOW('2', 4, int)
// Writes a range of the store (base: from its start) back through all caches of the machine. EOPNOTSUPP without Zicbom
// in the device tree.
#define OFF2F_FLUSH _IOW('2', 5, struct off2f_place)

_Static_assert(sizeof(struct off2f_off2) == 136, "as crates/off2f has it");
_Static_assert(sizeof(struct off2f_text) == 80, "as crates/off2f has it");
_Static_assert(sizeof(struct off2f_store) == 64, "a line");
_Static_assert(sizeof(struct off2f_record) == 256, "four lines");

#endif
