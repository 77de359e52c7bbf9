// SPDX-License-Identifier: GPL-2.0
// OFF2F for Linux: programs whose text executes in place on NVMM that the kernel does not manage.
//
// A PROG.off2 is executed through a file of the module's own, which reads as the ELF file that PROG.off2
// and its text in the store make. The kernel's own ELF loader loads that file, with everything that it does
// for any other. Only mapping it differs: pages of text are those of the store, in place; everything else is
// mapped from PROG.off2. docs/off2f.md describes it.

#include <linux/binfmts.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/huge_mm.h>
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/memremap.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/pfn_t.h>
#include <linux/pseudo_fs.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/xxhash.h>

#include <asm/cacheflush.h>
#include <asm/cpufeature.h>

#include "module.h"

static unsigned long base, bytes;
static uint around = 16;
static bool huge = true, verify;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "physical address of the text store, if the device tree does not say it");
module_param(bytes, ulong, 0444);
MODULE_PARM_DESC(bytes, "its size");
module_param(around, uint, 0644);
MODULE_PARM_DESC(around, "pages that one page fault maps, 1 to 512 (16, as for other files)");
module_param(huge, bool, 0644);
MODULE_PARM_DESC(huge, "map text in huge pages where its place allows it");
module_param(verify, bool, 0644);
MODULE_PARM_DESC(verify, "compare the checksum of a text whenever a program starts");

static char *store;              // the mapped store
// RISC-V's set_pte looks at the descriptor of every executable page, so the store's pages have some, in DRAM. The
// kernel allocates none of these pages.
static struct dev_pagemap descriptors = {.type = MEMORY_DEVICE_GENERIC, .nr_range = 1};
static struct vfsmount *mount;   // of the module's files
static DEFINE_MUTEX(lock);       // of the list, and of the writer
static LIST_HEAD(images);        // every off2f_image
static struct file *writer;      // the open device that changes the store
static atomic64_t execs, opens, refused, faults, small_pages, huge_pages, copied_pages;

// What stands behind one file that reads as an ELF file.
struct off2f_image {
    struct list_head list;
    struct file *off2;
    struct off2f_off2 h;
    u64 offset; // of the text in the store
};

u64 off2f_image_bytes(const struct off2f_image *m)
{
    return m->h.elf_bytes;
}

static u64 text_end(const struct off2f_image *m)
{
    return m->h.text_offset + m->h.text_pages * PAGE_SIZE;
}

// The physical page number of a page of the ELF file that is text.
static unsigned long text_pfn(const struct off2f_image *m, pgoff_t page)
{
    return PHYS_PFN(base + m->offset) + page - PHYS_PFN(m->h.text_offset);
}

static bool is_text(const struct off2f_image *m, pgoff_t page)
{
    return page >= PHYS_PFN(m->h.text_offset) && page < PHYS_PFN(text_end(m));
}

// Where bytes of the ELF file are: in the store, or in PROG.off2. At most `*left` of them, in one piece.
static const char *place(const struct off2f_image *m, u64 at, size_t *left, loff_t *in_off2)
{
    u64 cut_end = m->h.cut_offset + m->h.cut_pages * PAGE_SIZE;

    if (at >= m->h.cut_offset && at < cut_end) {
        *left = min_t(u64, *left, cut_end - at);
        return store + m->offset + (at - m->h.text_offset);
    }
    if (at < m->h.cut_offset)
        *left = min_t(u64, *left, m->h.cut_offset - at);
    *in_off2 = PAGE_SIZE + at - (at < cut_end ? 0 : cut_end - m->h.cut_offset);
    return NULL;
}

// Copies a piece of the ELF file; returns its length, or an error.
static ssize_t copy_piece(const struct off2f_image *m, void *to, size_t len, u64 at)
{
    loff_t in_off2;
    const char *text = place(m, at, &len, &in_off2);

    if (!text)
        return kernel_read(m->off2, to, len, &in_off2);
    memcpy(to, text, len);
    return len;
}

