//! Builds a root file system and tells where it is:
//! `cargo run --example rootfs [-- [run|system] [PACKAGE...]]`.

use nagori_image::{Base, Options, RootfsSpec};

fn main() -> Result<(), nagori_image::Error> {
    let mut arguments = std::env::args().skip(1);
    let base = match arguments.next().as_deref() {
        Some("system") => Base::System,
        _ => Base::Run,
    };
    let mut spec = RootfsSpec::new(base);
    spec.packages = arguments.collect();
    let image = nagori_image::rootfs(&Options::from_env()?, &spec, None, &mut |p| {
        eprintln!("{p}")
    })?;
    println!("{}", image.path.display());
    Ok(())
}
