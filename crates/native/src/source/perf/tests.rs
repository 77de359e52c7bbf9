//! A layer that fails in each way that perf_event_open and read can.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use rustix::io::Errno;

use super::*;
use crate::check;
use crate::processors;

/// What the layer does, in order: answers of opening, answers of reading.
#[derive(Default)]
struct Script {
    opens: VecDeque<Errno>,
    reads: VecDeque<Result<Reading, Errno>>,
    opened: Vec<(What, Target)>,
    rate: u64,
    now: u64,
    running_permille: u64,
}

#[derive(Clone)]
struct Fake(Rc<RefCell<Script>>);

impl Fake {
    fn new() -> Fake {
        Fake(Rc::new(RefCell::new(Script {
            rate: 10,
            running_permille: 1000,
            ..Script::default()
        })))
    }
    fn fails(open: &[Errno]) -> Fake {
        let fake = Fake::new();
        fake.0.borrow_mut().opens = open.iter().copied().collect();
        fake
    }
}

impl Layer for Fake {
    fn open(&mut self, what: &What, target: Target) -> io::Result<Box<dyn Handle>> {
        let mut script = self.0.borrow_mut();
        script.opened.push((*what, target));
        match script.opens.pop_front() {
            Some(e) => Err(e.into()),
            None => Ok(Box::new(self.clone())),
        }
    }
}

impl Handle for Fake {
    fn read(&mut self) -> io::Result<Reading> {
        let mut s = self.0.borrow_mut();
        if let Some(answer) = s.reads.pop_front() {
            return answer.map_err(Into::into);
        }
        s.now += 1000;
        let running = s.now * s.running_permille / 1000;
        Ok(Reading {
            value: s.rate * running,
            enabled: s.now,
            running,
        })
    }
}

fn skylake() -> Processor {
    let host = crate::host::Processor {
        vendor: "GenuineIntel".into(),
        family: 6,
        model: 85,
        ..Default::default()
    };
    processors::find(&host).unwrap()
}

/// A system with two memory controllers on two sockets.
fn system() -> (tempfile::TempDir, System) {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for n in ["uncore_imc_0", "uncore_imc_1", "uncore_imc_free_running_0"] {
        let put =
            |file: &str, text: &str| put(&format!("sys/bus/event_source/devices/{n}/{file}"), text);
        put("cpumask", "0,18\n");
        put("type", if n.ends_with('1') { "22\n" } else { "21\n" });
        put("events/cas_count_read", "event=0x04,umask=0x03\n");
        put("events/cas_count_write", "event=0x04,umask=0x0c\n");
        put("format/event", "config:0-7\n");
        put("format/umask", "config:8-15\n");
    }
    put("sys/bus/event_source/devices/cpu/type", "4\n");
    put("proc/sys/kernel/perf_event_paranoid", "2\n");
    put(
        "proc/cpuinfo",
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nmodel name : Xeon\nflags : fpu\n",
    );
    let system = System::below(dir.path());
    (dir, system)
}

fn attach(fake: &Fake, variant: Variant) -> Result<Perf, Unusable> {
    let (_dir, system) = system();
    let mut perf = Perf::new(Box::new(fake.clone()), &system, skylake(), variant)?;
    perf.attach(Tid(5), Clocks::default())?;
    Ok(perf)
}

#[test]
fn every_error_of_the_call_is_told_with_its_meaning() {
    for (errno, words) in [
        (Errno::NOENT, "no such counter here"),
        (Errno::NODEV, "no such counter here"),
        (Errno::OPNOTSUPP, "no such counter here"),
        (Errno::ACCESS, "perf_event_paranoid has to be 2"),
        (Errno::PERM, "perf_event_paranoid has to be 2"),
        (Errno::MFILE, "ulimit -n"),
        (Errno::BUSY, "holds the counter"),
        (Errno::NOSPC, "fewer counters"),
        (Errno::INVAL, "does not understand the event"),
        (Errno::TOOBIG, "older than the form"),
        (Errno::SRCH, "the thread is gone"),
        (Errno::NOSYS, "no perf_event"),
        (Errno::IO, "the system call failed"),
    ] {
        let e = attach(&Fake::fails(&[errno]), Variant::Quartz)
            .err()
            .expect("an error")
            .to_string();
        assert!(
            e.contains(words) && e.contains("MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM"),
            "{errno:?}: {e}"
        );
    }
    let e = attach(&Fake::fails(&[Errno::ACCESS]), Variant::Koshiba)
        .err()
        .unwrap()
        .to_string();
    assert!(
        e.contains("memory controllers count for everybody") && e.contains("uncore_imc_0"),
        "{e}"
    );
    // What perf-event2 makes of E2BIG.
    let e = explain(
        "x",
        io::Error::new(io::ErrorKind::Unsupported, "size"),
        Target::Myself,
    )
    .to_string();
    assert!(e.contains("older than the form"), "{e}");
}