static ssize_t image_read(struct kiocb *kiocb, struct iov_iter *to)
{
    struct off2f_image *m = file_inode(kiocb->ki_filp)->i_private;
    // The kernel clears what it allocates, and a start reads little.
    size_t most = min_t(size_t, iov_iter_count(to), PAGE_SIZE);
    char *piece = kmalloc(most, GFP_KERNEL);
    ssize_t done = 0, n = 0;

    if (!piece)
        return -ENOMEM;
    while (iov_iter_count(to) > 0 && kiocb->ki_pos < m->h.elf_bytes) {
        size_t len = min_t(u64, iov_iter_count(to), m->h.elf_bytes - kiocb->ki_pos);
        n = copy_piece(m, piece, min(len, most), kiocb->ki_pos);
        if (n <= 0)
            break;
        n = copy_to_iter(piece, n, to);
        if (n == 0) {
            n = -EFAULT;
            break;
        }
        kiocb->ki_pos += n;
        done += n;
    }
    kfree(piece);
    return done > 0 ? done : n;
}

// A page of the ELF file that is not text, in a mapping that spans text and other parts, as the dynamic
// linker makes it before it maps the other parts over it. It becomes a page of the process's own.
static vm_fault_t copied(const struct off2f_image *m, struct vm_fault *vmf)
{
    u64 at = (u64)vmf->pgoff * PAGE_SIZE;
    struct page *page;
    size_t done = 0;

    if (at >= m->h.elf_bytes)
        return VM_FAULT_SIGBUS;
    page = alloc_page(GFP_HIGHUSER | __GFP_ZERO);
    if (!page)
        return VM_FAULT_OOM;
    while (done < PAGE_SIZE && at + done < m->h.elf_bytes) {
        size_t len = min_t(u64, PAGE_SIZE - done, m->h.elf_bytes - at - done);
        ssize_t n = copy_piece(m, page_address(page) + done, len, at + done);
        if (n <= 0) {
            __free_page(page);
            return VM_FAULT_SIGBUS;
        }
        done += n;
    }
    atomic64_inc(&copied_pages);
    vmf->page = page;
    return 0;
}

static vm_fault_t text_fault(struct vm_fault *vmf)
{
    struct vm_area_struct *vma = vmf->vma;
    struct off2f_image *m = file_inode(vma->vm_file)->i_private;
    unsigned long window = clamp(rounddown_pow_of_two(around | 1), 1, 512);
    pgoff_t first, last, page;
    vm_fault_t result;

    if (!is_text(m, vmf->pgoff))
        return copied(m, vmf);
    atomic64_inc(&faults);
    result = vmf_insert_mixed(vma, vmf->address, __pfn_to_pfn_t(text_pfn(m, vmf->pgoff), PFN_DEV));
    if (result != VM_FAULT_NOPAGE)
        return result;
    atomic64_inc(&small_pages);
    // The neighbours, too, as the kernel does for files in its cache.
    first = max3(round_down(vmf->pgoff, window), (pgoff_t)PHYS_PFN(m->h.text_offset), vma->vm_pgoff);
    last = min3(round_down(vmf->pgoff, window) + window, (pgoff_t)PHYS_PFN(text_end(m)),
                vma->vm_pgoff + vma_pages(vma));
    for (page = first; page < last; page++) {
        unsigned long at = vma->vm_start + ((page - vma->vm_pgoff) << PAGE_SHIFT);
        if (page == vmf->pgoff)
            continue;
        if (vmf_insert_mixed(vma, at, __pfn_to_pfn_t(text_pfn(m, page), PFN_DEV)) !=
            VM_FAULT_NOPAGE)
            break;
        atomic64_inc(&small_pages);
    }
    return result;
}

static vm_fault_t text_huge_fault(struct vm_fault *vmf, unsigned int order)
{
    struct vm_area_struct *vma = vmf->vma;
    struct off2f_image *m = file_inode(vma->vm_file)->i_private;
    unsigned long at = vmf->address & PMD_MASK, pfn;
    pgoff_t page;
    vm_fault_t result;

    if (order != PMD_ORDER || !READ_ONCE(huge) || vmf->flags & FAULT_FLAG_WRITE)
        return VM_FAULT_FALLBACK;
    if (at < vma->vm_start || at + PMD_SIZE > vma->vm_end)
        return VM_FAULT_FALLBACK;
    page = vma->vm_pgoff + ((at - vma->vm_start) >> PAGE_SHIFT);
    if (!is_text(m, page) || !is_text(m, page + PMD_SIZE / PAGE_SIZE - 1))
        return VM_FAULT_FALLBACK;
    pfn = text_pfn(m, page);
    if (!IS_ALIGNED(pfn, PMD_SIZE / PAGE_SIZE))
        return VM_FAULT_FALLBACK;
    // Marked as a device's, unlike small pages, since there is no mark for special huge pages.
    result = vmf_insert_pfn_pmd(vmf, __pfn_to_pfn_t(pfn, PFN_DEV | PFN_MAP), false);
    if (result == VM_FAULT_NOPAGE) {
        atomic64_inc(&faults);
        atomic64_inc(&huge_pages);
    }
    return result;
}

