//! Threads of a host, each with so many accesses under way.
//!
//! Which of the accesses that wait for room in the memory's queues is next is not known to any thread: a
//! core's fill buffers are emptied in no order, and the slices of the mesh through which they go do not
//! wait for one another. Here it is drawn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::tests::req;
use super::*;

const KINDS: [Kind; 2] = [Kind::Read, Kind::Write];

/// The accesses of a thread, sectors of 64 bytes, by their number.
pub(super) type Accesses<'a> = Box<dyn FnMut(u64) -> (Kind, u64) + 'a>;

pub(super) struct Thread<'a> {
    pub accesses: Accesses<'a>,
    /// Reads, and as many writes, that are under way at a time.
    pub most: usize,
    /// How many of the oldest reads, and of the oldest writes, that wait can be next.
    pub reorder: [usize; 2],
    /// Sectors after which the thread waits for all of them (a fence).
    pub fence: Option<u64>,
}

struct State<'a> {
    thread: Thread<'a>,
    made: u64,
    /// Made, but not generated yet: there is no place for it.
    held: Option<(Kind, u64)>,
    /// Reads, and writes, for which there was no room yet, the oldest first.
    waiting: [Vec<u64>; 2],
    /// Reads and writes, waiting or in the memory.
    under_way: [usize; 2],
}

impl State<'_> {
    fn fill(&mut self) {
        loop {
            let held = self.held.take().or_else(|| {
                let all = self.under_way.iter().sum::<usize>();
                let fence = self.thread.fence;
                let waits = all > 0 && fence.is_some_and(|n| self.made.is_multiple_of(n));
                (!waits).then(|| {
                    self.made += 1;
                    (self.thread.accesses)(self.made - 1)
                })
            });
            let Some(a) = held else { return };
            let n = &mut self.under_way[a.0 as usize];
            if *n == self.thread.most {
                self.held = Some(a);
                return;
            }
            *n += 1;
            self.waiting[a.0 as usize].push(a.1);
        }
    }
}

/// Bytes a second of reads and of writes, in GB/s, over the last three quarters of `n` sectors. `way` tells
/// the memory's ways apart: one that takes no request does not hold up those for others.
pub(super) fn bandwidth(
    d: &mut dyn MemoryModel,
    n: u64,
    threads: Vec<Thread>,
    way: impl Fn(u64) -> usize,
) -> [f64; 2] {
    let state = |thread| State {
        thread,
        made: 0,
        held: None,
        waiting: [Vec::new(), Vec::new()],
        under_way: [0, 0],
    };
    let mut threads: Vec<State> = threads.into_iter().map(state).collect();
    let mut busy = [Ps::ZERO; 16];
    let mut ends = BinaryHeap::new();
    let (mut t, mut from, mut draws, mut done) = (Ps::ZERO, Ps::ZERO, 0, Vec::new());
    let (mut sent, mut bytes) = (0, [0u64; 2]);
    threads.iter_mut().for_each(State::fill);
    while sent < n {
        while ends.peek().is_some_and(|Reverse((end, _, _))| *end <= t) {
            let Some(Reverse((_, i, kind))) = ends.pop() else {
                break;
            };
            let s: &mut State = &mut threads[i];
            s.under_way[kind] -= 1;
            s.fill();
        }
        draws += 1;
        let draw = crate::wear::mix(draws) as usize;
        // Any thread, its reads or its writes, and any of those that can be next and whose way may have room.
        let k = 2 * threads.len();
        let next = (0..k).map(|x| (draw + x) % k).find_map(|x| {
            let s = &threads[x / 2];
            let w = &s.waiting[x % 2];
            let w = &w[..w.len().min(s.thread.reorder[x % 2])];
            let mut places = (0..w.len()).map(|y| (draw / k + y) % w.len());
            let j = places.find(|&j| busy[way(w[j])] <= t)?;
            Some((x / 2, x % 2, j))
        });
        let Some((i, kind, j)) = next else {
            let blocked = busy.iter().copied().filter(|b| *b > t).min();
            let end = ends.peek().map(|Reverse((end, _, _))| *end);
            t = blocked.into_iter().chain(end).min().unwrap();
            continue;
        };
        let addr = threads[i].waiting[kind][j];
        let r = req(sent, KINDS[kind], addr);
        match d.submit(t, r).unwrap() {
            Submit::Busy(until) => busy[way(addr)] = until,
            Submit::Accepted => {
                threads[i].waiting[kind].remove(j);
                d.drain(&mut done);
                let end = done.drain(..).find(|c| c.id == sent).unwrap().done_at;
                ends.push(Reverse((end, i, kind)));
                sent += 1;
                if sent == n / 4 {
                    (from, bytes) = (t, [0, 0]);
                }
                bytes[kind] += 64;
            }
        }
    }
    bytes.map(|b| b as f64 / (t - from).as_s() * 1e-9)
}
