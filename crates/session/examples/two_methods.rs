//! Boots Debian, runs a program under two delay methods, and prints both run times:
//! `cargo run --release -p nagori-session --example two_methods -- ./program ARGUMENT...`

use nagori_session::program::Program;
use nagori_session::{Error, Method, Placement, Session};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        eprintln!("usage: two_methods PROGRAM [ARGUMENT...]");
        std::process::exit(2);
    };
    let program = Program::new(name).args(words);

    // Programs have all of their memory in NVMM. The boot is kept, so only the first use waits for it.
    let session = Session::builder("vc707")
        .placement(Placement::Nvmm)
        .boot()?;
    for method in [Method::Dram, Method::Extended] {
        // Each run has a machine of its own, which continues where the boot ended.
        let run = session.run(program.clone().method(method))?;
        print!("{}", String::from_utf8_lossy(&run.output.stdout));
        if let Some(text) = run.why.message() {
            eprintln!("{text}");
        }
        println!("{method}: {} of guest time", run.guest_time());
    }
    Ok(())
}