#[test]
fn an_interrupted_call_is_repeated_but_not_for_ever() {
    assert!(attach(&Fake::fails(&[Errno::INTR; 3]), Variant::Misses).is_ok());
    let e = attach(&Fake::fails(&[Errno::INTR; 100]), Variant::Misses)
        .err()
        .unwrap()
        .to_string();
    assert!(e.contains("interrupted again and again"), "{e}");
}

#[test]
fn an_error_of_reading_ends_the_run() {
    let fake = Fake::new();
    let mut perf = attach(&fake, Variant::Misses).unwrap();
    fake.0.borrow_mut().reads = [Err(Errno::INTR), Err(Errno::IO)].into();
    let e = perf
        .read(Tid(5), Clocks::default())
        .unwrap_err()
        .to_string();
    assert!(e.contains("llc_misses"), "{e}");
}

#[test]
fn counts_are_differences_and_scaled() {
    let fake = Fake::new();
    let mut perf = attach(&fake, Variant::Misses).unwrap();
    let c = perf.read(Tid(5), Clocks::default()).unwrap().unwrap();
    assert_eq!(c.llc_misses, 10_000);
    fake.0.borrow_mut().reads = [Ok(Reading {
        value: 20_500,
        enabled: 3000,
        running: 2500,
    })]
    .into();
    let c = perf.read(Tid(5), Clocks::default()).unwrap().unwrap();
    assert_eq!(c.llc_misses, 1000, "half of the time: 500 stand for 1000");
}

#[test]
fn a_counter_without_running_time_counts_later_and_then_is_an_error() {
    let fake = Fake::new();
    let mut perf = attach(&fake, Variant::Misses).unwrap();
    let at = |enabled| {
        Ok(Reading {
            value: 10_000,
            enabled,
            running: 1000,
        })
    };
    fake.0.borrow_mut().reads = [at(10_001_000), at(90_001_000), at(200_000_000)].into();
    assert_eq!(perf.read(Tid(5), Clocks::default()).unwrap(), None);
    assert_eq!(perf.read(Tid(5), Clocks::default()).unwrap(), None);
    let e = perf
        .read(Tid(5), Clocks::default())
        .unwrap_err()
        .to_string();
    assert!(e.contains("more counters are in use"), "{e}");
}

#[test]
fn controllers_of_all_sockets_count_for_all_threads() {
    let fake = Fake::new();
    let mut perf = attach(&fake, Variant::Koshiba).unwrap();
    let opened = fake.0.borrow().opened.clone();
    let devices = opened.iter().filter(|o| matches!(o.0, What::Device(..)));
    assert_eq!(
        devices.count(),
        8,
        "two controllers, two sockets, reads and writes: {opened:?}"
    );
    // Type, event and unit mask are those that the files of the second controller say.
    assert!(
        opened.contains(&(What::Device(22, [0x0c04, 0, 0]), Target::Cpu(18))),
        "{opened:?}"
    );
    assert!(opened.contains(&(What::Core(0x0500_05a3), Target::Thread(Tid(5)))));
    // Another thread's reading does not take away what the first has not read yet.
    perf.attach(Tid(6), Clocks::default()).unwrap();
    let first = perf.read(Tid(6), Clocks::default()).unwrap().unwrap();
    let second = perf.read(Tid(5), Clocks::default()).unwrap().unwrap();
    assert!(second.writebacks > first.writebacks && first.writebacks > 0);
}

#[test]
fn a_kernel_without_controllers_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::below(dir.path());
    let e = Perf::new(Box::new(Fake::new()), &system, skylake(), Variant::Koshiba)
        .err()
        .unwrap()
        .to_string();
    assert!(
        e.contains("uncore_imc_*") && e.contains("no such device"),
        "{e}"
    );
}

