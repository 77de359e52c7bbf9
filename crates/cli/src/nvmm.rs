//! `nagori nvmm`: images of NVMM, without a machine.

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use nagori_machine::geometry;
use nagori_nvmm::{Access, Difference, Geometry, Image};
use nagori_session::words::bytes;
use nagori_terminal::args::MachineArgs;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::{json, Value};
use std::io::Write;
use std::path::PathBuf;

/// Ranges that `diff` prints without --all.
const SHOWN: usize = 20;
/// Exit code of `diff` if there are differences.
const DIFFERENT: Exit = Exit(1);

const EXAMPLES: &str = "\
Examples:
  nagori nvmm create pm.nvmm                        # for the machine vc707
  nagori boot --nvmm pmem-region --nvmm-image pm.nvmm
  nagori nvmm show pm.nvmm
  nagori nvmm export pm.nvmm pm.raw && mount -o loop,ro pm.raw /mnt
  nagori nvmm clone pm.nvmm before.nvmm; ...; nagori nvmm diff before.nvmm pm.nvmm
  mkfs.ext4 fs.raw 1G && nagori nvmm import fs.raw pm.nvmm

An image is a sparse file with a header. It holds what was durable of a machine's NVMM, and fits machines
with NVMM of the same size at the same address. `diff` exits with 1 if the images differ.

Time:
  create and show at once; the others as long as the host takes to read or write what is not zero
  in the image, seconds for a GiB.";

/// Make, look at and compare images of NVMM, the files of --nvmm-image.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct NvmmCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make an image, all zeros, for the NVMM of a machine.
    Create {
        #[command(flatten)]
        machine: MachineArgs,
        /// The image, which must not exist.
        image: PathBuf,
    },
    /// Show what an image is, and what a machine would find.
    Show {
        /// The image.
        image: PathBuf,
        /// A JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Read images completely and compare them with their checksums; exit code 1 if one is damaged.
    ///
    /// The content has checksums if the last machine ended by itself. The header and the undo area have some always.
    Verify {
        /// The images.
        #[arg(required = true)]
        images: Vec<PathBuf>,
    },
    /// Write the durable bytes of NVMM to a file: exactly those, without a header.
    Export {
        /// The image.
        image: PathBuf,
        /// The file, which must not exist; it will be sparse. `-` is stdout.
        #[arg(value_name = "FILE|-")]
        to: PathBuf,
    },
    /// Make an image whose first bytes are those of a file, such as a file system; the rest is zero.
    Import {
        #[command(flatten)]
        machine: MachineArgs,
        /// The file.
        from: PathBuf,
        /// The image, which must not exist.
        image: PathBuf,
    },
    /// Compare the durable bytes of two images; exit code 1 if they differ.
    Diff {
        /// One image.
        left: PathBuf,
        /// The other image.
        right: PathBuf,
        /// Print all ranges, not only the first 20.
        #[arg(long)]
        all: bool,
        /// A JSON object instead of a table: `differences` has `address` and `bytes`.
        #[arg(long)]
        json: bool,
    },
    /// Make an image with the same durable bytes. Where the host's file system can, both share their blocks.
    Clone {
        /// The image.
        image: PathBuf,
        /// The new one, which must not exist.
        to: PathBuf,
    },
}

fn nvmm_of(machine: &MachineArgs) -> anyhow::Result<Geometry> {
    let description = machine.resolve(&[])?;
    let g = geometry(&description.config);
    g.with_context(|| format!("the machine {} has no NVMM", description.config.name))
}

/// Runs the command.
pub fn command(command: &NvmmCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match &command.what {
        What::Create { machine, image } => {
            Image::create(image, &nvmm_of(machine)?)?;
        }
        What::Show { image, json } => show(&Image::open(image, Access::Read)?, *json)?,
        What::Verify { images } => return verify(images, messages),
        What::Export { image, to } => {
            let image = Image::open(image, Access::Read)?;
            match to.to_str() {
                Some("-") => {
                    let mut out = std::io::stdout().lock();
                    image.write_to(&mut out)?;
                    out.flush().context("cannot write to stdout")?;
                }
                _ => image.export(to)?,
            }
        }
        What::Import {
            machine,
            from,
            image,
        } => {
            Image::import(image, &nvmm_of(machine)?, from)?;
        }
        What::Diff {
            left,
            right,
            all,
            json,
        } => {
            let left = Image::open(left, Access::Read)?;
            let right = Image::open(right, Access::Read)?;
            let found = left.compare(&right)?;
            let base = left.header().geometry.base;
            if *json {
                output::print_json(&differences_json(&found, base))?
            } else {
                output::print(&differences(&found, base, *all))?
            }
            if !found.is_empty() {
                return Ok(DIFFERENT);
            }
        }
        What::Clone { image, to } => {
            Image::open(image, Access::Read)?.duplicate(to)?;
        }
    }
    Ok(SUCCESS)
}

