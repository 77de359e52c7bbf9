//! `nagori image`: the guest image.

use crate::args::{CacheArgs, ImageCommand};
use crate::output::{self, Exit, Messages, SUCCESS};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use nagori_image::{GuestImage, Options};
use serde_json::json;
use std::time::Duration;

/// Runs the command.
pub fn command(command: &ImageCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        ImageCommand::Build {
            refresh,
            mirror,
            cache,
            json,
        } => {
            let mut options = options(cache)?;
            options.refresh = *refresh;
            if mirror.is_some() {
                options.mirror = mirror.clone();
            }
            let image = build(&options, messages)?;
            print(&image, *json)?;
        }
        ImageCommand::Path { cache, json } => {
            let image = build(&options(cache)?, messages)?;
            print(&image, *json)?;
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

/// The cached image, or a new one, with its progress on stderr.
pub fn build(options: &Options, messages: &Messages) -> anyhow::Result<GuestImage> {
    let bar = match messages.quiet() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    // The template is a constant.
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template");
    bar.set_style(style);
    let shown = !bar.is_hidden();
    let image = nagori_image::build(options, &mut |p| {
        if shown {
            bar.enable_steady_tick(Duration::from_millis(100));
            bar.set_message(p.to_string());
        } else {
            messages.note(&p.to_string());
        }
    });
    bar.finish_and_clear();
    image.context("the guest image cannot be built (`nagori boot` takes --kernel, --firmware and --initrd instead)")
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
