//! `nagori bench io`: throughput of a guest's devices.

use super::child;
use super::speed::host::child_time;
use anyhow::{bail, Context};
use clap::Args;
use nagori_terminal::args::CacheArgs;
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::sample::Sample;
use nagori_terminal::tables::{row, table, text};
use serde_json::{json, Value};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

const EXAMPLES: &str = "\
Examples:
  nagori bench io
  nagori bench io --only disk --mib 512
  nagori bench io --runs 5 --json

Transfers in functional mode, by Debian's programs in the guest, from and to the host's page cache. Processor time is
that of the `nagori` process (the guest's kernel, above all), without the mean of what the same run takes that
transfers nothing. With --runs the rates are those of the mean times, and intervals are 95 % confidence
intervals of the means (Student's t).

Time:
  About 15 s of processor time for each run of all transfers.";

/// Measure the throughput of disks, shared folders and the network.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct IoArgs {
    /// MiB of a transfer.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = count::<u32>(1..=4096))]
    pub mib: u32,
    /// Only transfers whose names contain this.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Runs of each transfer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..=1000))]
    pub runs: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// A list of rows.
    #[arg(long)]
    pub json: bool,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Nobody,
    /// Writes at once.
    Sends,
    /// Reads to the end.
    Takes,
}

/// A transfer: name, peer, what the guest runs. MIB and PORT stand for numbers.
const TRANSFERS: &[(&str, Peer, &str)] = &[
    (
        "disk, write and fsync",
        Peer::Nobody,
        "dd if=/dev/zero of=/dev/vdb bs=1M count=MIB conv=fsync,notrunc",
    ),
    (
        "disk, read",
        Peer::Nobody,
        "dd if=/dev/vdb of=/dev/null bs=1M count=MIB",
    ),
    (
        "disk, read past the guest's cache",
        Peer::Nobody,
        "dd if=/dev/vdb of=/dev/null bs=1M count=MIB iflag=direct",
    ),
    (
        "share, write",
        Peer::Nobody,
        "dd if=/dev/zero of=/mnt/io/out bs=512000 count=$((MIB * 1048576 / 512000))",
    ),
    (
        "share, read",
        Peer::Nobody,
        "dd if=/mnt/io/in of=/dev/null bs=512000",
    ),
    (
        "network, guest fetches",
        Peer::Sends,
        "cat </dev/tcp/10.0.2.2/PORT >/dev/null",
    ),
    (
        "network, guest sends",
        Peer::Takes,
        "dd if=/dev/zero bs=1M count=MIB >/dev/tcp/10.0.2.2/PORT",
    ),
];

/// The costs of a run.
#[derive(Debug, Clone, Copy)]
struct Took {
    cpu: f64,
    guest: f64,
}

/// Runs the command.
pub fn command(a: &IoArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let wanted = |name: &str| a.only.as_ref().is_none_or(|o| name.contains(o.as_str()));
    let chosen: Vec<_> = TRANSFERS.iter().filter(|t| wanted(t.0)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TRANSFERS.iter().map(|t| t.0).collect();
        bail!(
            "--only: no transfer has that in its name; there are: {}",
            names.join("; ")
        );
    }
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    for name in ["disk", "in"] {
        fill(&dir.path().join(name), a.mib)?;
    }
    // Boots if necessary, and measures what is subtracted.
    once(a, dir.path(), Peer::Nobody, "true")?;
    let base = repeated(a, dir.path(), Peer::Nobody, "true", [0.0; 2])?;
    let base = base.map(|s| s.mean);
    let mut rows = Vec::new();
    for (name, peer, script) in chosen {
        rows.push((*name, repeated(a, dir.path(), *peer, script, base)?));
        messages.note(&format!("{name}: done"));
    }
    let rate = |seconds: f64| f64::from(a.mib) / seconds.max(1e-3);
    if a.json {
        let all: Vec<Value> = rows
            .iter()
            .map(|(name, [cpu, guest])| {
                json!({
                    "what": name,
                    "mib": a.mib,
                    "cpu_seconds": cpu.mean,
                    "guest_seconds": guest.mean,
                    "cpu_seconds_sample": cpu,
                    "guest_seconds_sample": guest,
                })
            })
            .collect();
        output::print_json(&json!(all))?;
        return Ok(SUCCESS);
    }
    let mut t = table([
        "transfer",
        "MiB",
        "MiB per CPU s",
        "CPU s",
        "MiB per guest s",
        "guest s",
    ]);
    for (name, samples) in rows {
        let cells = samples
            .iter()
            .flat_map(|s| [format!("{:.0}", rate(s.mean)), s.shown(3)]);
        let start = [name.to_string(), a.mib.to_string()];
        row(&mut t, start.into_iter().chain(cells));
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}

/// A file without holes.
fn fill(path: &Path, mib: u32) -> anyhow::Result<()> {
    let wrong = || format!("cannot write {}", path.display());
    let block: Vec<u8> = (0..1u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut file = File::create(path).with_context(wrong)?;
    for _ in 0..mib {
        file.write_all(&block).with_context(wrong)?;
    }
    Ok(())
}

fn serve(mut s: TcpStream, peer: Peer, mib: u32) -> std::io::Result<u64> {
    match peer {
        Peer::Nobody => Ok(0),
        Peer::Takes => std::io::copy(&mut s, &mut std::io::sink()),
        Peer::Sends => {
            let mut bytes = std::io::repeat(0x5a).take(u64::from(mib) << 20);
            std::io::copy(&mut bytes, &mut s)
        }
    }
}

/// Processor and guest time of the runs of a transfer, without what does not belong to the
/// transfer.
fn repeated(
    a: &IoArgs,
    dir: &Path,
    peer: Peer,
    script: &str,
    base: [f64; 2],
) -> anyhow::Result<[Sample; 2]> {
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..a.runs {
        let took = once(a, dir, peer, script)?;
        times[0].push(took.cpu - base[0]);
        times[1].push(took.guest - base[1]);
    }
    let sample = |v: &[f64]| Sample::of(v).context("a run without a time");
    Ok([sample(&times[0])?, sample(&times[1])?])
}

fn once(a: &IoArgs, dir: &Path, peer: Peer, script: &str) -> anyhow::Result<Took> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the loopback")?;
    let port = listener.local_addr()?.port();
    if peer != Peer::Nobody {
        let mib = a.mib;
        // Ends with the connection, or with this command.
        thread::spawn(move || listener.accept().and_then(|(s, _)| serve(s, peer, mib)));
    }
    let script = script
        .replace("MIB", &a.mib.to_string())
        .replace("PORT", &port.to_string());
    let disk = dir.join("disk").display().to_string();
    let share = format!("{}:io,rw", dir.display());
    let options = ["--functional", "--rootfs", "run", "--net", "user"];
    let options = [&options[..], &["--disk", &disk, "--share", &share]].concat();
    let quiet = format!("{{ {script}; }} 2>&1 >/dev/null");
    let before = child_time()?;
    let v = child::run(&a.cache, &options, &["bash", "-c", &quiet])
        .with_context(|| format!("`{script}` failed"))?;
    let cpu = child_time()? - before;
    let ps = v.pointer("/summary/guest_time_ps").and_then(Value::as_f64);
    Ok(Took {
        cpu,
        guest: ps.context("`nagori run` told no time")? / 1e12,
    })
}
