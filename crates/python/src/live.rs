//! Machines that stand and run as they are told. Each has a thread of its own, which owns it.

use crate::caller::PyCaller;
use crate::errors::{Error, Failure};
use crate::gate::{Gate, Halt, Order};
use crate::own::Places;
use nagori_cli::library::{self, Software};
use nagori_hart::world::{AccessKind, Commit, Event};
use nagori_isa::reg::X_NAMES;
use nagori_machine::{Checkpoint, EventSink, Machine, Point};
use nagori_session::drive::Terminal;
use nagori_session::guest::{self, RunServices};
use nagori_session::power::When;
use nagori_session::program::Captured;
use nagori_session::{Caller, End, Port};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{json, Value};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Host time between two looks whether Python has received a signal.
const LOOK: Duration = Duration::from_millis(20);
/// Most commits that are kept at a time: each takes some hundred bytes.
const MOST_COMMITS: u64 = 1_000_000;

/// What a machine begins with.
enum Start {
    /// Options of `nagori bare`.
    Bare(Vec<String>),
    /// Options of `nagori boot`.
    Boot(Vec<String>),
    /// Another machine, as it was.
    Fork(Box<(Checkpoint, Software)>),
}

/// What the thread of a machine shares with Python.
#[derive(Default)]
struct Shared {
    /// Ends the work before the machine stands for the first time.
    end: Arc<AtomicBool>,
    /// Has the machine stand.
    pause: Arc<AtomicBool>,
    console: Mutex<Captured>,
    /// Why the thread has ended without being told to.
    failed: Mutex<Option<Failure>>,
    /// The exception by which something in Python has ended the machine.
    raised: Mutex<Option<PyErr>>,
    /// How the machine has ended.
    ended: Mutex<Option<End>>,
    /// The job and devices, with which forks go on.
    software: Mutex<Option<Software>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A console without input of its own, whose output Python can look at while the machine runs.
struct Console(Arc<Shared>);

impl Port for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0.console).stdout.extend_from_slice(bytes);
        Ok(())
    }

    fn write_error(&mut self, bytes: &[u8]) -> nagori_session::Result<()> {
        lock(&self.0.console).stderr.extend_from_slice(bytes);
        Ok(())
    }
}

/// The thread of a machine.
fn own(
    start: Start,
    orders: Receiver<Order>,
    shared: &Arc<Shared>,
    caller: &PyCaller,
) -> anyhow::Result<()> {
    let (software, from) = match start {
        Start::Bare(options) => (library::bare_software(&options, caller)?, None),
        Start::Boot(options) => (library::boot_software(&options, caller)?, None),
        Start::Fork(other) => {
            let (checkpoint, software) = *other;
            (software, Some(checkpoint))
        }
    };
    let mut job = software.job.clone();
    // Input comes from Python, at any time: its end is not told, and it does not wait for prompts.
    job.send_end = false;
    job.prompted = false;
    let mut machine = match &from {
        None => {
            let mut machine = job.machine(&software.description)?;
            caller.machine(&mut machine)?;
            machine
        }
        Some(checkpoint) => checkpoint.fork()?,
    };
    machine.set_engine(job.engine)?;
    let devices = software.devices.connect(&mut machine, caller)?;
    *lock(&shared.software) = Some(software);
    let mut console = Console(shared.clone());
    let mut gate = Gate::new(orders, shared.pause.clone());
    let end = {
        let others = RunServices {
            holders: vec![Box::new(&mut gate)],
            devices,
        };
        let terminal = Terminal::new(&mut console, job.console(), None, Some(caller));
        let (end, failed) = guest::run(&mut machine, &job, terminal, others, caller);
        let end = end?;
        failed.into_iter().next().map_or(Ok(end), Err)?
    };
    if let Some(e) = caller.raised() {
        *lock(&shared.raised) = Some(e);
        return Ok(());
    }
    *lock(&shared.ended) = Some(end);
    gate.after_end(&mut machine, end);
    Ok(())
}