static const struct vm_operations_struct text_operations = {
    .fault = text_fault,
    .huge_fault = text_huge_fault,
};

static int image_mmap(struct file *file, struct vm_area_struct *vma)
{
    struct off2f_image *m = file_inode(file)->i_private;
    pgoff_t first = vma->vm_pgoff, last = first + vma_pages(vma);
    pgoff_t cut = PHYS_PFN(m->h.cut_offset), cut_end = cut + m->h.cut_pages;

    if (vma->vm_flags & VM_SHARED && vma->vm_flags & VM_MAYWRITE)
        return -EACCES;
    // Everything but text is an ordinary mapping of PROG.off2.
    if (!(vma->vm_flags & VM_EXEC) && (last <= cut || first >= cut_end)) {
        vma_set_file(vma, m->off2);
        vma->vm_pgoff = first + 1 - (first >= cut_end ? m->h.cut_pages : 0);
        return call_mmap(m->off2, vma);
    }
    vm_flags_set(vma, VM_MIXEDMAP);
    vma->vm_ops = &text_operations;
    return 0;
}

const struct file_operations off2f_image_operations = {
    .owner = THIS_MODULE,
    .llseek = generic_file_llseek,
    .read_iter = image_read,
    .mmap = image_mmap,
    .get_unmapped_area = thp_get_unmapped_area,
};

void off2f_image_put(struct off2f_image *m)
{
    mutex_lock(&lock);
    list_del(&m->list);
    mutex_unlock(&lock);
    allow_write_access(m->off2);
    fput(m->off2);
    kfree(m);
}

void off2f_evict(struct inode *inode)
{
    struct off2f_image *m = inode->i_private;

    truncate_inode_pages_final(&inode->i_data);
    clear_inode(inode);
    if (m)
        off2f_image_put(m);
}

static const struct super_operations super = {
    .statfs = simple_statfs,
    .evict_inode = off2f_evict,
};

// Shown in /proc/PID/maps and as /proc/PID/exe.
static char *image_name(struct dentry *dentry, char *buffer, int len)
{
    char text[NAME_MAX + 8];
    int n = scnprintf(text, sizeof text, "/off2f:%s", dentry->d_name.name) + 1;

    // The end of the buffer, as the kernel's own functions fill it.
    return n > len ? ERR_PTR(-ENAMETOOLONG) : memcpy(buffer + len - n, text, n);
}

static const struct dentry_operations names = {
    .d_dname = image_name,
};

static int file_system_init(struct fs_context *fc)
{
    struct pseudo_fs_context *c = init_pseudo(fc, 0x4f464632);

    if (!c)
        return -ENOMEM;
    c->ops = &super;
    c->dops = &names;
    return 0;
}

static struct file_system_type file_system = {
    // Its mount, which lasts as long as the module, must not keep it from being unloaded. Files have references to the
    // module of their own.
    .owner = NULL,
    .name = "off2f-image",
    .init_fs_context = file_system_init,
    .kill_sb = kill_anon_super,
};

// Whether the header of a PROG.off2 is sound.
static bool is_sound(const char *page, loff_t size)
{
    const struct off2f_off2 *h = (const void *)page;
    u64 cut, text, most = 1ul << 30;
    u64 sum;

    memcpy(&sum, page + OFF2F_SUM_AT, sizeof sum);
    if (h->version != OFF2F_VERSION || sum != xxh64(page, OFF2F_SUM_AT, 0))
        return false;
    if (h->elf_bytes > most || h->text_offset > most || h->text_pages > most ||
        h->cut_offset > most || h->cut_pages > most)
        return false;
    cut = h->cut_pages * PAGE_SIZE;
    text = h->text_offset + h->text_pages * PAGE_SIZE;
    return h->text_pages > 0 && h->id.len >= 1 && h->id.len <= OFF2F_ID &&
           PAGE_ALIGNED(h->text_offset) && PAGE_ALIGNED(h->cut_offset) &&
           PAGE_ALIGNED(h->text_vaddr) && h->cut_offset >= h->text_offset &&
           h->cut_offset + cut <= text && h->cut_offset + cut <= h->elf_bytes &&
           text < h->elf_bytes + PAGE_SIZE && size == PAGE_SIZE + h->elf_bytes - cut;
}

