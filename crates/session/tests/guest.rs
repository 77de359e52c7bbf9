//! Jobs and the loop around them, with programs of a few instructions.

use nagori_config::{Library, Machine as Description};
use nagori_machine::{Machine, Stop};
use nagori_platform::loader::{EntryState, Plan, Role, Segment};
use nagori_session::drive::{drive, BoxedService, Course, Restart, Service, Terminal, Wishes};
use nagori_session::guest::{measure, run, RunServices};
use nagori_session::snapshot::{restore, Saving};
use nagori_session::{Caller, Capture, End, Error, Job, Result};
use std::sync::Mutex;

/// First address of memory.
const BASE: u64 = 0x8000_0000;
/// `j .`
const STAY: u32 = 0x0000_006f;
/// Writes "x" to the UART, then switches the machine off.
const X: [u32; 8] = [
    0x1000_02b7, // lui t0, 0x10000
    0x0780_0313, // li t1, 'x'
    0x0062_8023, // sb t1, 0(t0)
    0x0010_02b7, // lui t0, 0x100
    0x0000_5337, // lui t1, 5
    0x5553_0313, // addi t1, t1, 0x555
    0x0062_a023, // sw t1, 0(t0)
    STAY,
];

fn small() -> Description {
    Description::load(&Library::default(), "small", &["harts=1".into()]).unwrap()
}

fn plan(words: &[u32]) -> Plan {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    Plan {
        segments: vec![Segment {
            role: Role::Program,
            addr: BASE,
            memory_size: bytes.len() as u64,
            bytes,
        }],
        entry: EntryState {
            pc: BASE,
            a1: 0,
            a2: 0,
        },
        warnings: Vec::new(),
    }
}

/// A machine with a program, and the software that a restart loads.
fn machine(words: &[u32]) -> (Machine, Job) {
    let mut job = Job::unattended(plan(words));
    let machine = job.machine(&small()).unwrap();
    (machine, job)
}

#[test]
fn a_job_is_measured_with_its_console() {
    let mut port = Capture::new(|_: &str| ());
    let (end, report) = measure(&small(), &Job::unattended(plan(&X)), &mut port, &()).unwrap();
    assert_eq!(end, End::Off(0));
    assert_eq!(port.lines(), ["x"]);
    assert_eq!(report.instructions, 7);
}

#[test]
fn limits_and_guests_that_wait_for_nothing() {
    let end = |words: &[u32], max_instructions| {
        let job = Job {
            max_instructions,
            ..Job::unattended(plan(words))
        };
        let mut port = Capture::new(|_: &str| ());
        measure(&small(), &job, &mut port, &()).unwrap()
    };
    let (limit, report) = end(&[STAY], Some(1234));
    assert_eq!((limit, report.instructions), (End::Limit, 1234));
    let wfi = 0x1050_0073;
    assert_eq!(end(&[wfi, STAY], None).0, End::Stuck);
}

/// A caller that wants an end, and keeps the messages it receives.
#[derive(Default)]
struct Ends {
    told: Mutex<Vec<String>>,
}

impl Caller for Ends {
    fn note(&self, text: &str) {
        self.told.lock().unwrap().push(text.into());
    }
    fn interrupted(&self) -> Option<u8> {
        Some(2)
    }
}

#[test]
fn a_caller_ends_a_run() {
    let mut port = Capture::new(|_: &str| ());
    let job = Job::unattended(plan(&[STAY]));
    let e = measure(&small(), &job, &mut port, &Ends::default()).unwrap_err();
    assert_eq!(e.interrupted(), Some(2));
    // Whoever drives a machine is told by the end.
    let (mut m, job) = machine(&[STAY]);
    let end = drive(&mut m, &mut [], &Ends::default(), job.course()).unwrap();
    assert_eq!(end, End::Signal(2));
}

#[derive(Debug, thiserror::Error)]
#[error("the service has had enough")]
struct Enough;

/// Counts its calls; fails, holds or restarts when told to.
#[derive(Default)]
struct Counts {
    before: u32,
    after: u32,
    finished: u32,
    hold: u32,
    restarts: u32,
    fails: bool,
}