/// Keeps what harts do.
struct Commits(Vec<Commit>);

impl EventSink for Commits {
    fn happened(&mut self, event: &Event<'_>) {
        if let Event::Commit(c) = event {
            self.0.push(**c);
        }
    }
}

fn commit(c: &Commit) -> Value {
    let kind = |k: AccessKind| match k {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Clean => "clean",
        AccessKind::Flush => "flush",
        AccessKind::FlushAll => "flush-all",
    };
    let accesses = c.accesses.iter().flatten().map(|a| {
        json!({"kind": kind(a.kind), "vaddr": a.vaddr, "paddr": a.paddr, "size": a.size,
               "value": u64::try_from(a.value).ok()})
    });
    json!({
        "hart": c.hart,
        "cycle": c.cycle,
        "pc": c.pc,
        "word": c.word,
        "trapped": c.trap.is_some(),
        "accesses": accesses.collect::<Vec<_>>(),
    })
}

/// A machine that stands until it is told to run.
#[pyclass(frozen)]
pub struct Live {
    shared: Arc<Shared>,
    orders: Mutex<Option<Sender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    log: Py<PyAny>,
}

impl Live {
    fn start(py: Python<'_>, start: Start, places: Places, log: Py<PyAny>) -> PyResult<Live> {
        let shared = Arc::new(Shared::default());
        let (orders, received) = channel();
        let caller = PyCaller::elsewhere(log.clone_ref(py), shared.end.clone()).bringing(places);
        let mine = shared.clone();
        let thread = std::thread::Builder::new()
            .name("nagori".into())
            .spawn(move || {
                if let Err(e) = own(start, received, &mine, &caller) {
                    *lock(&mine.failed) = Some(e.into());
                }
            })?;
        let live = Live {
            shared,
            orders: Mutex::new(Some(orders)),
            thread: Mutex::new(Some(thread)),
            log,
        };
        // The machine stands when the first order has been carried out.
        let begun = live.with(py, |_| ());
        if begun.is_err() {
            live.close(py);
        }
        begun.map(|()| live)
    }

    fn send(&self, order: Order) -> PyResult<()> {
        let orders = lock(&self.orders);
        let orders = orders
            .as_ref()
            .ok_or_else(|| Error::new_err("this machine is closed"))?;
        // If the thread has ended, the answer never comes, and its failure is reported then.
        let _ = orders.send(order);
        Ok(())
    }

    /// Waits for an answer. A signal has `stop` done, and is raised when the answer has come.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        answer: Receiver<T>,
        stop: impl Fn(&Shared),
    ) -> PyResult<T> {
        let answer = Mutex::new(answer);
        let mut signal = None;
        loop {
            match py.allow_threads(|| lock(&answer).recv_timeout(LOOK)) {
                Ok(value) => return signal.map_or(Ok(value), Err),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(e) = py.check_signals() {
                        stop(&self.shared);
                        signal.get_or_insert(e);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.join(py);
                    let raised = lock(&self.shared.raised).as_ref().map(|e| e.clone_ref(py));
                    if let Some(e) = raised {
                        return Err(e);
                    }
                    let failed = lock(&self.shared.failed).clone();
                    let ended = || Failure("the machine's thread has ended".into());
                    return Err(signal.unwrap_or_else(|| failed.unwrap_or_else(ended).into()));
                }
            }
        }
    }

    fn join(&self, py: Python<'_>) {
        if let Some(thread) = lock(&self.thread).take() {
            // If it has panicked, it has said so.
            let _ = py.allow_threads(|| thread.join());
        }
    }

    /// Does something with the machine, which stands.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Machine) -> T + Send + 'static,
    ) -> PyResult<T> {
        let (to, answer) = channel();
        self.send(Order::Do(Box::new(move |m| {
            let _ = to.send(work(m));
        })))?;
        self.wait(py, answer, |s| s.end.store(true, Relaxed))
    }

    fn run_to(&self, py: Python<'_>, point: Option<Point>) -> PyResult<Halt> {
        let (to, answer) = channel();
        self.send(Order::Go(point, to))?;
        self.wait(py, answer, |s| s.pause.store(true, Relaxed))
    }
}

