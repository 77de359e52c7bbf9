//! Root file systems: listed and shown.

use nagori_image::{Base, RootFs};
use nagori_session::rtc;
use nagori_terminal::output;
use serde_json::json;
use std::fmt::Write as _;

pub fn print(image: &RootFs, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return output::print_json(&json!({ "rootfs": image.path, "manifest": image.manifest }));
    }
    output::print(&format!("{}\n", image.path.display()))
}

/// A line for each.
pub fn list(images: &[RootFs], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let all: Vec<_> = images
            .iter()
            .map(|i| json!({ "rootfs": i.path, "manifest": i.manifest }))
            .collect();
        return output::print_json(&json!(all));
    }
    let mut text = String::new();
    for i in images {
        let m = &i.manifest;
        let _ = writeln!(
            text,
            "{}  {:<6}  {:>4} packages  {:>5.0} MB  {}",
            &m.key[..m.key.len().min(12)],
            base(m.spec.base),
            m.packages.len(),
            m.content as f64 / 1e6,
            m.spec.packages.join(",")
        );
    }
    output::print(&text)
}

/// Its contents.
pub fn show(image: &RootFs, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print(image, true);
    }
    let m = &image.manifest;
    let mut text = format!(
        "key       {}\nfile      {}\nsize      {} bytes, {} of them files\nfree      {} MiB\n\
         sha256    {}\nbase      {}\nsuite     {}\nclock     {}\nbuilt by  {}\nprograms  {}\n",
        m.key,
        image.path.display(),
        m.image.size,
        m.content,
        m.spec.free_mib,
        m.image.sha256,
        base(m.spec.base),
        m.suite,
        rtc::text(m.date),
        m.builder,
        m.programs.join(" ")
    );
    if !m.installed.is_empty() {
        let _ = writeln!(text, "installed {}", m.installed.join(" "));
    }
    for p in &m.provided {
        let _ = writeln!(text, "provided  {} {}", p.file, p.sha256);
    }
    text.push('\n');
    for p in &m.packages {
        let _ = writeln!(text, "{:<32} {:<32} {}", p.name, p.version, p.sha256);
    }
    output::print(&text)
}

fn base(base: Base) -> &'static str {
    match base {
        Base::Run => "run",
        Base::System => "system",
    }
}