static bool store_is_sound(void)
{
    const struct off2f_store *h = (const void *)store;

    return memcmp(h->magic, OFF2F_STORE_MAGIC, 8) == 0 && h->version == OFF2F_VERSION &&
           h->slots == OFF2F_SLOTS && h->bytes == bytes &&
           h->checksum == xxh64(h, offsetof(struct off2f_store, checksum), 0);
}

// Looks a text up. Returns 0 and its place, or an error.
static int look_up(const struct off2f_off2 *h, u64 *offset)
{
    bool other = false;
    unsigned int i;

    if (!store_is_sound())
        return -ENXIO;
    for (i = 0; i < OFF2F_SLOTS; i++) {
        struct off2f_record r;
        u64 sum;

        memcpy(&r, store + OFF2F_DIRECTORY + i * sizeof r, sizeof r);
        if (r.commit == 0)
            continue;
        sum = xxh64((char *)&r + 8, sizeof r - 8, 0);
        if (r.commit != (sum ? sum : 1) || memcmp(&r.id, &h->id, sizeof r.id) != 0)
            continue;
        if (r.pages != h->text_pages || r.checksum != h->text_checksum ||
            r.vaddr != h->text_vaddr || !PAGE_ALIGNED(r.offset) || r.offset < OFF2F_DATA ||
            r.offset > bytes || r.pages > (bytes - r.offset) / PAGE_SIZE) {
            other = true;
            continue;
        }
        *offset = r.offset;
        return 0;
    }
    return other ? -EBADMSG : -ENODATA;
}

static const char *reason(int error)
{
    switch (error) {
    case -ENXIO: return "there is no text store (off2f format makes one)";
    case -ENODATA: return "its text is not in the store (off2f put)";
    case -EBADMSG: return "the text in the store with its build id is another one";
    case -EUCLEAN: return "the checksum of its text is wrong (off2f fsck)";
    case -EBUSY: return "the store is being changed";
    default: return "it cannot be opened";
    }
}

struct off2f_image *off2f_image_get(struct file *off2)
{
    char *page = (char *)__get_free_page(GFP_KERNEL);
    struct off2f_image *m = kzalloc(sizeof *m, GFP_KERNEL);
    loff_t at = 0;
    int error = -ENOMEM;

    if (!page || !m)
        goto out;
    error = -EBADMSG;
    if (kernel_read(off2, page, PAGE_SIZE, &at) != PAGE_SIZE ||
        memcmp(page, OFF2F_OFF2_MAGIC, 8) != 0 || !is_sound(page, i_size_read(file_inode(off2)))) {
        atomic64_inc(&refused);
        pr_err("off2f: %pD: it is no PROG.off2, or damaged\n", off2);
        goto out;
    }
    memcpy(&m->h, page, sizeof m->h);
    error = deny_write_access(off2);
    if (error)
        goto out;
    // From the look-up on, the text is in use: a writer sees it in the list, or is refused.
    mutex_lock(&lock);
    error = writer ? -EBUSY : look_up(&m->h, &m->offset);
    if (!error && READ_ONCE(verify) &&
        xxh64(store + m->offset, m->h.text_pages * PAGE_SIZE, 0) != m->h.text_checksum)
        error = -EUCLEAN;
    if (!error)
        list_add(&m->list, &images);
    mutex_unlock(&lock);
    if (error) {
        atomic64_inc(&refused);
        pr_err("off2f: %pD, build id %*phN: %s\n", off2, (int)m->h.id.len, m->h.id.bytes,
               reason(error));
        allow_write_access(off2);
        goto out;
    }
    m->off2 = get_file(off2);
out:
    free_page((unsigned long)page);
    if (!error)
        return m;
    kfree(m);
    return ERR_PTR(error);
}

// Makes a file that reads as the ELF file of a PROG.off2.
static struct file *image_open(struct file *off2)
{
    struct off2f_image *m = off2f_image_get(off2);
    struct inode *inode;
    struct file *file;

