//! Images of U-Boot: the older uImage with its header of 64 bytes, and FIT images, which are
//! flattened trees that contain the parts as properties.

use super::unpack::Packing;
use sha1::Digest;
use std::collections::BTreeSet;

/// First bytes of a uImage.
pub const UIMAGE: [u8; 4] = *b"\x27\x05\x19\x56";
/// First bytes of a flattened tree.
pub const FIT: [u8; 4] = *b"\xd0\x0d\xfe\xed";

/// A program with its load address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Load address.
    pub load: u64,
    /// Entry.
    pub entry: u64,
    /// Name.
    pub bytes: Vec<u8>,
    /// Messages for the user.
    pub warnings: Vec<String>,
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(part.try_into().ok()?))
}

/// Parses a uImage; errors are the end of a sentence that begins with "it".
pub fn uimage(file: &[u8], limit: u64) -> Result<Loaded, String> {
    const HEADER: usize = 64;
    const RISCV: u8 = 26;
    /// Types of images: standalone program, kernel, multi-part, firmware.
    const KINDS: [u8; 4] = [1, 2, 4, 5];
    const SEVERAL: u8 = 4;
    let mut header = file
        .get(..HEADER)
        .ok_or("is a uImage that ends in its header")?
        .to_vec();
    let word = |at: usize| be32(file, at).unwrap_or(0);
    let (sum, len, load, entry, data_sum) = (word(4), word(12), word(16), word(20), word(24));
    header[4..8].fill(0);
    if crc32fast::hash(&header) != sum {
        return Err("is a uImage with a wrong checksum of its header".into());
    }
    let [_, processor, kind, packing] = [file[28], file[29], file[30], file[31]];
    if processor != RISCV {
        return Err(format!(
            "is a uImage for another processor (number {processor}; RISC-V is {RISCV})"
        ));
    }
    if !KINDS.contains(&kind) {
        return Err(format!(
            "is a uImage of kind {kind}: neither a kernel nor another program"
        ));
    }
    let mut data = file
        .get(HEADER..HEADER + len as usize)
        .ok_or_else(|| format!("is a uImage whose {len} bytes of data are not all there"))?;
    if crc32fast::hash(data) != data_sum {
        return Err("is a uImage with a wrong checksum of its data".into());
    }
    let mut warnings = Vec::new();
    if kind == SEVERAL {
        let damaged = || "is a uImage of several parts whose table is damaged".to_string();
        let sizes = data.chunks_exact(4).map(|c| be32(c, 0).unwrap_or(0));
        let count = sizes.clone().take_while(|s| *s != 0).count();
        let first = sizes
            .clone()
            .next()
            .filter(|s| *s != 0)
            .ok_or_else(damaged)? as usize;
        let from = 4 * (count + 1);
        data = from
            .checked_add(first)
            .and_then(|end| data.get(from..end))
            .ok_or_else(damaged)?;
        if count > 1 {
            warnings.push(format!(
                "of the {count} parts of the uImage only the first is used: give an initial root file system with \
                    --initrd"
            ));
        }
    }
    let packing = Packing::numbered(packing).ok_or_else(|| {
        format!("is a uImage packed in a way that is not known (number {packing})")
    })?;
    let bytes = packing
        .unpack(data, limit)
        .map_err(|e| format!("is a uImage, and what is in it {e}"))?;
    Ok(Loaded {
        load: load.into(),
        entry: entry.into(),
        bytes,
        warnings,
    })
}