fn identity(id: [u64; 2]) -> String {
    format!("{:016x}{:016x}", id[1], id[0])
}

/// How the last machine ended.
fn state(image: &Image) -> &'static str {
    match (image.generation(), image.was_left_open()) {
        (0, _) => "new",
        (_, true) => "the last machine ended without closing it",
        (_, false) => "closed",
    }
}

fn show(image: &Image, as_json: bool) -> anyhow::Result<()> {
    let h = image.header();
    let (allocated, lines) = image.sizes()?;
    let domain = image.domain().map(|d| d.name());
    if as_json {
        let parent = h
            .parent
            .map(|p| json!({"id": identity(p.0), "generation": p.1}));
        return output::print_json(&json!({
            "id": identity(h.id),
            "machine": h.geometry.machine,
            "base": h.geometry.base,
            "bytes": h.geometry.len,
            "allocated_bytes": allocated,
            "generation": image.generation(),
            "closed": !image.was_left_open(),
            "persistence_domain": domain,
            "lines_to_undo": lines,
            "clone_of": parent,
        }));
    }
    let mut rows = vec![
        ("identity", identity(h.id)),
        ("machine", h.geometry.machine.clone()),
        (
            "NVMM",
            format!("{} at {:#x}", bytes(h.geometry.len), h.geometry.base),
        ),
        ("allocated", bytes(allocated)),
        ("generation", image.generation().to_string()),
        ("state", state(image).into()),
    ];
    if let Some(domain) = domain {
        rows.push(("persistence domain", domain.into()));
    }
    if image.was_left_open() {
        rows.push(("lines that were not durable", lines.to_string()));
    }
    if let Some((id, generation)) = h.parent {
        rows.push((
            "clone of",
            format!("{}, generation {generation}", identity(id)),
        ));
    }
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(k, v)| format!("{k:width$}  {v}\n"));
    output::print(&lines.collect::<String>())
}

fn verify(images: &[PathBuf], messages: &Messages) -> anyhow::Result<Exit> {
    let mut bad = 0;
    for path in images {
        let look = || -> anyhow::Result<String> {
            let found = Image::open(path, Access::Read)?.verify()?;
            if let Some(first) = found.wrong.first() {
                bail!(
                    "damaged: the checksums of {} parts of 1 MiB are wrong, the first at {first:#x} from the start of \
                        NVMM",
                    found.wrong.len()
                );
            }
            Ok(if found.summed {
                "sound".into()
            } else {
                "sound as far as can be told: no machine has closed it, so its content has no checksums".into()
            })
        };
        match look() {
            Ok(text) => output::print(&format!("{}: {text}\n", path.display()))?,
            Err(e) => {
                bad += 1;
                messages.error(&e.context(path.display().to_string()));
            }
        }
    }
    if bad > 0 {
        bail!("{bad} of {} cannot be used", images.len());
    }
    Ok(SUCCESS)
}

fn total(found: &[Difference]) -> u64 {
    found.iter().map(|d| d.len).sum()
}

fn differences_json(found: &[Difference], base: u64) -> Value {
    let all = found
        .iter()
        .map(|d| json!({"address": base + d.at, "bytes": d.len}));
    json!({
        "differences": all.collect::<Vec<_>>(),
        "lines": total(found) / nagori_nvmm::LINE,
    })
}

fn differences(found: &[Difference], base: u64, all: bool) -> String {
    if found.is_empty() {
        return "the same\n".into();
    }
    let shown = if all { found.len() } else { SHOWN };
    let mut text: String = found
        .iter()
        .take(shown)
        .map(|d| format!("{:#x}  {} bytes\n", base + d.at, d.len))
        .collect();
    if found.len() > shown {
        text += &format!("and {} more ranges\n", found.len() - shown);
    }
    text + &format!(
        "{} lines in {} ranges differ\n",
        total(found) / nagori_nvmm::LINE,
        found.len()
    )
}
