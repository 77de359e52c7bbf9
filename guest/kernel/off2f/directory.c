// SPDX-License-Identifier: GPL-2.0
// The file system "off2f": a directory of PROG.off2 files as the ELF files that they and their texts make.
//
//     mount -t off2f DIRECTORY PLACE
//
// PLACE/NAME is the ELF file of DIRECTORY/NAME.off2. So whatever opens files by name gets texts that execute in
// place: the dynamic linker, if PLACE is among the directories that it searches.

#include <linux/file.h>
#include <linux/fs_context.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/slab.h>

#include "module.h"

static const char ENDING[] = ".off2";
enum { ENDING_LEN = sizeof ENDING - 1 };
static struct file_system_type directories;

// The file of a name in the directory from which the file system is made. Its user's rights count.
static struct file *open_off2(struct super_block *sb, const struct qstr *name)
{
    const struct path *from = sb->s_fs_info;
    char *full = kasprintf(GFP_KERNEL, "%.*s%s", (int)name->len, name->name, ENDING);
    struct file *file;
    struct path path;
    int error;

    if (!full)
        return ERR_PTR(-ENOMEM);
    error = vfs_path_lookup(from->dentry, from->mnt, full, LOOKUP_FOLLOW, &path);
    kfree(full);
    if (error)
        return ERR_PTR(error);
    if (d_is_reg(path.dentry))
        file = dentry_open(&path, O_RDONLY | O_LARGEFILE, current_cred());
    else
        file = ERR_PTR(-ENOENT);
    path_put(&path);
    return file;
}

static struct dentry *directory_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
    struct off2f_image *m;
    struct inode *inode, *of;
    struct file *off2;

    if (dentry->d_name.len > NAME_MAX - ENDING_LEN)
        return ERR_PTR(-ENAMETOOLONG);
    off2 = open_off2(dir->i_sb, &dentry->d_name);
    if (IS_ERR(off2)) {
        if (PTR_ERR(off2) != -ENOENT)
            return ERR_CAST(off2);
        d_add(dentry, NULL);
        return NULL;
    }
    of = file_inode(off2);
    m = off2f_image_get(off2);
    if (IS_ERR(m)) {
        fput(off2);
        return ERR_CAST(m);
    }
    inode = new_inode(dir->i_sb);
    if (!inode) {
        off2f_image_put(m);
        fput(off2);
        return ERR_PTR(-ENOMEM);
    }
    inode->i_ino = of->i_ino;
    inode->i_mode = S_IFREG | (of->i_mode & 0555);
    inode->i_uid = of->i_uid;
    inode->i_gid = of->i_gid;
    inode->i_size = off2f_image_bytes(m);
    inode->i_fop = &off2f_image_operations;
    inode->i_private = m;
    inode_set_mtime_to_ts(inode, inode_get_mtime(of));
    inode_set_ctime_to_ts(inode, inode_get_ctime(of));
    inode_set_atime_to_ts(inode, inode_get_atime(of));
    // The image has a reference of its own.
    fput(off2);
    d_add(dentry, inode);
    return NULL;
}

static const struct inode_operations directory_inode = {
    .lookup = directory_lookup,
};

static int directory_open(struct inode *inode, struct file *file)
{
    struct file *real = dentry_open(inode->i_sb->s_fs_info, O_RDONLY | O_DIRECTORY, current_cred());

    if (IS_ERR(real))
        return PTR_ERR(real);
    file->private_data = real;
    return 0;
}

static int directory_release(struct inode *inode, struct file *file)
{
    fput(file->private_data);
    return 0;
}

struct filter {
    struct dir_context context;
    struct dir_context *caller;
};

