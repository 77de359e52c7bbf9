//! `nagori off2f`: programs whose text executes in place on NVMM, as files.

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use nagori_off2f::{join, read_off2, read_text, split, Text, OFF2_MAGIC, PAGE, TEXT_MAGIC};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::{json, Value};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  nagori off2f split hello                    # makes hello.off2 and hello.text
  nagori off2f show hello.off2
  nagori off2f join hello.off2 again && cmp hello again

In the guest, `off2f put hello.text` puts the text into the text store on NVMM, and `./hello.off2` runs.
docs/off2f.md describes both files.";

/// Split programs into the two files of OFF2F, whose text executes in place on NVMM, and join them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Off2fCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make PROG.off2 and PROG.text of an executable or a shared library.
    Split {
        /// The ELF file.
        program: PathBuf,
        /// The directory for the two files; without it, the program's own.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Make the ELF file again, bit for bit. Files that do not belong together are refused.
    Join {
        /// PROG.off2.
        off2: PathBuf,
        /// The ELF file, which must not exist.
        elf: PathBuf,
        /// PROG.text; without it, the file beside PROG.off2.
        #[arg(long, value_name = "FILE")]
        text: Option<PathBuf>,
    },
    /// Show what a file of either kind has, after checking it.
    Show {
        /// PROG.off2 or PROG.text.
        file: PathBuf,
        /// A JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file that must not exist, with the mode of another one; removes it again if that fails.
fn write_new(path: &Path, bytes: &[u8], like: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let file = fs::File::options().write(true).create_new(true).open(path);
    let mut file = file.with_context(failed)?;
    let done = file.write_all(bytes).and_then(|()| {
        let mode = fs::metadata(like)?.permissions();
        file.set_permissions(mode)
    });
    done.inspect_err(|_| drop(fs::remove_file(path)))
        .with_context(failed)
}

/// The path with another extension added, as `hello` and `hello.off2`.
fn with_added(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(extension);
    name.into()
}

/// Runs the command.
pub fn command(command: &Off2fCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match &command.what {
        What::Split { program, into } => {
            let elf = read(program)?;
            let pair = split(&elf).with_context(|| program.display().to_string())?;
            let name = match (into, program.file_name()) {
                (None, _) => program.clone(),
                (Some(dir), Some(name)) => dir.join(name),
                (Some(_), None) => bail!("{} is not the name of a file", program.display()),
            };
            let (off2, text) = (with_added(&name, ".off2"), with_added(&name, ".text"));
            write_new(&off2, &pair.off2, program)?;
            write_new(&text, &pair.text, program).inspect_err(|_| drop(fs::remove_file(&off2)))?;
            messages.note(&format!("{} and {}", off2.display(), text.display()));
        }
        What::Join { off2, elf, text } => {
            let text = text.clone().unwrap_or_else(|| off2.with_extension("text"));
            let file = join(&read(off2)?, &read(&text)?)
                .with_context(|| format!("{} and {}", off2.display(), text.display()))?;
            write_new(elf, &file, off2)?;
        }
        What::Show { file, json } => {
            let value = describe(&read(file)?).with_context(|| file.display().to_string())?;
            if *json {
                output::print_json(&value)?
            } else {
                output::print(&table(&value))?
            }
        }
    }
    Ok(SUCCESS)
}

fn text_value(text: &Text) -> Value {
    json!({
        "build_id": text.build_id.to_string(),
        "build_id_from": if text.build_id.from_linker { "linker" } else { "content" },
        "text_pages": text.pages,
        "text_bytes": text.pages * PAGE,
        "text_address": format!("{:#x}", text.vaddr),
        "text_checksum": format!("{:016x}", text.checksum),
    })
}

fn describe(file: &[u8]) -> anyhow::Result<Value> {
    if file.starts_with(&TEXT_MAGIC) {
        let mut value = text_value(&read_text(file)?);
        value["file"] = "text".into();
        return Ok(value);
    }
    if !file.starts_with(&OFF2_MAGIC) {
        bail!("it is neither PROG.off2 nor PROG.text: it has the first bytes of neither");
    }
    let h = read_off2(file)?;
    let mut value = text_value(&h.text());
    let kind = match h.elf_type {
        2 => "executable",
        _ => "position-independent executable or library",
    };
    let more = json!({
        "file": "off2",
        "kind": kind,
        "machine": h.elf_machine,
        "elf_bytes": h.elf_bytes,
        "elf_checksum": format!("{:016x}", h.elf_checksum),
        "text_offset": h.text_offset,
        "pages_in_text_only": h.cut_pages,
    });
    for (key, v) in more.as_object().into_iter().flatten() {
        value[key] = v.clone();
    }
    Ok(value)
}

fn table(value: &Value) -> String {
    let row = |(key, v): (&String, &Value)| {
        let v = v.as_str().map_or_else(|| v.to_string(), String::from);
        format!("{:<20} {v}\n", key.replace('_', " "))
    };
    value.as_object().into_iter().flatten().map(row).collect()
}
