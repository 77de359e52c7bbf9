//! `nagori image`: the guest's images.

pub mod args;
mod rootfs;

use crate::output::{self, Exit, Messages, SUCCESS};
use anyhow::bail;
use args::ImageCommand;
use nagori_image::{GuestImage, Options};
use nagori_session::image;
use serde_json::json;

/// Runs the command.
pub fn command(command: &ImageCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        ImageCommand::Build {
            refresh,
            mirror,
            rootfs,
            modules,
            cache,
            json,
        } => {
            let mut options = cache.options_with(modules)?;
            options.refresh = *refresh;
            if mirror.is_some() {
                options.mirror = mirror.clone();
            }
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
        bail!("--modules are of the kernel's image: build that without --base and --packages, or give them to `nagori boot`");
    }
    match rootfs.spec() {
        Some(spec) => rootfs::print(&image::rootfs::build(options, &spec, messages)?, json),
        None => print(&image::build(options, messages)?, json),
    }
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