    if (IS_ERR(m))
        return ERR_CAST(m);
    inode = alloc_anon_inode(mount->mnt_sb);
    if (IS_ERR(inode)) {
        off2f_image_put(m);
        return ERR_CAST(inode);
    }
    inode->i_private = m;
    inode->i_mode = S_IFREG | 0555;
    inode->i_size = m->h.elf_bytes;
    inode->i_fop = &off2f_image_operations;
    __module_get(THIS_MODULE);
    file = alloc_file_pseudo(inode, mount, off2->f_path.dentry->d_name.name,
                             O_RDONLY | O_LARGEFILE, &off2f_image_operations);
    if (IS_ERR(file)) {
        module_put(THIS_MODULE);
        // This releases `m`, too.
        iput(inode);
    }
    return file;
}

static int load(struct linux_binprm *bprm)
{
    struct file *file;

    if (memcmp(bprm->buf, OFF2F_OFF2_MAGIC, 8) != 0)
        return -ENOEXEC;
    file = image_open(bprm->file);
    if (IS_ERR(file))
        return PTR_ERR(file);
    atomic64_inc(&execs);
    // The kernel goes on with this file, for which it finds its ELF loader.
    bprm->interpreter = file;
    return 0;
}

static struct linux_binfmt format = {
    .module = THIS_MODULE,
    .load_binary = load,
};

static ssize_t device_read(struct file *file, char __user *to, size_t len, loff_t *at)
{
    char text[256];
    int n = scnprintf(text, sizeof text,
                      "execs=%lld\nopens=%lld\nrefused=%lld\nfaults=%lld\nsmall_pages=%lld\n"
                      "huge_pages=%lld\ncopied_pages=%lld\n",
                      atomic64_read(&execs), atomic64_read(&opens), atomic64_read(&refused),
                      atomic64_read(&faults), atomic64_read(&small_pages),
                      atomic64_read(&huge_pages), atomic64_read(&copied_pages));

    return simple_read_from_buffer(to, len, at, text, n);
}

static bool in_use(const struct off2f_place *range)
{
    struct off2f_image *m;
    bool found = false;

    mutex_lock(&lock);
    list_for_each_entry(m, &images, list)
        found |= m->offset < range->base + range->bytes &&
                 range->base < m->offset + m->h.text_pages * PAGE_SIZE;
    mutex_unlock(&lock);
    return found;
}

static long device_open_image(int __user *argument)
{
    struct file *off2, *file;
    int number, fd;

    if (get_user(number, argument))
        return -EFAULT;
    off2 = fget(number);
    if (!off2)
        return -EBADF;
    file = off2->f_mode & FMODE_READ && S_ISREG(file_inode(off2)->i_mode) ? image_open(off2)
                                                                          : ERR_PTR(-EBADF);
    fput(off2);
    if (IS_ERR(file))
        return PTR_ERR(file);
    fd = get_unused_fd_flags(0);
    if (fd < 0) {
        fput(file);
        return fd;
    }
    atomic64_inc(&opens);
    fd_install(fd, file);
    return fd;
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
    struct off2f_place range = {.base = base, .bytes = bytes};
    long error = 0;

    switch (request) {
    case OFF2F_GET_PLACE:
        return copy_to_user((void __user *)argument, &range, sizeof range) ? -EFAULT : 0;
    case OFF2F_LOCK:
        if (!(file->f_mode & FMODE_WRITE))
            return -EBADF;
        mutex_lock(&lock);
        if (writer)
            error = -EBUSY;
        else
            writer = file;
        mutex_unlock(&lock);
        return error;
    case OFF2F_IN_USE:
        if (copy_from_user(&range, (void __user *)argument, sizeof range))
            return -EFAULT;
        return in_use(&range);
    case OFF2F_FLUSH:
        if (copy_from_user(&range, (void __user *)argument, sizeof range))
            return -EFAULT;
        if (!(file->f_mode & FMODE_WRITE))
            return -EBADF;
        if (range.base > bytes || range.bytes > bytes - range.base)
            return -EINVAL;
        if (riscv_cbom_block_size == 0 || !riscv_isa_extension_available(NULL, ZICBOM))
            return -EOPNOTSUPP;
        arch_wb_cache_pmem(store + range.base, range.bytes);
        return 0;
    case OFF2F_OPEN:
        return device_open_image((int __user *)argument);
    default:
        return -ENOTTY;
    }
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
    unsigned long len = vma->vm_end - vma->vm_start, at = vma->vm_pgoff << PAGE_SHIFT;

    if (at > bytes || len > bytes - at)
        return -EINVAL;
    // Copies of pages would be neither the store nor its texts. (A shared mapping that can only be read is no longer
    // marked as shared.)
    if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
        return -EINVAL;
    return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(base + at), len, vma->vm_page_prot);
}

