//! `nagori image`: the guest's images.

pub mod args;
mod rootfs;

use anyhow::{bail, Context};
use args::ImageCommand;
use nagori_image::{Base, GuestImage, Options, RootfsSpec};
use nagori_session::image;
use nagori_terminal::output::file::{self, Staged};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Runs the command.
pub fn command(command: &ImageCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        ImageCommand::Build {
            refresh,
            rootfs,
            modules,
            cache,
            json,
        } => {
            let mut options = cache.options_with(modules)?;
            options.refresh = *refresh;
            make(&options, rootfs, *json, messages)?;
        }
        ImageCommand::Path {
            rootfs,
            modules,
            cache,
            json,
        } => make(&cache.options_with(modules)?, rootfs, *json, messages)?,
        ImageCommand::List { cache, json } => {
            rootfs::list(&nagori_image::list_rootfs(&cache.options()?)?, *json)?;
        }
        ImageCommand::Show { name, cache, json } => {
            rootfs::show(
                &image::rootfs::named(&cache.options()?, name, messages)?,
                *json,
            )?;
        }
        ImageCommand::Export {
            file,
            rootfs,
            modules,
            cache,
        } => export(file, rootfs, &cache.options_with(modules)?, messages)?,
        ImageCommand::Import { file, cache } => import(file, &cache.options()?, messages)?,
        ImageCommand::Verify { name, cache } => {
            let options = cache.options()?;
            let images = match name {
                Some(name) => vec![image::rootfs::named(&options, name, messages)?],
                None => nagori_image::list_rootfs(&options)?,
            };
            for found in images {
                found.verify()?;
                output::print(&format!("{}  good\n", found.path.display()))?;
            }
        }
    }
    Ok(SUCCESS)
}

fn make(
    options: &Options,
    rootfs: &args::RootfsArgs,
    json: bool,
    messages: &Messages,
) -> anyhow::Result<()> {
    if rootfs.spec().is_some() && !options.more_modules.is_empty() {
        bail!("--modules are of the kernel's image: build that without --base and --packages, or give them to `nagori \
            boot`");
    }
    match rootfs.spec() {
        Some(spec) => rootfs::print(&image::rootfs::build(options, &spec, messages)?, json),
        None => print(&image::build(options, messages)?, json),
    }
}

fn export(
    path: &Path,
    rootfs: &args::RootfsArgs,
    options: &Options,
    messages: &Messages,
) -> anyhow::Result<()> {
    let mut file = Staged::create(path)?;
    let guest = image::build(options, messages)?;
    let spec = rootfs.spec().unwrap_or_else(|| RootfsSpec::new(Base::Run));
    let root = image::rootfs::build(options, &spec, messages)?;
    image::export(options, &guest, &[root], &mut file, messages)?;
    file.finish()?;
    Ok(())
}

fn import(path: &Path, options: &Options, messages: &Messages) -> anyhow::Result<()> {
    let mut from: Box<dyn Read> = if file::is_stdout(path) {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
    };
    let found = image::import(options, &mut from, messages)
        .with_context(|| format!("{} cannot be taken over", path.display()))?;
    let offline = Options {
        offline: true,
        ..options.clone()
    };
    if image::build(&offline, messages).is_err() {
        bail!("the images were made by another version of Nagori, or with --modules, so this one does not find them \
            without these");
    }
    let text: String = found.iter().map(|d| format!("{}\n", d.display())).collect();
    output::print(&text)
}

fn print(image: &GuestImage, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return output::print_json(&json!({
            "kernel": image.kernel,
            "firmware": image.firmware,
            "initrd": image.initrd,
            "manifest": image.manifest,
        }));
    }
    output::print(&format!(
        "kernel    {}\nfirmware  {}\ninitrd    {}\n",
        image.kernel.display(),
        image.firmware.display(),
        image.initrd.display()
    ))
}