// Passes names of PROG.off2 on, without their ending.
static bool filter_name(struct dir_context *context, const char *name, int len, loff_t at, u64 ino,
                        unsigned int type)
{
    struct filter *f = container_of(context, struct filter, context);
    bool dots = len <= 2 && memcmp(name, "..", len) == 0;

    if (!dots) {
        if (len <= ENDING_LEN || memcmp(name + len - ENDING_LEN, ENDING, ENDING_LEN) != 0)
            return true;
        len -= ENDING_LEN;
        // What a link leads to is a file, or is not found.
        if (type == DT_LNK)
            type = DT_REG;
    }
    f->caller->pos = f->context.pos;
    return f->caller->actor(f->caller, name, len, at, ino, type);
}

static int directory_iterate(struct file *file, struct dir_context *caller)
{
    struct file *real = file->private_data;
    struct filter f = {.context.actor = filter_name, .caller = caller};
    int error;

    if (vfs_llseek(real, caller->pos, SEEK_SET) < 0)
        return -EINVAL;
    error = iterate_dir(real, &f.context);
    caller->pos = f.context.pos;
    return error;
}

static const struct file_operations directory_operations = {
    .owner = THIS_MODULE,
    .open = directory_open,
    .release = directory_release,
    .iterate_shared = directory_iterate,
    .llseek = generic_file_llseek,
    .read = generic_read_dir,
};

static const struct super_operations super = {
    .statfs = simple_statfs,
    .evict_inode = off2f_evict,
    .drop_inode = generic_delete_inode,
};

// Names are looked up again when nobody uses them: the store may have changed.
static const struct dentry_operations names = {
    .d_delete = always_delete_dentry,
};

static int directory_fill(struct super_block *sb, struct fs_context *fc)
{
    struct path *from = sb->s_fs_info;
    struct inode *root;

    sb->s_magic = 0x4f464632;
    sb->s_blocksize = PAGE_SIZE;
    sb->s_blocksize_bits = PAGE_SHIFT;
    sb->s_maxbytes = MAX_LFS_FILESIZE;
    sb->s_flags |= SB_RDONLY | SB_NOATIME;
    sb->s_op = &super;
    sb->s_d_op = &names;
    root = new_inode(sb);
    if (!root)
        return -ENOMEM;
    root->i_ino = d_inode(from->dentry)->i_ino;
    root->i_mode = S_IFDIR | 0555;
    root->i_op = &directory_inode;
    root->i_fop = &directory_operations;
    set_nlink(root, 2);
    sb->s_root = d_make_root(root);
    return sb->s_root ? 0 : -ENOMEM;
}

static void put_from(struct path *from)
{
    if (!from)
        return;
    path_put(from);
    kfree(from);
}

static int directory_get_tree(struct fs_context *fc)
{
    struct path *from;
    int error;

    if (!fc->source)
        return invalf(fc, "off2f: expected the directory of the PROG.off2 files");
    from = kmalloc(sizeof *from, GFP_KERNEL);
    if (!from)
        return -ENOMEM;
    error = kern_path(fc->source, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, from);
    if (error) {
        kfree(from);
        return error;
    }
    // The context, or the superblock once there is one, has it from here on.
    fc->s_fs_info = from;
    // A directory of this kind has no PROG.off2 files.
    if (from->mnt->mnt_sb->s_type == &directories)
        return -ELOOP;
    return get_tree_nodev(fc, directory_fill);
}

static void directory_free(struct fs_context *fc)
{
    put_from(fc->s_fs_info);
}

static const struct fs_context_operations context = {
    .get_tree = directory_get_tree,
    .free = directory_free,
};

static int directory_context(struct fs_context *fc)
{
    fc->ops = &context;
    return 0;
}

static void directory_kill(struct super_block *sb)
{
    struct path *from = sb->s_fs_info;

    kill_anon_super(sb);
    put_from(from);
}

static struct file_system_type directories = {
    .owner = THIS_MODULE,
    .name = "off2f",
    .init_fs_context = directory_context,
    .kill_sb = directory_kill,
};
MODULE_ALIAS_FS("off2f");

int off2f_directory_init(void)
{
    return register_filesystem(&directories);
}

void off2f_directory_exit(void)
{
    unregister_filesystem(&directories);
}