#[test]
fn a_variant_that_the_processor_cannot_serve_names_one_that_it_can() {
    let host = crate::host::Processor {
        vendor: "ARM".into(),
        family: 8,
        model: 0xd0c,
        ..Default::default()
    };
    let n1 = processors::find(&host).unwrap();
    let e = check_variant(Variant::Koshiba, &n1)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("stall_cycles") && e.contains("--variant misses"),
        "{e}"
    );
    let client = crate::host::Processor {
        vendor: "GenuineIntel".into(),
        family: 6,
        model: 58,
        ..Default::default()
    };
    let e = check_variant(Variant::Koshiba, &processors::find(&client).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("writebacks") && e.contains("--variant quartz"),
        "{e}"
    );
}

#[test]
fn the_check_says_what_is_there_and_what_is_not() {
    let (_dir, system) = system();
    let report = check::check(&system, &mut Fake::new(), Variant::Koshiba);
    assert!(report.usable(), "{report:?}");
    assert!(report
        .findings
        .iter()
        .any(|f| f.found.contains("not verified on silicon")));

    let fake = Fake::new();
    fake.0.borrow_mut().running_permille = 0;
    let report = check::check(&system, &mut fake.clone(), Variant::Koshiba);
    assert!(!report.usable());
    let e = report.into_result().unwrap_err().to_string();
    assert!(e.contains("never got onto the hardware"), "{e}");

    let empty = tempfile::tempdir().unwrap();
    let report = check::check(
        &System::below(empty.path()),
        &mut Fake::new(),
        Variant::Koshiba,
    );
    let obstacles: Vec<String> = report
        .findings
        .iter()
        .filter_map(|f| Some(f.obstacle.as_ref()?.to_string()))
        .collect();
    assert!(obstacles.len() >= 3, "{obstacles:?}");
}

#[test]
fn lists_of_cpus_and_numbered_devices() {
    assert_eq!(parse_cpus("0,18-20"), [0, 18, 19, 20]);
    assert!(parse_cpus("").is_empty());
    assert!(is_numbered("uncore_imc_10", "uncore_imc_"));
    assert!(!is_numbered("uncore_imc_free_running_0", "uncore_imc_"));
    assert!(!is_numbered("uncore_imc_", "uncore_imc_"));
}

/// The one device that every kernel with perf_event has: its first event is the clock of the CPU. The cores' own
/// counters are not there on every host, so this is what shows that question and answer are understood.
#[test]
fn the_kernel_answers() {
    let system = System::default();
    let what = What::Device(1, [0; 3]);
    if system.paranoid().is_none_or(|p| p > 2) || !system.pmus().iter().any(|p| p == "software") {
        let e = Kernel
            .open(&what, Target::Myself)
            .err()
            .expect("an error, as the kernel forbids it");
        assert!(!explain("software", e, Target::Myself)
            .to_string()
            .is_empty());
        return;
    }
    let tid = Tid(rustix::thread::gettid().as_raw_nonzero().get());
    for target in [Target::Myself, Target::Thread(tid)] {
        let mut handle = Kernel.open(&what, target).unwrap();
        let first = handle.read().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 5 {}
        let second = handle.read().unwrap();
        assert!(
            second.value > first.value && second.running > first.running,
            "{first:?} {second:?}"
        );
        assert!(second.running <= second.enabled);
    }
    assert_eq!(
        Kernel
            .open(&what, Target::Thread(Tid(i32::MAX)))
            .err()
            .unwrap()
            .raw_os_error(),
        Some(3),
        "ESRCH"
    );
}

#[test]
fn virtual_cpus_are_counted_without_qemu_and_with_their_kernel() {
    let fake = Fake::new();
    let (_dir, system) = system();
    let perf = Perf::new(Box::new(fake.clone()), &system, skylake(), Variant::Misses).unwrap();
    perf.guests().attach(Tid(5), Clocks::default()).unwrap();
    assert_eq!(
        fake.0.borrow().opened.last().unwrap().1,
        Target::Vcpu(Tid(5))
    );
    let e = explain("x", Errno::ACCESS.into(), Target::Vcpu(Tid(5))).to_string();
    assert!(e.contains("at 1 or below"), "{e}");
}
