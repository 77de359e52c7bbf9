//! Prints a resolved memory: `cargo run --example show -- ddr4-3200aa [key=value]...`

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "ddr3".to_owned());
    let settings: Vec<String> = args.collect();
    match nagori_memcfg::Memory::load(&name, &settings) {
        Ok(m) => print!("{}", m.show()),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1);
        }
    }
}