impl Service for Counts {
    fn before(&mut self, _: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        self.before += 1;
        wishes.slice_of(100);
        if self.before <= self.hold {
            wishes.hold = true;
            wishes.wake_within(std::time::Duration::ZERO);
        }
        Ok(())
    }

    fn after(&mut self, _: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        self.after += 1;
        if self.fails {
            return Err(Error::service(Enough));
        }
        if matches!(stop, Stop::PowerOff(_)) && self.restarts > 0 {
            self.restarts -= 1;
            wishes.restart = Some(Restart::Reset);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Machine) -> Result<()> {
        self.finished += 1;
        if self.fails {
            Err(Error::service(Enough))
        } else {
            Ok(())
        }
    }
}

#[test]
fn services_hold_restart_and_fail() {
    let (mut m, job) = machine(&X);
    let mut counts = Counts {
        hold: 3,
        restarts: 2,
        ..Counts::default()
    };
    let mut services: [BoxedService<'_>; 1] = [Box::new(&mut counts)];
    let end = drive(&mut m, &mut services, &(), job.course()).unwrap();
    drop(services);
    assert_eq!(end, End::Off(0));
    assert_eq!(m.console_output(), b"xxx", "once, and twice anew");
    assert_eq!(counts.before, counts.after + 3, "held three times");

    let (mut m, job) = machine(&[STAY]);
    let mut counts = Counts {
        fails: true,
        ..Counts::default()
    };
    let mut port = Capture::new(|_: &str| ());
    let others = RunServices {
        holders: vec![Box::new(&mut counts)],
        devices: Vec::new(),
    };
    let terminal = Terminal::new(&mut port, job.console(), None, None);
    let (end, failed) = run(&mut m, &job, terminal, others, &());
    let e = end.unwrap_err();
    assert!(matches!(&e, Error::Service(s) if s.is::<Enough>()), "{e:?}");
    assert_eq!(failed.len(), 1, "it is told of the end all the same");
    assert_eq!((counts.after, counts.finished), (1, 1));
}

#[test]
fn without_software_there_is_no_restart() {
    let (mut m, _) = machine(&X);
    m.set_software(None);
    let mut counts = Counts {
        restarts: 1,
        ..Counts::default()
    };
    let mut services: [BoxedService<'_>; 1] = [Box::new(&mut counts)];
    let end = drive(&mut m, &mut services, &(), Course::default()).unwrap();
    assert_eq!(end, End::Restart);
}

#[test]
fn a_run_goes_on_from_where_it_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved");
    // lui t2, 0x1000; addi t2, t2, -1; bnez t2, -4
    let counts: [u32; 3] = [0x0100_03b7, 0xfff3_8393, 0xfe03_9ee3];
    let (mut m, job) = machine(&[&counts[..], &X].concat());
    let job = Job {
        saving: Some(Saving {
            path: path.clone(),
            at: Some(500),
            exit: true,
        }),
        ..job
    };
    let none = || RunServices {
        holders: Vec::new(),
        devices: Vec::new(),
    };
    let mut port = Capture::new(|_: &str| ());
    let terminal = Terminal::new(&mut port, job.console(), None, None);
    let (end, failed) = run(&mut m, &job, terminal, none(), &());
    assert_eq!((end.unwrap(), failed.len()), (End::Saved, 0));
    // After the turn that contained the instruction.
    assert!((500..8_000_000).contains(&m.instructions()));
    assert_eq!(port.lines(), [""; 0], "it still counts");

    let mut m = restore(&path, &[]).unwrap();
    let rest = Job::unattended(Plan::default());
    let mut port = Capture::new(|_: &str| ());
    let terminal = Terminal::new(&mut port, rest.console(), None, None);
    let (end, _) = run(&mut m, &rest, terminal, none(), &());
    assert_eq!(end.unwrap(), End::Off(0));
    assert_eq!(m.instructions(), (1 << 25) + 8, "as without the snapshot");
    assert_eq!(port.lines(), ["x"]);
    let e = restore(&dir.path().join("none"), &[]).err().unwrap();
    assert!(e.to_string().contains("cannot use the snapshot"), "{e}");
}
