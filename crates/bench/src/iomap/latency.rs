//! `nagori bench iomap --latency`: how late the interrupts of a second VM are while Linux transfers data at its full
//! rate.

use super::run::{self, Guest, Ready};
use super::ways::{Monitors, PLAIN_WAYS};
use crate::parallel::{each, progress};
use anyhow::{bail, Context};
use nagori_session::software::Software;
use nagori_terminal::output::Messages;
use nagori_terminal::tables;
use serde::Serialize;
use std::time::Duration;

/// When the second VM begins, in ticks of a microsecond: Linux has booted and talked to the peer by then.
const BEGINS: Duration = Duration::from_secs(30);

/// A result; the JSON form. Cycles from when an interrupt is due to the first instruction of its handler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `monitor`, or `table`: a full one.
    way: &'static str,
    interrupts: u64,
    min: u64,
    median: u64,
    p99_99: u64,
    max: u64,
    /// Transfers meanwhile, and their mean throughput.
    transfers: usize,
    mbps: f64,
}

/// Measures with the monitor and with a table.
pub fn measure(
    (machine, set, append): (&str, &[String], &str),
    interrupts: u32,
    jobs: Option<u32>,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let monitors = Monitors::with_latency()?;
    let guest = Guest::build(messages)?;
    let peer = run::peer(&guest, messages)?;
    let bar = progress(PLAIN_WAYS.len(), "ways", messages);
    let rows = each(&PLAIN_WAYS, jobs, messages, &bar, |&way| {
        let mut settings = set.to_vec();
        settings.push("harts=2".into());
        let firmware = monitors.plain(way, &mut settings);
        let software = Software {
            firmware: Some(firmware),
            ..Software::default()
        };
        let append = format!(
            "{append} vm.interrupts={interrupts} vm.after={}",
            BEGINS.as_micros()
        );
        let machine = (machine, &*settings);
        let caller = messages.signals();
        let ready = Ready::boot_with(machine, software, (&append, None), &guest, &peer, caller)?;
        let (said, from) = ready.until("VM latency ends", caller)?;
        if from >= BEGINS {
            bail!(
                "Linux took {:.1} s to boot, and the second VM began after {} s",
                from.as_secs_f64(),
                BEGINS.as_secs()
            );
        }
        read(&said, way).with_context(|| format!("way {way}: no result was printed:\n{said}"))
    });
    bar.finish_and_clear();
    rows
}

/// The result in what both VMs have printed.
fn read(text: &str, way: &'static str) -> Option<Row> {
    let line = text.lines().find(|l| l.contains(" interrupts, min "))?;
    let rates = run::rates(text);
    Some(Row {
        way,
        interrupts: run::number(line, "latency: ")?,
        min: run::number(line, "min ")?,
        median: run::number(line, "median ")?,
        p99_99: run::number(line, "p99.99 ")?,
        max: run::number(line, "max ")?,
        transfers: rates.len(),
        mbps: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
    })
}

/// For people.
pub fn text(machine: &str, rows: &[Row]) -> String {
    let mut t = tables::table([
        "way",
        "interrupts",
        "min",
        "median",
        "99.99 %",
        "max",
        "transfers",
        "Mbit/s",
    ]);
    for r in rows {
        let cells = [
            r.way.into(),
            tables::grouped(r.interrupts),
            r.min.to_string(),
            r.median.to_string(),
            r.p99_99.to_string(),
            r.max.to_string(),
            r.transfers.to_string(),
            format!("{:.2}", r.mbps),
        ];
        tables::row(&mut t, cells);
    }
    format!(
        "Timer interrupts of a second VM of {machine} while Linux transfers data: cycles until their handler\n\n{}\n",
        tables::text(&t)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let text = "megabytes=0.5 rate_Mbps=8.0 tx=1\r\n\
                    latency: 1000 interrupts, min 5, median 64, p99.99 223, max 231 cycles\r\n\
                    megabytes=0.5 rate_Mbps=12.0 tx=1\r\n";
        let row = read(text, "table").unwrap();
        assert_eq!((row.interrupts, row.min, row.median), (1000, 5, 64));
        assert_eq!(
            (row.p99_99, row.max, row.transfers, row.mbps),
            (223, 231, 2, 10.0)
        );
        assert_eq!(read("latency: FAILED", "table"), None);
    }
}