static int device_release(struct inode *inode, struct file *file)
{
    mutex_lock(&lock);
    if (writer == file)
        writer = NULL;
    mutex_unlock(&lock);
    return 0;
}

static const struct file_operations device_operations = {
    .owner = THIS_MODULE,
    .read = device_read,
    .unlocked_ioctl = device_ioctl,
    .mmap = device_mmap,
    .release = device_release,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "off2f",
    .fops = &device_operations,
    .mode = 0600,
};

// The store's place, from the device tree if there is no parameter.
static int find_store(void)
{
    struct device_node *node;
    struct resource r;
    int error;

    if (base == 0 && bytes == 0) {
        node = of_find_compatible_node(NULL, NULL, OFF2F_COMPATIBLE);
        if (!node) {
            pr_err("off2f: no node %s in the device tree, and no base= and bytes=\n",
                   OFF2F_COMPATIBLE);
            return -ENODEV;
        }
        error = of_address_to_resource(node, 0, &r);
        of_node_put(node);
        if (error)
            return error;
        base = r.start;
        bytes = resource_size(&r);
    }
    if (!IS_ALIGNED(base, OFF2F_HUGE) || !IS_ALIGNED(bytes, OFF2F_HUGE) || bytes == 0) {
        pr_err("off2f: %#lx bytes at %#lx cannot be a text store: not multiples of 2 MiB\n", bytes,
               base);
        return -EINVAL;
    }
    if (region_intersects(base, bytes, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) != REGION_DISJOINT ||
        pfn_valid(PHYS_PFN(base)) || pfn_valid(PHYS_PFN(base + bytes - 1))) {
        pr_err("off2f: the kernel manages the memory at %#lx\n", base);
        return -EBUSY;
    }
    return 0;
}

static int __init off2f_init(void)
{
    int error = find_store();

    if (error)
        return error;
    if (!request_mem_region(base, bytes, "off2f text store")) {
        pr_err("off2f: another driver has the memory at %#lx\n", base);
        return -EBUSY;
    }
    descriptors.range.start = base;
    descriptors.range.end = base + bytes - 1;
    store = memremap_pages(&descriptors, NUMA_NO_NODE);
    if (IS_ERR(store)) {
        error = PTR_ERR(store);
        pr_err("off2f: no descriptors for the pages at %#lx: %d\n", base, error);
        goto region;
    }
    error = misc_register(&device);
    if (error)
        goto map;
    error = off2f_directory_init();
    if (error)
        goto device;
    // Making it anew for each program would take a millisecond of a start.
    mount = kern_mount(&file_system);
    if (IS_ERR(mount)) {
        error = PTR_ERR(mount);
        goto directory;
    }
    atomic_inc(&mount->mnt_sb->s_active);
    // Before the others: their loaders would not accept the file, but may complain.
    insert_binfmt(&format);
    pr_info("off2f: text store of %lu KiB at %#lx%s\n", bytes / 1024, base,
            store_is_sound() ? "" : ", not formatted");
    return 0;
directory:
    off2f_directory_exit();
device:
    misc_deregister(&device);
map:
    memunmap_pages(&descriptors);
region:
    release_mem_region(base, bytes);
    return error;
}

static void __exit off2f_exit(void)
{
    // The kernel comes here only when no file of the module's is open or mapped.
    struct super_block *files = mount->mnt_sb;

    unregister_binfmt(&format);
    // The last file may be on its way: the kernel gives its reference to the module back before that to the mount.
    kern_unmount(mount);
    while (atomic_read(&files->s_active) > 1)
        msleep(1);
    deactivate_super(files);
    off2f_directory_exit();
    misc_deregister(&device);
    memunmap_pages(&descriptors);
    release_mem_region(base, bytes);
}

module_init(off2f_init);
module_exit(off2f_exit);
MODULE_DESCRIPTION("OFF2F: programs whose text executes in place on NVMM");
MODULE_LICENSE("GPL");
// By the device tree's node of the store.
MODULE_ALIAS("of:N*T*Cnagori,text-store*");
