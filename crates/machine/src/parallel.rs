//! Harts that run at the same time, in threads of the host. Not deterministic: the order of the
//! harts depends on the host. See docs/parallel.md.
//!
//! Each worker has some of the harts and runs them in turns, as the scheduler does with all. It
//! waits if it would be more than the skew ahead of another worker. The workers meet when an event
//! of a device or a sleeping hart is due, and the last to arrive handles it (a turn).

use super::shared::{Held, Shared};
use super::world::Surroundings;
use super::{drive_lines, sleeps, Machine, Turn};
use nagori_hart::mode::Functional;
use nagori_hart::world::World;
use nagori_hart::{CodeCache, Exit, Hart};
use nagori_translator::Translator;
use parking_lot::{ArcMutexGuard, Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Longest time between turns, in cycles.
const ROUND: u64 = 1 << 20;
/// Longest time between turns where a worker has nothing to do and could take over a hart of another one, in cycles.
const SHORT_ROUND: u64 = 1 << 15;
/// Shortest time between turns, in cycles, unless something is due.
const LEAST: u64 = 1000;
/// Longest run of a hart before its worker looks at the others and at interrupt lines, in cycles.
const TURN: u64 = 10_000;
/// Looks at what others do before a worker sleeps: being woken takes longer than what it waits for.
const SPINS: u32 = 500;

/// A hart with all that only it uses.
struct Unit<'a> {
    hart: &'a mut Hart,
    code: &'a mut CodeCache,
    engine: Option<&'a mut Translator<Shared>>,
}

/// What changes in turns.
#[derive(Default)]
struct Rounds {
    number: u64,
    /// Workers that have nothing to do in this round any more.
    idle: usize,
    /// Which ones have something to do.
    active: Vec<bool>,
    done: bool,
}

/// What the workers share.
struct Team<'a> {
    units: Vec<Mutex<Unit<'a>>>,
    /// The worker that runs each; changed in turns only.
    homes: Vec<AtomicUsize>,
    /// Cycle that no hart of a worker is behind; `u64::MAX` while it has nothing to run.
    clocks: Vec<AtomicU64>,
    /// Cycle at which the round ends.
    end: AtomicU64,
    /// Interrupt lines of each hart, how often any have changed, and at which cycle the last time.
    lines: Vec<AtomicU64>,
    news: AtomicU64,
    news_at: AtomicU64,
    /// The machine has something to do that no turn does.
    quit: AtomicBool,
    /// Core cycles that all harts have run, and how many they are to run.
    spent: AtomicU64,
    cycles: u64,
    /// Limit of steps of all harts.
    steps: Option<u64>,
    skew: u64,
    /// Longest turn of a hart beyond the others of its worker, in cycles.
    quantum: u64,
    rounds: Mutex<Rounds>,
    /// How many turns there were, for those who wait for one.
    turns: AtomicU64,
    changed: Condvar,
    /// Least clock that a sleeping worker waits for.
    wanted: AtomicU64,
}

/// Ends the others' waiting where a worker panics.
struct Alarm<'t, 'a>(&'t Team<'a>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.quit.store(true, SeqCst);
            self.0.rounds.lock().done = true;
            self.0.changed.notify_all();
        }
    }
}

/// Cycles that were run and are not yet counted.
struct Spent<'t>(&'t AtomicU64, u64);

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(self.1, SeqCst);
    }
}

fn steps<'h>(harts: impl Iterator<Item = &'h Hart>) -> u64 {
    harts
        .map(|h| h.state.instret + h.state.stats.exceptions)
        .sum()
}

