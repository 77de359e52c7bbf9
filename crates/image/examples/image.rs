//! Builds the guest image and prints where it is: `cargo run --example image [-- --refresh]`.

fn main() -> Result<(), nagori_image::Error> {
    let mut options = nagori_image::Options::from_env()?;
    options.refresh = std::env::args().any(|a| a == "--refresh");
    let image = nagori_image::build(&options, &mut |p| eprintln!("{p}"))?;
    println!("{}", image.kernel.display());
    println!("{}", image.firmware.display());
    println!("{}", image.initrd.display());
    println!("{}", image.manifest.fast_boot_args);
    Ok(())
}