/// A node of a flattened tree.
#[derive(Debug, Default)]
struct Node<'a> {
    name: &'a str,
    properties: Vec<(&'a str, &'a [u8])>,
    children: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    fn child(&self, name: &str) -> Option<&Node<'a>> {
        self.children.iter().find(|c| c.name == name)
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.properties.iter().find(|p| p.0 == name).map(|p| p.1)
    }

    /// The first string of a property.
    fn text(&self, name: &str) -> Option<&'a str> {
        let bytes = self.get(name)?.split(|b| *b == 0).next()?;
        std::str::from_utf8(bytes).ok()
    }

    /// A number of one or two cells.
    fn number(&self, name: &str) -> Option<u64> {
        let bytes = self.get(name)?;
        match bytes.len() {
            4 => be32(bytes, 0).map(u64::from),
            8 => Some(u64::from_be_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// The root of a flattened tree and the tree's length; `None` if it is damaged.
fn read_tree(file: &[u8]) -> Option<(Node<'_>, usize)> {
    const MAX_DEPTH: usize = 16;
    let at = |n: usize| be32(file, n).map(|v| v as usize);
    let (total, structure, strings) = (at(4)?, at(8)?, at(12)?);
    let tree = file.get(..total)?;
    let names = tree.get(strings..)?;
    let text = |bytes: &'_ [u8], from: usize| -> Option<usize> {
        bytes.get(from..)?.iter().position(|b| *b == 0)
    };
    let mut open: Vec<Node<'_>> = Vec::new();
    let mut here = structure;
    loop {
        let token = be32(tree, here)?;
        here += 4;
        match token {
            1 if open.len() < MAX_DEPTH => {
                let len = text(tree, here)?;
                let name = std::str::from_utf8(&tree[here..here + len]).ok()?;
                here = (here + len + 1).next_multiple_of(4);
                open.push(Node {
                    name,
                    ..Node::default()
                });
            }
            2 => {
                let done = open.pop()?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => return Some((done, total)),
                }
            }
            3 => {
                let (len, name) = (be32(tree, here)? as usize, be32(tree, here + 4)? as usize);
                let value = tree.get(here + 8..(here + 8).checked_add(len)?)?;
                let end = text(names, name)?;
                let name = std::str::from_utf8(&names[name..name + end]).ok()?;
                open.last_mut()?.properties.push((name, value));
                here = (here + 8 + len).next_multiple_of(4);
            }
            4 => {}
            _ => return None,
        }
    }
}

/// The kernel of a FIT image; errors are the end of a sentence that begins with "it".
pub fn fit(file: &[u8], limit: u64) -> Result<Loaded, String> {
    let fail = |problem: &str| Err(format!("is a FIT image {problem}"));
    let Some((root, tree_len)) = read_tree(file) else {
        return Err("is a device tree or FIT image with a damaged structure".into());
    };
    let (Some(images), Some(configurations)) = (root.child("images"), root.child("configurations"))
    else {
        return Err("is a device tree, or a FIT image without configurations".into());
    };
    let wanted = configurations.text("default");
    let configuration = match wanted {
        Some(name) => configurations.child(name),
        None => configurations.children.first(),
    };
    let Some(configuration) = configuration else {
        return fail("whose default configuration is missing");
    };
    let Some(name) = configuration
        .text("kernel")
        .or(configuration.text("firmware"))
    else {
        return fail("whose configuration names no kernel");
    };
    let Some(image) = images.child(name) else {
        return fail(&format!("whose kernel {name} is missing"));
    };
    if let Some(arch) = image.text("arch").filter(|a| *a != "riscv") {
        return fail(&format!("for another processor ({arch})"));
    }
    // Positions of external parts are counted from the file's start or from the tree's end.
    let outside = |from: u64| {
        let len = image.number("data-size")?;
        let end = from.checked_add(len)?;
        file.get(usize::try_from(from).ok()?..usize::try_from(end).ok()?)
    };
    let data = match image.get("data") {
        Some(data) => Some(data),
        None => match (image.number("data-position"), image.number("data-offset")) {
            (Some(at), _) => outside(at),
            (_, Some(at)) => at
                .checked_add(tree_len.next_multiple_of(4) as u64)
                .and_then(outside),
            _ => None,
        },
    };
    let Some(data) = data else {
        return fail(&format!(
            "whose kernel {name} has no data, or not all of it"
        ));
    };
    for hash in image.children.iter().filter(|c| c.name.starts_with("hash")) {
        let Some(expected) = hash.get("value") else {
            continue;
        };
        let found = match hash.text("algo") {
            Some("crc32") => crc32fast::hash(data).to_be_bytes().to_vec(),
            Some("sha1") => sha1::Sha1::digest(data).to_vec(),
            Some("sha256") => sha2::Sha256::digest(data).to_vec(),
            _ => continue,
        };
        if found != expected {
            return fail(&format!("whose kernel {name} has a wrong checksum"));
        }
    }
    let packing = match image.text("compression") {
        None => Packing::None,
        Some(p) => match Packing::named(p) {
            Some(p) => p,
            None => return fail(&format!("packed in a way that is not known ({p})")),
        },
    };
    let bytes = packing
        .unpack(data, limit)
        .map_err(|e| format!("is a FIT image, and its kernel {e}"))?;
    let Some(load) = image.number("load") else {
        return fail(&format!("whose kernel {name} has no load address"));
    };
    // The machine's own tree is used, and an initramfs is given separately.
    let used = BTreeSet::from(["kernel", "firmware", "fdt", "description", "compatible"]);
    let others = configuration.properties.iter().map(|p| p.0);
    let others: Vec<&str> = others.filter(|p| !used.contains(p)).collect();
    let warnings = match others[..] {
        [] => Vec::new(),
        _ => vec![format!(
            "of the FIT image only the kernel is used, not: {}; give an initial root file system with --initrd",
            others.join(", ")
        )],
    };
    Ok(Loaded {
        load,
        entry: image.number("entry").unwrap_or(load),
        bytes,
        warnings,
    })
}
