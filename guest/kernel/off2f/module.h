/* SPDX-License-Identifier: GPL-2.0 */
// What the parts of the module share.
#ifndef OFF2F_MODULE_H
#define OFF2F_MODULE_H

#include <linux/fs.h>

#include "layout.h"

struct off2f_image;

// The operations of files that read as ELF files; their inode's i_private is an off2f_image.
extern const struct file_operations off2f_image_operations;
// Finds the text of a PROG.off2 in the store. Until the image is put back, the text stays where it is, and nobody
// writes to PROG.off2. Errors: docs/off2f.md.
struct off2f_image *off2f_image_get(struct file *off2);
void off2f_image_put(struct off2f_image *m);
// Length of the ELF file.
u64 off2f_image_bytes(const struct off2f_image *m);
// Removes an inode, and puts its image back.
void off2f_evict(struct inode *inode);

// The file system "off2f" (directory.c).
int off2f_directory_init(void);
void off2f_directory_exit(void);

#endif