fn no_hart(hart: usize) -> PyErr {
    Error::new_err(format!("there is no hart {hart}"))
}

/// The number of an integer register by its name in the calling convention, or as x0 to x31.
fn register(name: &str) -> PyResult<usize> {
    let number = name.strip_prefix('x').and_then(|n| n.parse().ok());
    let number = number.filter(|n| *n < X_NAMES.len());
    let named = || X_NAMES.iter().position(|n| *n == name);
    let found = number.or_else(named).or((name == "fp").then_some(8));
    found.ok_or_else(|| {
        Error::new_err(format!(
            "there is no register `{name}`: expected pc, a name such as a0 or sp, or x0 to x31"
        ))
    })
}

#[pymethods]
impl Live {
    /// A bare-metal program, before its first instruction.
    #[staticmethod]
    fn bare(py: Python<'_>, options: Vec<String>, own: Places, log: Py<PyAny>) -> PyResult<Live> {
        Live::start(py, Start::Bare(options), own, log)
    }

    /// A machine before the first instruction of its boot.
    #[staticmethod]
    fn boot(py: Python<'_>, options: Vec<String>, own: Places, log: Py<PyAny>) -> PyResult<Live> {
        Live::start(py, Start::Boot(options), own, log)
    }

    /// A machine that goes on from where this one stands.
    fn fork(&self, py: Python<'_>) -> PyResult<Live> {
        let checkpoint = self.with(py, |m| -> Result<Checkpoint, String> {
            library::may_fork(m)?;
            m.checkpoint().map_err(|e| e.to_string())
        })?;
        let checkpoint = checkpoint.map_err(Failure)?;
        let software = lock(&self.shared.software).clone();
        let software = software.ok_or_else(|| Error::new_err("this machine is closed"))?;
        Live::start(
            py,
            Start::Fork(Box::new((checkpoint, software))),
            Vec::new(),
            self.log.clone_ref(py),
        )
    }

    /// Runs up to a point, in the form of `--power-cut-at`, or to the end. Why it stands: as JSON.
    #[pyo3(signature = (when=None))]
    fn go(&self, py: Python<'_>, when: Option<&str>) -> PyResult<String> {
        let point = match when {
            None => None,
            Some(text) => Some(
                text.parse::<When>()
                    .map_err(|e| Failure(format!("`{text}`: {e}")))?
                    .0,
            ),
        };
        let behind = self.with(py, move |m| match point {
            Some(Point::Instructions(n)) => n <= m.instructions(),
            Some(Point::Time(t)) => t <= m.now(),
            _ => false,
        })?;
        if behind {
            let text = format!(
                "`{}`: this is behind the machine already",
                when.unwrap_or_default()
            );
            return Err(Failure(text).into());
        }
        let why = match self.run_to(py, point)? {
            Halt::Point => json!({"why": "point"}),
            Halt::Idle => json!({"why": "idle"}),
            Halt::Asked => json!({"why": "asked"}),
            Halt::Ended(end) => {
                let code = match end {
                    End::Off(code) => Some(code),
                    _ => None,
                };
                json!({"why": end.name(), "exit_code": code, "message": end.message()})
            }
        };
        Ok(why.to_string())
    }

    /// Runs for so many instructions of all harts, and returns them with what they did, as JSON.
    fn commits(&self, py: Python<'_>, instructions: u64) -> PyResult<String> {
        if !(1..=MOST_COMMITS).contains(&instructions) {
            let text = format!("{instructions} commits: expected 1 to {MOST_COMMITS}");
            return Err(Failure(text).into());
        }
        let point = self.with(py, move |m| {
            m.set_event_sink(Some(Box::new(Commits(Vec::new()))));
            Point::Instructions(m.instructions().saturating_add(instructions))
        })?;
        let halt = self.run_to(py, Some(point));
        let all = self.with(py, |m| {
            let sink = m.take_event_sink::<Commits>();
            sink.map_or(Vec::new(), |s| s.0.iter().map(commit).collect())
        })?;
        halt?;
        Ok(Value::Array(all).to_string())
    }

