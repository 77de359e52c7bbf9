//! `nagori bench iomap --loops`: what uses of other devices cost, and which share of the time they take at a rate.

use super::run;
use super::ways::{Monitors, PLAIN_WAYS};
use crate::parallel::{each, progress};
use anyhow::Context;
use nagori_session::software::{KernelFile, Part, Software};
use nagori_terminal::output::Messages;
use nagori_terminal::tables;
use serde::Serialize;

/// Operations in 100,000 cycles.
const RATES: [u32; 8] = [10, 20, 50, 100, 200, 500, 1000, 2000];
/// How many are measured.
const OPERATIONS: u32 = 10_000;
/// The first slot holds the GPIO controller, the second one the SPI controller.
const DEVICES: &str = "devices=[\"gpio\", \"spi\"]";

/// What is used in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Device {
    /// A register of the UART is written.
    Uart,
    /// A pin is toggled.
    Gpio,
    /// A byte is read from a flash memory.
    Flash,
}

impl Device {
    const ALL: [Device; 3] = [Device::Uart, Device::Gpio, Device::Flash];

    /// What the program is told.
    fn options(self) -> &'static str {
        match self {
            Device::Uart => "vm.io=0x50001007",
            Device::Gpio => "vm.io=0x5000200c vm.width=4",
            Device::Flash => "vm.io=0x50003000 vm.flash=1",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Device::Uart => "UART, register",
            Device::Gpio => "GPIO, pin",
            Device::Flash => "SPI flash, byte",
        }
    }
}

/// A result; the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    device: Device,
    /// `monitor`, or `table`: a full one.
    way: &'static str,
    cycles_per_operation: f64,
    /// In 100,000 cycles, as of all rates.
    wanted: u32,
    done: u32,
    /// The share of the time that operations take.
    share: f64,
}

/// Measures all of them on a machine.
pub fn measure(
    machine: &str,
    set: &[String],
    jobs: Option<u32>,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let (monitors, program) = Monitors::with_loops()?;
    let mut points = Vec::new();
    for device in Device::ALL {
        for way in PLAIN_WAYS {
            points.extend(RATES.map(|rate| (device, way, rate)));
        }
    }
    let bar = progress(points.len(), "loops", messages);
    let rows = each(&points, jobs, messages, &bar, |&(device, way, rate)| {
        let mut settings = set.to_vec();
        settings.push(DEVICES.into());
        let firmware = monitors.plain(way, &mut settings);
        let software = Software {
            firmware: Some(firmware),
            kernel: Some(KernelFile {
                file: program.clone(),
                at: None,
            }),
            initrd: Some(Part::None),
            append: Some(format!(
                "{} vm.rate={rate} vm.accesses={OPERATIONS}",
                device.options()
            )),
            ..Software::default()
        };
        let said = run::alone(
            (machine, &settings),
            &software,
            " %\r\n",
            messages.signals(),
        )?;
        let row = read(&said, device, way, rate);
        row.with_context(|| format!("{}, {way}: it printed no result:\n{said}", device.name()))
    });
    bar.finish_and_clear();
    rows
}

/// The result in what the program has printed.
fn read(text: &str, device: Device, way: &'static str, wanted: u32) -> Option<Row> {
    Some(Row {
        device,
        way,
        cycles_per_operation: run::number(text, " accesses of ")?,
        wanted,
        done: run::number(text, " and done ")?,
        share: run::number::<f64>(text, "share of the time ")? / 100.0,
    })
}

/// For people.
pub fn text(machine: &str, rows: &[Row]) -> String {
    let mut t = tables::table([
        "device",
        "way",
        "cycles each",
        "wanted in 100,000 cycles",
        "done",
        "share of the time",
    ]);
    for r in rows {
        let cells = [
            r.device.name().into(),
            r.way.into(),
            format!("{:.1}", r.cycles_per_operation),
            r.wanted.to_string(),
            r.done.to_string(),
            format!("{:.1} %", 100.0 * r.share),
        ];
        tables::row(&mut t, cells);
    }
    format!(
        "Devices of {machine} used in a loop, at other addresses than they have\n\n{}\n",
        tables::text(&t)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let text = "vmm: VM ioloop\r\n\
                    ioloop: 10000 accesses of 53.4 cycles, polls each 3.0, wanted 100 and done 99 in 100000 \
                    cycles, share of the time 5.3 %\r\n";
        let row = read(text, Device::Flash, "table", 100).unwrap();
        assert_eq!((row.cycles_per_operation, row.done), (53.4, 99));
        assert!((row.share - 0.053).abs() < 1e-9);
        assert_eq!(read("ioloop: FAILED", Device::Gpio, "table", 1), None);
    }
}
