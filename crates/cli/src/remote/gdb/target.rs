//! A debugger's session: the protocol's requests, passed on to the thread that runs the machine.

use super::debugged::{Debugged, Monitored};
use super::describe;
use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind as GdbWatch,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::Riscv64;
use nagori_platform::machine::{Watch, WatchKind};
use nagori_session::drive::Restart;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Sender};

/// The run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// What a session can access.
pub struct Desk<'a> {
    /// The machine.
    pub machine: &'a mut dyn Debugged,
    /// How it is to continue.
    pub stand: &'a mut Stand,
}

/// What a session requests of the run.
#[derive(Debug, Default)]
pub struct Stand {
    /// The machine runs.
    pub running: bool,
    /// It is to restart.
    pub restart: Option<Restart>,
    /// The hart that debuggers look at first.
    pub first: usize,
}

/// An operation of a session on the machine.
pub type Work = Box<dyn FnOnce(&mut Desk<'_>) + Send>;

/// The channel from a session's thread to the machine's.
pub struct Line {
    /// The operations.
    pub work: Sender<Work>,
    /// Wakes the machine's thread.
    pub bell: UnixStream,
}

impl Line {
    /// Has an operation carried out on the machine, and waits for it.
    pub fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Desk<'_>) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, wait) = channel();
        let work = move |d: &mut Desk<'_>| {
            // The thread that asked is waiting.
            let _ = answer.send(f(d));
        };
        self.work.send(Box::new(work)).map_err(|_| Gone)?;
        // A full pipe wakes the other end as well.
        let _ = (&self.bell).write(&[0]);
        wait.recv().map_err(|_| Gone)
    }
}

/// The thread number of a hart, in GDB.
pub fn tid(hart: usize) -> Tid {
    Tid::new(hart + 1).unwrap_or(Tid::MIN)
}

fn hart(tid: Tid) -> usize {
    tid.get() - 1
}

/// The target of a session.
pub struct Session {
    line: Line,
    description: String,
    steps: Vec<(usize, Range<u64>)>,
    /// By address, whether a software and a hardware breakpoint is there.
    breakpoints: BTreeMap<u64, [bool; 2]>,
    physical: bool,
    /// The hart that was inspected last, for `monitor`.
    current: usize,
}

impl Session {
    /// A session that has just begun.
    pub fn new(line: Line) -> Result<Session, Gone> {
        let description =
            line.ask(|d| describe::xml(|n| d.machine.register(0, RiscvRegId::Csr(n)).is_some()))?;
        Ok(Session {
            line,
            description,
            steps: Vec::new(),
            breakpoints: BTreeMap::new(),
            physical: false,
            current: 0,
        })
    }

    /// Stops the machine in its present state.
    pub fn interrupt(&self) -> Result<(), Gone> {
        self.line.ask(|d| d.stand.running = false)
    }

    fn breakpoint(&mut self, pc: u64, which: usize, add: bool) -> TargetResult<bool, Self> {
        let here = self.breakpoints.entry(pc).or_default();
        let before = here.contains(&true);
        if here[which] == add {
            return Ok(add);
        }
        here[which] = add;
        let after = here.contains(&true);
        if !after {
            self.breakpoints.remove(&pc);
        }
        if before == after {
            return Ok(true);
        }
        let done = self.line.ask(move |d| d.machine.breakpoint(pc, add));
        let done = done.map_err(TargetError::Fatal)?;
        if !done {
            self.breakpoints.remove(&pc);
        }
        Ok(done)
    }

    fn watch(
        &mut self,
        addr: u64,
        len: u64,
        kind: GdbWatch,
        add: bool,
    ) -> TargetResult<bool, Self> {
        let kind = match kind {
            GdbWatch::Read => WatchKind::Read,
            GdbWatch::Write => WatchKind::Write,
            GdbWatch::ReadWrite => WatchKind::Access,
        };
        let watch = Watch { addr, len, kind };
        let done = self.line.ask(move |d| d.machine.watch(watch, add));
        done.map_err(TargetError::Fatal)
    }

    fn space(&self, hart: usize) -> Option<usize> {
        (!self.physical).then_some(hart)
    }
}