    /// Asks the machine what `nagori ctl` asks a running one: a method and its parameters as JSON; the answer as JSON.
    fn ask(&self, py: Python<'_>, method: String, parameters: String) -> PyResult<String> {
        let parameters: Value =
            serde_json::from_str(&parameters).map_err(|e| Failure(e.to_string()))?;
        let answer = self.with(py, move |m| library::ask(m, &method, parameters))?;
        Ok(answer.map_err(Failure)?.to_string())
    }

    /// What the machine has cost so far, as JSON.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        let end = *lock(&self.shared.ended);
        let result = self.with(py, move |m| library::machine_result(m, end, &[]))?;
        Ok(result.to_string())
    }

    /// A register of a hart.
    fn reg(&self, py: Python<'_>, hart: usize, name: &str) -> PyResult<u64> {
        let number = (name != "pc").then(|| register(name)).transpose()?;
        let value = self.with(py, move |m| {
            let hart = m.hart(hart)?;
            Some(number.map_or(hart.state.pc, |n| hart.reg(n)))
        })?;
        value.ok_or_else(|| no_hart(hart))
    }

    /// Sets a register of a hart.
    fn set_reg(&self, py: Python<'_>, hart: usize, name: &str, value: u64) -> PyResult<()> {
        let number = (name != "pc").then(|| register(name)).transpose()?;
        let done = self.with(py, move |m| {
            match number {
                None if m.hart(hart).is_some() => m.set_pc(hart, value),
                None => return false,
                Some(n) => match m.hart_mut(hart) {
                    Some(h) => h.set_reg(n, value),
                    None => return false,
                },
            }
            true
        })?;
        done.then_some(()).ok_or_else(|| no_hart(hart))
    }

    /// A control and status register of a hart, by its number.
    fn csr(&self, py: Python<'_>, hart: usize, number: u16) -> PyResult<u64> {
        let value = self.with(py, move |m| m.csr(hart, number))?;
        value.ok_or_else(|| Error::new_err(format!("hart {hart} has no CSR {number:#x}")))
    }

    /// Reads memory by physical addresses, or by virtual ones of a hart.
    #[pyo3(signature = (address, length, hart=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        address: u64,
        length: usize,
        hart: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, move |m| library::read_memory(m, address, length, hart))?;
        Ok(PyBytes::new(py, &bytes.map_err(Failure)?))
    }

    /// Writes memory, by physical addresses or by virtual ones of a hart, whatever the permissions.
    #[pyo3(signature = (address, data, hart=None))]
    fn write(
        &self,
        py: Python<'_>,
        address: u64,
        data: Vec<u8>,
        hart: Option<usize>,
    ) -> PyResult<()> {
        let done = self.with(py, move |m| library::write_memory(m, address, &data, hart))?;
        Ok(done.map_err(Failure)?)
    }

    /// Types something at the console.
    fn type_text(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<()> {
        self.with(py, move |m| m.console_input(&data))
    }

    /// What the console has shown so far, and what a bare-metal program has written to its standard error.
    fn console<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let console = lock(&self.shared.console);
        (
            PyBytes::new(py, &console.stdout),
            PyBytes::new(py, &console.stderr),
        )
    }

    /// Ends the machine.
    fn close(&self, py: Python<'_>) {
        self.shared.end.store(true, Relaxed);
        self.shared.pause.store(true, Relaxed);
        drop(lock(&self.orders).take());
        self.join(py);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The thread ends when it sees that nobody is left; nobody waits for it.
        self.shared.end.store(true, Relaxed);
        drop(lock(&self.orders).take());
    }
}