impl Team<'_> {
    fn workers(&self) -> usize {
        self.clocks.len()
    }

    /// The main function of a worker thread.
    fn work(&self, me: usize, mut shared: Shared) {
        let _alarm = Alarm(self);
        loop {
            let (seen, asleep) = {
                let of = self.units.iter().zip(&self.homes);
                let mine = of.filter(|(_, home)| home.load(SeqCst) == me);
                let mut mine: Vec<_> = mine.map(|(u, _)| u.lock()).collect();
                self.run(me, &mut mine, &mut shared)
            };
            shared.release();
            if !self.rest(me, &mut shared, seen, asleep) {
                return;
            }
        }
    }

    /// Runs a worker's harts until none may go on in this round; the news seen, and whether all
    /// of them sleep.
    fn run<'u>(
        &self,
        me: usize,
        mine: &mut [MutexGuard<'u, Unit<'_>>],
        shared: &mut Shared,
    ) -> (u64, bool) {
        let mut seen = None;
        let mut published = u64::MAX;
        let mut spent = Spent(&self.spent, 0);
        loop {
            let news = self.news.load(SeqCst);
            if seen != Some(news) {
                seen = Some(news);
                let at = self.news_at.load(SeqCst);
                for u in mine.iter_mut() {
                    let lines = self.lines[u.hart.id].load(SeqCst);
                    drive_lines(u.hart, lines, at);
                }
            }
            if self.quit.load(SeqCst) {
                return (news, false);
            }
            let mut first: Option<usize> = None;
            let (mut now, mut others) = (u64::MAX, u64::MAX);
            for (k, u) in mine.iter().enumerate() {
                let h = &*u.hart;
                if sleeps(h) {
                    let wake = h.wake_cycle().unwrap_or(u64::MAX);
                    if wake < self.end.load(SeqCst) {
                        self.end.fetch_min(wake.max(h.state.cycle), SeqCst);
                    }
                    continue;
                }
                if h.state.cycle < now {
                    others = now;
                    (first, now) = (Some(k), h.state.cycle);
                } else {
                    others = others.min(h.state.cycle);
                }
            }
            let end = self.end.load(SeqCst);
            let Some(k) = first.filter(|_| now < end) else {
                return (news, first.is_none());
            };
            if published == u64::MAX || now >= published.saturating_add(self.skew / 8) {
                published = now;
                self.publish(me, now);
            }
            let window = self.slowest_but(me).saturating_add(self.skew);
            if now >= window {
                self.publish(me, now);
                self.wait_for_others(me, now);
                continue;
            }
            let limit = others
                .saturating_add(self.quantum)
                .min(end)
                .min(window)
                .min(now + (self.skew / 4).clamp(1, TURN));
            let u = &mut *mine[k];
            if let Some(e) = &mut u.engine {
                e.begin(u.hart);
            }
            let (hart, code, engine) = (&mut *u.hart, &mut *u.code, &mut u.engine);
            let exit = hart.run_as::<Functional, _, _>(code, shared, limit, limit, engine);
            if let Some(e) = &mut u.engine {
                e.end(u.hart);
            }
            let cycle = u.hart.state.cycle;
            spent.1 += (cycle - now).max(1);
            if exit == Exit::Device {
                self.touched(cycle, shared.held());
            }
            shared.release();
        }
    }

    /// Whether something comes true in a short time.
    fn spin(&self, done: impl Fn() -> bool) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            done()
        })
    }

    fn slowest_but(&self, me: usize) -> u64 {
        let other = |(w, c): (usize, &AtomicU64)| if w == me { u64::MAX } else { c.load(SeqCst) };
        let clocks = self.clocks.iter().enumerate();
        clocks.map(other).min().unwrap_or(u64::MAX)
    }

    fn publish(&self, me: usize, clock: u64) {
        self.clocks[me].store(clock, SeqCst);
        if clock >= self.wanted.load(SeqCst) {
            let _rounds = self.rounds.lock();
            self.wanted.store(u64::MAX, SeqCst);
            self.changed.notify_all();
        }
    }

    /// Sleeps until the others have caught up with half of the skew.
    fn wait_for_others(&self, me: usize, now: u64) {
        let least = now.saturating_sub(self.skew / 2);
        let reached = || self.slowest_but(me) >= least || self.quit.load(SeqCst);
        if self.spin(reached) {
            return;
        }
        let mut rounds = self.rounds.lock();
        while !rounds.done {
            self.wanted.fetch_min(least, SeqCst);
            if reached() {
                return;
            }
            self.changed.wait(&mut rounds);
        }
    }

    /// What follows an access to a device, at a cycle.
    fn touched(&self, cycle: u64, w: &mut Surroundings) {
        w.apply_dma_writes();
        let event = w.next_event();
        self.end.fetch_min(event, SeqCst);
        if self.publish_lines(w) {
            self.news_at.fetch_max(cycle, SeqCst);
            self.news.fetch_add(1, SeqCst);
            let _rounds = self.rounds.lock();
            self.changed.notify_all();
        }
        if w.bus.has_power_request() || !w.actions.is_empty() {
            self.quit.store(true, SeqCst);
            let _rounds = self.rounds.lock();
            self.changed.notify_all();
        }
    }

    /// Whether any interrupt line has changed.
    fn publish_lines(&self, w: &Surroundings) -> bool {
        let mut changed = false;
        for (i, l) in self.lines.iter().enumerate() {
            let now = w.bus.hart_lines(i);
            changed |= l.swap(now, SeqCst) != now;
        }
        changed
    }

    /// Waits for the next round, or for news, which may wake a hart. False at the end.
    fn rest(&self, me: usize, shared: &mut Shared, seen: u64, asleep: bool) -> bool {
        self.clocks[me].store(u64::MAX, SeqCst);
        let mut rounds = self.rounds.lock();
        self.wanted.store(u64::MAX, SeqCst);
        self.changed.notify_all();
        rounds.idle += 1;
        let number = rounds.number;
        if rounds.idle == self.workers() {
            let mut units: Vec<_> = self.units.iter().map(Mutex::lock).collect();
            self.turn(&mut rounds, &mut units, shared);
            shared.release();
            self.turns.fetch_add(1, SeqCst);
            self.changed.notify_all();
        } else {
            if asleep {
                let soon = self.slowest_but(me).saturating_add(SHORT_ROUND);
                self.end.fetch_min(soon, SeqCst);
            }
            let turns = self.turns.load(SeqCst);
            drop(rounds);
            self.spin(|| self.turns.load(SeqCst) != turns || self.news.load(SeqCst) != seen);
            rounds = self.rounds.lock();
        }
        loop {
            if rounds.done {
                return false;
            }
            if rounds.number != number && rounds.active[me] {
                return true;
            }
            // A worker that has no part in the round counts as idle.
            if self.news.load(SeqCst) != seen {
                rounds.idle -= 1;
                return true;
            }
            self.changed.wait(&mut rounds);
        }
    }

    /// What is due between rounds, while no hart runs.
    fn turn(
        &self,
        rounds: &mut Rounds,
        units: &mut [MutexGuard<'_, Unit<'_>>],
        shared: &mut Shared,
    ) {
        rounds.done = true;
        let w = shared.held();
        loop {
            self.publish_lines(w);
            let at = self.news_at.load(SeqCst);
            for u in units.iter_mut() {
                let lines = w.bus.hart_lines(u.hart.id);
                drive_lines(u.hart, lines, at);
            }
            let taken = steps(units.iter().map(|u| &*u.hart));
            let left = self.steps.map_or(u64::MAX, |n| n.saturating_sub(taken));
            let cycles = self.cycles.saturating_sub(self.spent.load(SeqCst));
            if w.bus.has_power_request()
                || !w.actions.is_empty()
                || self.quit.load(SeqCst)
                || cycles == 0
                || left == 0
            {
                return;
            }
            let awake = units.iter().filter(|u| !sleeps(u.hart));
            let Some(now) = awake.map(|u| u.hart.state.cycle).min() else {
                return;
            };
            if now >= w.last_cycle() {
                return;
            }
            let next = next_due(w, units.iter().map(|u| &*u.hart));
            if next > now {
                let n = units.len() as u64;
                let steps = (left / n).max(1);
                let share = (cycles / n).max(LEAST);
                let end = next.min(now + steps.min(share).min(ROUND));
                self.end.store(end, SeqCst);
                break;
            }
            wake_timers(units.iter_mut().map(|u| &mut *u.hart), next);
            w.bus.run_events(w.ps(next));
            w.apply_dma_writes();
            self.news_at.fetch_max(next, SeqCst);
        }
        self.balance(units);
        let end = self.end.load(SeqCst);
        let busy = |k: usize| {
            let mut of = units.iter().zip(&self.homes);
            of.any(|(u, home)| {
                home.load(SeqCst) == k && !sleeps(u.hart) && u.hart.state.cycle < end
            })
        };
        rounds.active = (0..self.workers()).map(busy).collect();
        rounds.idle = rounds.active.iter().filter(|a| !**a).count();
        for (clock, active) in self.clocks.iter().zip(&rounds.active) {
            // Harts that have not begun hold the others up.
            let awake = units.iter().filter(|u| !sleeps(u.hart));
            let first = awake.map(|u| u.hart.state.cycle).min().unwrap_or(u64::MAX);
            clock.store(if *active { first } else { u64::MAX }, SeqCst);
        }
        rounds.number += 1;
        rounds.done = false;
    }

    /// Gives every worker its share of the harts that are awake.
    fn balance(&self, units: &[MutexGuard<'_, Unit<'_>>]) {
        loop {
            let mut load = vec![0; self.workers()];
            for (u, home) in units.iter().zip(&self.homes) {
                load[home.load(SeqCst)] += usize::from(!sleeps(u.hart));
            }
            let most = (0..load.len()).max_by_key(|w| load[*w]).unwrap_or(0);
            let least = (0..load.len()).min_by_key(|w| load[*w]).unwrap_or(0);
            if load[most] < load[least] + 2 {
                return;
            }
            let mut all = units.iter().zip(&self.homes).rev();
            let moved = all.find(|(u, home)| home.load(SeqCst) == most && !sleeps(u.hart));
            if let Some((_, home)) = moved {
                home.store(least, SeqCst);
            }
        }
    }
}

