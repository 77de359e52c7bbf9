//! `nagori doctor`: what works on this host, and how to mend what does not.

use clap::Args;
use nagori_image::health;
use nagori_terminal::args::CacheArgs;
use nagori_terminal::output::{self, Exit, SUCCESS};
use serde_json::json;

/// Exit code if the main job does not work.
const FAILURE: u8 = 1;

/// Tell what works on this host, what does not, and how to mend it.
///
/// Looks at the processor, the cache directory, the images in it, the mirror of Debian, and what single commands need
/// besides. Nothing is built. The exit code is 0 if programs can be run.
///
/// Example: nagori doctor; nagori doctor --mirror http://mirror.example/debian
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    cache: CacheArgs,
    /// One JSON object with the findings.
    #[arg(long)]
    json: bool,
}

/// How important it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// Something works slowly, or a single command does not work.
    Less,
    Fails,
}

struct Finding {
    what: &'static str,
    state: State,
    says: String,
    /// How to mend it; empty if it works.
    mend: &'static str,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Works => "works",
            State::Less => "less",
            State::Fails => "fails",
        }
    }
}

/// Runs the command.
pub fn command(a: &DoctorArgs) -> anyhow::Result<Exit> {
    let findings = examine(a)?;
    if a.json {
        let all: Vec<_> = { findings.iter() }
            .map(|f| json!({ "what": f.what, "state": f.state.name(), "says": f.says, "mend": f.mend }))
            .collect();
        output::print_json(&json!({ "findings": all }))?;
    } else {
        let mut text = String::new();
        for f in &findings {
            text += &format!("{:<6} {:<18} {}\n", f.state.name(), f.what, f.says);
            if !f.mend.is_empty() {
                text += &format!("{:<26}-> {}\n", "", f.mend);
            }
        }
        output::print(&text)?;
    }
    if findings.iter().any(|f| f.state == State::Fails) {
        Ok(Exit(FAILURE))
    } else {
        Ok(SUCCESS)
    }
}

fn examine(a: &DoctorArgs) -> anyhow::Result<Vec<Finding>> {
    let options = a.cache.options()?;
    let h = health(&options);
    let mut found = vec![processor()];
    let images = h.image && h.run;
    found.push(match (&h.cache, &h.read_only) {
        (Err(e), _) => Finding {
            what: "cache directory",
            state: State::Fails,
            says: e.to_string(),
            mend: "name another one with --cache DIR or NAGORI_CACHE=DIR",
        },
        (Ok(dir), Some(why)) => Finding {
            what: "cache directory",
            state: if images { State::Less } else { State::Fails },
            says: format!("{} cannot be written: {why}", dir.display()),
            mend:
                "name another one with --cache DIR or NAGORI_CACHE=DIR; what is in it can be used",
        },
        (Ok(dir), None) => Finding {
            what: "cache directory",
            state: State::Works,
            says: dir.display().to_string(),
            mend: "",
        },
    });
    for (what, there) in [("guest image", h.image), ("root file system", h.run)] {
        found.push(Finding {
            what,
            state: State::Works,
            says: if there {
                "cached"
            } else {
                "built at the first run, from the mirror"
            }
            .into(),
            mend: "",
        });
    }
    found.push(match &h.mirror {
        Ok(address) => Finding {
            what: "Debian mirror",
            state: State::Works,
            says: format!("{address}, and its signature is good"),
            mend: "",
        },
        Err(e) => Finding {
            what: "Debian mirror",
            state: if images { State::Less } else { State::Fails },
            says: e.to_string(),
            mend: "give one with --mirror URL or NAGORI_MIRROR=URL, or take over images by `nagori image import FILE`",
        },
    });
    found.push(match &h.compiler {
        Ok(()) => Finding {
            what: "kernel modules",
            state: State::Works,
            says: "--modules off2f and ethoc can be compiled".into(),
            mend: "",
        },
        Err(e) => Finding {
            what: "kernel modules",
            state: State::Less,
            says: format!("--modules off2f and ethoc cannot be compiled: {e}"),
            mend: "needed for OFF2F and for `nagori bench iomap` only",
        },
    });
    found.push(counters());
    Ok(found)
}

fn processor() -> Finding {
    let translates = cfg!(target_arch = "x86_64");
    Finding {
        what: "processor",
        state: if translates {
            State::Works
        } else {
            State::Less
        },
        says: if translates {
            "x86-64: guests run as translated code".into()
        } else {
            format!(
                "{}: guests are interpreted, which is several times slower",
                std::env::consts::ARCH
            )
        },
        mend: if translates {
            ""
        } else {
            "use a host with an x86-64 processor"
        },
    }
}

/// `nagori native` reads counters of the processor.
fn counters() -> Finding {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level = level.ok().and_then(|t| t.trim().parse::<i32>().ok());
    let works = level.is_some_and(|l| l <= 2);
    Finding {
        what: "hardware counters",
        state: if works { State::Works } else { State::Less },
        says: match level {
            Some(l) => format!("kernel.perf_event_paranoid is {l}"),
            None => "this kernel has no performance events".into(),
        },
        mend: if works {
            ""
        } else {
            "needed for `nagori native` only: as root, sysctl kernel.perf_event_paranoid=2"
        },
    }
}
