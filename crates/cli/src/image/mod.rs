//! `nagori image`: the guest's images.

pub mod args;
pub mod rootfs;

use crate::args::CacheArgs;
use crate::output::{self, Exit, Messages, SUCCESS};
use anyhow::Context;
use args::ImageCommand;
use indicatif::{ProgressBar, ProgressStyle};
use nagori_image::{GuestImage, Options, Progress};
use serde_json::json;
use std::time::Duration;

/// Runs the command.
pub fn command(command: &ImageCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        ImageCommand::Build {
            refresh,
            mirror,
            rootfs,
            cache,
            json,
        } => {
            let mut options = options(cache)?;
            options.refresh = *refresh;
            if mirror.is_some() {
                options.mirror = mirror.clone();
            }
            make(&options, rootfs, *json, messages)?;
        }
        ImageCommand::Path {
            rootfs,
            cache,
            json,
        } => make(&options(cache)?, rootfs, *json, messages)?,
        ImageCommand::List { cache, json } => {
            rootfs::list(&nagori_image::list_rootfs(&options(cache)?)?, *json)?;
        }
        ImageCommand::Show { name, cache, json } => {
            rootfs::show(&rootfs::named(&options(cache)?, name, messages)?, *json)?;
        }
        ImageCommand::Verify { name, cache } => {
            let options = options(cache)?;
            let images = match name {
                Some(name) => vec![rootfs::named(&options, name, messages)?],
                None => nagori_image::list_rootfs(&options)?,
            };
            for image in images {
                image.verify()?;
                output::print(&format!("{}  good\n", image.path.display()))?;
            }
        }
    }
    Ok(SUCCESS)
}

/// Where images are kept.
pub fn options(cache: &CacheArgs) -> anyhow::Result<Options> {
    let mut options = match &cache.cache {
        Some(dir) => {
            let mut o = Options::new(dir);
            o.mirror = std::env::var("NAGORI_MIRROR")
                .ok()
                .filter(|m| !m.is_empty());
            o
        }
        None => Options::from_env()?,
    };
    // A relative directory must not depend on where a later step is.
    options.cache_dir = std::path::absolute(&options.cache_dir)
        .with_context(|| format!("cannot use the cache directory {:?}", options.cache_dir))?;
    Ok(options)
}

fn make(
    options: &Options,
    rootfs: &args::RootfsArgs,
    json: bool,
    messages: &Messages,
) -> anyhow::Result<()> {
    match rootfs.spec() {
        Some(spec) => rootfs::print(&rootfs::build(options, &spec, messages)?, json),
        None => print(&build(options, messages)?, json),
    }
}

/// The cached image, or a new one, with its progress on stderr.
pub fn build(options: &Options, messages: &Messages) -> anyhow::Result<GuestImage> {
    with_progress(messages, |progress| nagori_image::build(options, progress)).context(
        "the guest image cannot be built (`nagori boot` takes --kernel, --firmware and --initrd instead)",
    )
}

/// Shows what `work` says of itself: on a terminal in one line, else as messages.
fn with_progress<T>(messages: &Messages, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
    let bar = match messages.quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    // The template is a constant.
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template");
    bar.set_style(style);
    let shown = !bar.is_hidden();
    let result = work(&mut |p| {
        if shown {
            bar.enable_steady_tick(Duration::from_millis(100));
            bar.set_message(p.to_string());
        } else {
            messages.note(&p.to_string());
        }
    });
    bar.finish_and_clear();
    result
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