/// The cycle at which a device or a sleeping hart is due.
fn next_due<'h>(w: &Surroundings, harts: impl Iterator<Item = &'h Hart>) -> u64 {
    let wake = |h: &Hart| h.wake_cycle().unwrap_or(u64::MAX).max(h.state.cycle);
    let wakes = harts.filter(|h| sleeps(h)).map(wake);
    let event = w.next_event();
    wakes.min().unwrap_or(u64::MAX).min(event)
}

/// Harts sleep until a cycle at which their timers may be due.
pub(super) fn wake_timers<'h>(harts: impl Iterator<Item = &'h mut Hart>, next: u64) {
    for h in harts {
        if sleeps(h) && h.wake_cycle().is_some_and(|c| c <= next) {
            h.state.stats.idle_cycles += next.saturating_sub(h.state.cycle);
            h.state.cycle = h.state.cycle.max(next);
        }
    }
}

impl Machine {
    /// Runs all harts at the same time until one of them needs the machine as a whole, for about
    /// as many cycles as are left.
    pub(super) fn run_together(
        &mut self,
        skew: u64,
        spent: &mut u64,
        cycles: u64,
        limit: Option<u64>,
    ) -> Turn {
        use super::Stop;
        if limit.is_some_and(|n| self.steps() >= n) {
            return Turn::Stop(Stop::Instructions);
        }
        if *spent >= cycles {
            return Turn::Stop(Stop::Slice);
        }
        if self.harts.iter().all(sleeps) {
            let cycle = next_due(&self.world, self.harts.iter());
            let asleep = true;
            return Turn::Event { cycle, asleep };
        }
        self.end_waits();
        self.write_stored();
        let end = self.world.last_cycle();
        if self.harts.iter().all(|h| sleeps(h) || h.state.cycle >= end) {
            let (cycle, asleep) = (end, false);
            return Turn::Event { cycle, asleep };
        }
        // Behind the warm-up, statistics start anew.
        let warm = self.warm_left();
        let limit = [limit, Some(self.steps().saturating_add(warm))];
        let limit = limit.into_iter().flatten().min();
        let quantum = u64::from(self.config.functional_quantum_cycles).min(skew);
        self.was_parallel = true;
        let n = self.harts.len();
        self.settle();
        let workers = self.host_threads.min(n);
        let mut engines = self.together.iter_mut();
        let parts = self.harts.iter_mut().zip(&mut self.code);
        let units = parts.map(|(hart, code)| {
            // It may have been made while stores were seen otherwise.
            hart.end_reservation();
            let engine = engines.next();
            Mutex::new(Unit { hart, code, engine })
        });
        let team = Team {
            units: units.collect(),
            homes: (0..n).map(|i| AtomicUsize::new(i % workers)).collect(),
            clocks: (0..workers).map(|_| AtomicU64::new(u64::MAX)).collect(),
            end: AtomicU64::new(0),
            lines: (0..n).map(|_| AtomicU64::new(0)).collect(),
            news: AtomicU64::new(0),
            news_at: AtomicU64::new(0),
            quit: AtomicBool::new(false),
            spent: AtomicU64::new(0),
            cycles: cycles - *spent,
            steps: limit,
            skew,
            quantum,
            rounds: Mutex::default(),
            turns: AtomicU64::new(0),
            changed: Condvar::new(),
            wanted: AtomicU64::new(u64::MAX),
        };
        let lock = Held::mutex(&self.world).clone();
        ArcMutexGuard::unlocked(&mut self.world, || {
            let mut shared = Shared::new(lock.clone());
            {
                let mut units: Vec<_> = team.units.iter().map(Mutex::lock).collect();
                team.turn(&mut team.rounds.lock(), &mut units, &mut shared);
                shared.release();
            }
            if team.rounds.lock().done {
                return;
            }
            let team = &team;
            std::thread::scope(|s| {
                for me in 1..workers {
                    let shared = Shared::new(lock.clone());
                    s.spawn(move || team.start(me, shared));
                }
                team.start(0, shared);
            });
        });
        *spent += team.spent.load(SeqCst).max(1);
        drop(team);
        self.harts.iter_mut().for_each(Hart::end_reservation);
        self.keep_views();
        let at = self.now();
        self.apply_actions();
        self.after_devices(at);
        Turn::Device
    }
}

impl Team<'_> {
    /// Takes part from the first round on, or from the first in which there is something to do.
    fn start(&self, me: usize, mut shared: Shared) {
        let _alarm = Alarm(self);
        let mut rounds = self.rounds.lock();
        while !rounds.done && !rounds.active[me] && self.news.load(SeqCst) == 0 {
            self.changed.wait(&mut rounds);
        }
        if rounds.done {
            return;
        }
        if !rounds.active[me] {
            rounds.idle -= 1;
        }
        drop(rounds);
        shared.release();
        self.work(me, shared);
    }
}
