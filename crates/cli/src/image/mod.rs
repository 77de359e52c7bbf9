//! `nagori image`: the guest's images.

pub mod args;
mod machine;
pub mod rootfs;

use crate::args::{CacheArgs, ModulesArgs};
use crate::output::{self, Exit, Messages, SUCCESS};
use anyhow::{bail, Context};
use args::ImageCommand;
use indicatif::{ProgressBar, ProgressStyle};
use nagori_image::{GuestImage, Options, Progress};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

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
            let mut options = options_with(cache, modules)?;
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
        } => make(&options_with(cache, modules)?, rootfs, *json, messages)?,
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

/// Where images are kept, and with which modules.
pub fn options_with(cache: &CacheArgs, modules: &ModulesArgs) -> anyhow::Result<Options> {
    let mut options = options(cache)?;
    options.add_modules(&modules.modules);
    Ok(options)
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
    if rootfs.spec().is_some() && !options.more_modules.is_empty() {
        bail!("--modules are of the kernel's image: build that without --base and --packages, or give them to `nagori boot`");
    }
    match rootfs.spec() {
        Some(spec) => rootfs::print(&rootfs::build(options, &spec, messages)?, json),
        None => print(&build(options, messages)?, json),
    }
}

/// The cached image, or a new one, with its progress on stderr.
pub fn build(options: &Options, messages: &Messages) -> anyhow::Result<GuestImage> {
    with_progress(messages, |progress| {
        nagori_image::build(options, progress).map_err(|e| hint(options, e)).context(
            "the guest image cannot be built (`nagori boot` takes --kernel, --firmware and --initrd instead)",
        )
    })
}

/// Says what can be done where the cache cannot be written.
fn hint(options: &Options, e: nagori_image::Error) -> anyhow::Error {
    let unwritable = match &e {
        nagori_image::Error::Io { source, .. } => cannot_write(source),
        _ => false,
    };
    let e = anyhow::Error::from(e);
    match unwritable {
        true => e.context(unwritable_cache(&options.cache_dir)),
        false => e,
    }
}

/// Whether a failure means that nothing can be written at a place.
pub fn cannot_write(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// What to do about a cache directory that cannot be written.
pub fn unwritable_cache(dir: &Path) -> String {
    format!(
        "the cache directory {} cannot be written: name another one with --cache DIR or NAGORI_CACHE=DIR",
        dir.display()
    )
}

/// Shows what `work` says of itself: on a terminal in one line, else as messages.
///
/// The work is that of other programs, for the most part: a signal ends it.
fn with_progress<T>(
    messages: &Messages,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bar = match messages.quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    // The template is a constant.
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template");
    bar.set_style(style);
    let shown = !bar.is_hidden();
    let mut say = |p: Progress| {
        if shown {
            bar.enable_steady_tick(Duration::from_millis(100));
            bar.set_message(p.to_string());
        } else {
            messages.note(&p.to_string());
        }
    };
    let result = messages.signals().outside(|| work(&mut say));
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
