//! Whether this host can do what is asked: `nagori native --check`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nagori_epoch::Variant;

use crate::counter::What;
use crate::host::System;
use crate::processors::{self, Processor};
use crate::source::perf::{self, check_variant, explain, persist, Layer, Perf, Target};
use crate::source::Unusable;

/// One thing that was looked at.
#[derive(Debug)]
pub struct Finding {
    /// What.
    pub what: String,
    /// What was found.
    pub found: String,
    /// Why emulation is impossible, if it is for this reason.
    pub obstacle: Option<Unusable>,
}

/// What was found. Emulation with counters is possible if there is no obstacle.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
    /// The processor's row, if it has one.
    pub processor: Option<Processor>,
}

impl Report {
    fn say(&mut self, what: &str, found: impl Into<String>) {
        self.findings.push(Finding {
            what: what.into(),
            found: found.into(),
            obstacle: None,
        });
    }

    fn obstacle(&mut self, what: &str, why: Unusable) {
        self.findings.push(Finding {
            what: what.into(),
            found: "missing".into(),
            obstacle: Some(why),
        });
    }

    /// Whether nothing is in the way.
    pub fn usable(&self) -> bool {
        self.findings.iter().all(|f| f.obstacle.is_none())
    }

    /// The first obstacle.
    pub fn into_result(self) -> Result<Processor, Unusable> {
        let obstacle = self.findings.into_iter().find_map(|f| f.obstacle);
        match (obstacle, self.processor) {
            (None, Some(processor)) => Ok(processor),
            (Some(why), _) => Err(why),
            (None, None) => Err(Unusable::Processor("unknown".into())),
        }
    }
}

/// How long the check lets each counter count.
const TRIAL: Duration = Duration::from_millis(20);

/// Looks at the host with the eyes of a variant.
pub fn check(system: &System, layer: &mut dyn Layer, variant: Variant) -> Report {
    let mut report = Report::default();
    let host = system.processor();
    let id = format!(
        "{} family {} model {}",
        host.vendor, host.family, host.model
    );
    report.say("processor", format!("{} ({id})", host.name));
    if host.virtual_machine {
        report.say(
            "hypervisor",
            "this is a virtual machine; many hypervisors pass no counters on",
        );
    }
    match system.core_pmu() {
        Some(pmu) => report.say("counters of the cores", format!("device `{pmu}`")),
        None => {
            let why = if system.pmus().is_empty() {
                "the kernel shows no devices of perf_event at all (a container?)"
            } else if host.virtual_machine {
                "the kernel has no device for them, because the hypervisor passes none on"
            } else {
                "the kernel has no device for them"
            };
            let event = format!("devices of perf_event: {}", system.pmus().join(", "));
            report.obstacle(
                "counters of the cores",
                Unusable::Counter {
                    event,
                    why: why.into(),
                    error: None,
                },
            );
        }
    }
    match system.paranoid() {
        Some(level) => report.say("perf_event_paranoid", permitted(level)),
        None => {
            let why = "the kernel has no perf_event".to_owned();
            report.obstacle(
                "perf_event_paranoid",
                Unusable::Counter {
                    event: "perf_event".into(),
                    why,
                    error: None,
                },
            );
        }
    }
    let Some(processor) = processors::find(&host) else {
        report.obstacle("events", Unusable::Processor(id));
        return report;
    };
    let verified = if processor.verified {
        "verified on silicon"
    } else {
        "not verified on silicon"
    };
    report.say("events", format!("table of {}, {verified}", processor.name));
    for missing in &processor.missing {
        report.say("cannot count", missing.clone());
    }
    if let Err(why) = check_variant(variant, &processor) {
        report.obstacle("formulas", why);
    }
    for count in perf::needed(variant, &processor) {
        let Some(event) = processor.events.get(count) else {
            continue;
        };
        for code in [Some(event.code), event.less].into_iter().flatten() {
            let config = processor.config(code);
            let what = format!("{count}: {} ({config:#x})", event.name);
            match try_counter(layer, &event.name, &What::Core(config)) {
                Ok(found) => report.say(&what, found),
                Err(why) => report.obstacle(&what, why),
            }
        }
    }
    report.processor = Some(processor);
    report
}

/// Opens all counters that are common to all threads; for the second part of a check.
///
/// # Errors
/// The first counter that cannot be had.
pub fn check_uncore(
    system: &System,
    layer: Box<dyn Layer>,
    processor: Processor,
    variant: Variant,
) -> Result<(), Unusable> {
    Perf::new(layer, system, processor, variant).map(|_| ())
}

fn permitted(level: i32) -> String {
    let what = match level {
        ..=-1 => "everything is allowed to everybody",
        0 => "counters of threads and of memory controllers",
        1 | 2 => "counters of threads; those of memory controllers need root or CAP_PERFMON",
        _ => "nothing without root or CAP_PERFMON",
    };
    format!("{level}: {what}")
}

/// Lets a counter count this thread for a moment.
fn try_counter(layer: &mut dyn Layer, event: &str, what: &What) -> Result<String, Unusable> {
    let target = Target::Myself;
    let mut handle = persist(|| layer.open(what, target)).map_err(|e| explain(event, e, target))?;
    let started = Instant::now();
    let mut x = 1u64;
    while started.elapsed() < TRIAL {
        for _ in 0..1000 {
            x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 29));
        }
    }
    let r = persist(|| handle.read()).map_err(|e| explain(event, e, target))?;
    if r.enabled > 0 && r.running == 0 {
        let why = "it was accepted, but never got onto the hardware: another user holds all counters, or the \
            hypervisor only pretends to have them";
        return Err(Unusable::Counter {
            event: event.into(),
            why: why.into(),
            error: None,
        });
    }
    Ok(format!(
        "counted {} in {} us of {} us",
        r.value,
        r.running / 1000,
        r.enabled / 1000
    ))
}
