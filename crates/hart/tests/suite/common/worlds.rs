//! Worlds that watch: flat memory with a record of traps and a bound on work.

use super::rocket;
use nagori_hart::config::{
    Drain, FirstConfig, HintConfig, Pipes, PrefetchConfig, Prefetcher, StoresConfig,
};
use nagori_hart::flat::Flat;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{Bus, BusFault, Event, LineRequest, MemPort, Observer, Requester, World};
use nagori_hart::HartConfig;
use nagori_ram::GuestRam;

/// A trap as it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    pub pc: u64,
    pub cause: u64,
    pub tval: u64,
    pub to: u8,
}

/// Flat memory that records traps, and refuses to go on for ever.
pub struct Watched {
    pub flat: Flat,
    pub traps: Vec<Taken>,
    /// Instructions begun.
    pub steps: u64,
    /// Steps and traps after which the run counts as hung.
    pub bound: u64,
    /// Who is told of everything, too.
    pub sink: Option<Sink>,
}

/// A receiver of what harts do.
pub type Sink = Box<dyn FnMut(&Event<'_>)>;

impl Watched {
    /// As [`Flat::new`].
    pub fn new(base: u64, bytes: u64, harts: usize, config: &HartConfig) -> Self {
        let flat = Flat::new(base, bytes, harts, config).expect("memory");
        Self {
            flat,
            traps: Vec::new(),
            steps: 0,
            bound: u64::MAX,
            sink: None,
        }
    }
}

impl Bus for Watched {
    fn ram(&self) -> &GuestRam {
        self.flat.ram()
    }
    fn ram_base(&self) -> u64 {
        self.flat.ram_base()
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        self.flat.mmio_read(by, paddr, size)
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        v: u64,
    ) -> Result<(), BusFault> {
        self.flat.mmio_write(by, paddr, size, v)
    }
    fn time(&self, cycle: u64) -> u64 {
        self.flat.time(cycle)
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.flat.cycle_of_time(time)
    }
}

impl MemPort for Watched {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.write_line(req)
    }
}

impl Observer for Watched {
    const COMMITS: bool = true;
    fn happened(&mut self, event: &Event<'_>) {
        if let Some(sink) = &mut self.sink {
            sink(event);
        }
        if let Event::Commit(_) = event {
            self.steps += 1;
            assert!(
                self.steps < self.bound,
                "hung: {} instructions begun",
                self.steps
            );
        }
        let Some(t) = event.trap() else { return };
        self.traps.push(Taken {
            pc: t.pc,
            cause: t.cause,
            tval: t.tval,
            to: t.to,
        });
        assert!(
            (self.traps.len() as u64) < self.bound,
            "hung: {} traps taken",
            self.traps.len()
        );
    }
}

impl World for Watched {
    fn coherence(&mut self) -> &mut Coherence {
        self.flat.coherence()
    }
}

/// A core, for some numbers one that does not wait for loads, alone or two instructions at a time.
pub fn core(number: u64) -> HartConfig {
    let mut c = rocket();
    if number / 4 % 2 == 1 {
        c.timing.lfb = 3;
    }
    if number / 4 % 4 == 3 {
        c.timing.pipes = Pipes {
            alu: 3,
            load: 1,
            store: 1,
            branch: 2,
            multiply: 2,
            divide: 2,
            float: 2,
            transfer: 1,
        };
    }
    c
}

/// For some numbers, gives all first-level caches prefetchers and few registers for misses.
pub fn prefetching(c: &mut Coherence, number: u64) {
    let mut stores = StoresConfig::default();
    let combines = HintConfig {
        combines: true,
        last: 1,
        bypass: 0,
    };
    (stores.entries, stores.drain, stores.hints[3]) = match number % 8 {
        5 => (3, Drain::InOrder, HintConfig::default()),
        6 => (4, Drain::Any, combines),
        7 => (2, Drain::InOrder, combines),
        _ => (0, Drain::InOrder, HintConfig::default()),
    };
    let first = |prefetcher, mshrs| FirstConfig {
        mshrs,
        stores,
        prefetch: PrefetchConfig {
            prefetcher,
            degree: 2,
            distance: 5,
            confidence: 1,
            ..PrefetchConfig::default()
        },
    };
    let both = match number % 4 {
        1 => [
            first(Prefetcher::NextLine, 0),
            first(Prefetcher::NextLine, 3),
        ],
        2 => [first(Prefetcher::Stride, 4), first(Prefetcher::Stream, 0)],
        3 => [first(Prefetcher::Stream, 2), first(Prefetcher::None, 1)],
        _ => return,
    };
    *c = c.clone().with_first(both);
}