impl Target for Session {
    type Arch = Riscv64;
    type Error = Gone;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv64, Gone> {
        BaseOps::MultiThread(self)
    }
    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Session {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u64>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let hart = hart(tid);
        self.current = hart;
        let read = self.line.ask(move |d| d.machine.registers(hart));
        *regs = read.map_err(TargetError::Fatal)?;
        Ok(())
    }
    fn write_registers(&mut self, regs: &RiscvCoreRegs<u64>, tid: Tid) -> TargetResult<(), Self> {
        let (regs, hart) = (regs.clone(), hart(tid));
        let done = self.line.ask(move |d| d.machine.set_registers(hart, &regs));
        done.map_err(TargetError::Fatal)
    }
    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }
    fn read_addrs(&mut self, addr: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let (hart, len) = (self.space(hart(tid)), data.len());
        let read = self.line.ask(move |d| {
            let mut bytes = vec![0; len];
            let n = d.machine.peek(hart, addr, &mut bytes);
            bytes.truncate(n);
            bytes
        });
        let read = read.map_err(TargetError::Fatal)?;
        if read.is_empty() && len > 0 {
            return Err(TargetError::NonFatal);
        }
        data[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }
    fn write_addrs(&mut self, addr: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let (hart, data) = (self.space(hart(tid)), data.to_vec());
        let len = data.len();
        let done = self.line.ask(move |d| d.machine.poke(hart, addr, &data));
        match done.map_err(TargetError::Fatal)? {
            n if n == len => Ok(()),
            _ => Err(TargetError::NonFatal),
        }
    }
    fn list_active_threads(&mut self, found: &mut dyn FnMut(Tid)) -> Result<(), Gone> {
        let (n, first) = self.line.ask(|d| (d.machine.harts(), d.stand.first))?;
        // What is listed first is shown first.
        let rest = (0..n).filter(|i| *i != first);
        let all = (first < n).then_some(first).into_iter().chain(rest);
        all.for_each(|i| found(tid(i)));
        Ok(())
    }
    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Session {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Gone> {
        let hart = hart(tid);
        let text = self.line.ask(move |d| d.machine.describe(hart))?;
        let n = text.len().min(buf.len());
        buf[..n].copy_from_slice(&text.as_bytes()[..n]);
        Ok(n)
    }
}

impl SingleRegisterAccess<Tid> for Session {
    fn read_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let hart = hart(tid);
        let value = self.line.ask(move |d| d.machine.register(hart, id));
        let value = value.map_err(TargetError::Fatal)?;
        let bytes = value.ok_or(TargetError::NonFatal)?.to_le_bytes();
        let n = buf.len().min(bytes.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }
    fn write_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        value: &[u8],
    ) -> TargetResult<(), Self> {
        let mut bytes = [0; 8];
        let n = value.len().min(8);
        bytes[..n].copy_from_slice(&value[..n]);
        let (hart, value) = (hart(tid), u64::from_le_bytes(bytes));
        let done = self
            .line
            .ask(move |d| d.machine.set_register(hart, id, value));
        match done.map_err(TargetError::Fatal)? {
            true => Ok(()),
            false => Err(TargetError::NonFatal),
        }
    }
}

impl MultiThreadResume for Session {
    fn resume(&mut self) -> Result<(), Gone> {
        let steps = std::mem::take(&mut self.steps);
        self.line.ask(move |d| {
            d.machine.steps(&steps);
            d.stand.running = true;
        })
    }
    fn clear_resume_actions(&mut self) -> Result<(), Gone> {
        self.steps.clear();
        Ok(())
    }
    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Gone> {
        Ok(())
    }
    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }
    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Session {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Gone> {
        self.steps.push((hart(tid), 0..0));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Session {
    fn set_resume_action_range_step(&mut self, tid: Tid, from: u64, to: u64) -> Result<(), Gone> {
        self.steps.push((hart(tid), from..to));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Session {
    /// Harts share one time, which a debugger does not change: the others run as far as they have
    /// to.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Gone> {
        Ok(())
    }
}

impl Breakpoints for Session {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }
    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Session {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoint(addr, 0, true)
    }
    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoint(addr, 0, false)
    }
}

impl HwBreakpoint for Session {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoint(addr, 1, true)
    }
    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoint(addr, 1, false)
    }
}

impl HwWatchpoint for Session {
    fn add_hw_watchpoint(&mut self, addr: u64, len: u64, k: GdbWatch) -> TargetResult<bool, Self> {
        self.watch(addr, len, k, true)
    }
    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        len: u64,
        k: GdbWatch,
    ) -> TargetResult<bool, Self> {
        self.watch(addr, len, k, false)
    }
}

impl MonitorCmd for Session {
    fn handle_monitor_cmd(&mut self, cmd: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Gone> {
        let command = String::from_utf8_lossy(cmd).into_owned();
        let (hart, mut physical) = (self.current, self.physical);
        let (done, physical) = self.line.ask(move |d| {
            let done: Monitored = d.machine.monitor(hart, &command, &mut physical);
            d.stand.restart = done.restart.or(d.stand.restart);
            (done.text, physical)
        })?;
        self.physical = physical;
        out.write_raw(done.as_bytes());
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Session {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let all = self.description.as_bytes();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
        let n = length.min(buf.len()).min(all.len() - from);
        buf[..n].copy_from_slice(&all[from..from + n]);
        Ok(n)
    }
}
