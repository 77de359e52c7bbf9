//! A wire between two machines of one process, in their own time: what arrives, and when, follows from the
//! machines alone, so runs are reproducible.
//!
//! Between the machines is a switch: it takes a frame when the sender has sent it, and offers it to the receiver
//! after a fixed delay. Whoever runs the machines must not let one of them pass the earliest time at which
//! something of the other can arrive.

use crate::link::{Frame, Guest, Link};
use crate::offload::finish;
use crate::Error;
use mio::Poll;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that wait in front of a receiver; more are lost, as in a switch. As much as common switches of 100 Mbit/s have
/// for all ports.
const PORT_BYTES: usize = 512 << 10;

/// What is on its way in one direction.
#[derive(Default)]
struct Way {
    /// When each frame arrives, in the receiver's time; in the order of sending.
    flying: VecDeque<(Duration, Frame)>,
    /// Frames for which the port had no room.
    lost: u64,
}

#[derive(Default)]
struct Shared {
    /// To the first end, and to the second.
    ways: [Way; 2],
    /// Whether both ends are there.
    cut: bool,
}

/// One end of a wire between two machines of a process.
pub struct PairEnd {
    shared: Arc<Mutex<Shared>>,
    end: usize,
    delay: Duration,
    /// What the other machine's time is ahead of this one's, in nanoseconds.
    ahead: i128,
    /// What has arrived and was not received yet.
    port: VecDeque<Frame>,
    port_bytes: usize,
    guest: Guest,
    /// Never ready: nothing comes from the host.
    poll: Poll,
}

/// A wire whose switch delays each frame by `delay`, from when its sender has sent it. `times` are those of the two
/// machines at the same moment; they may have started at different times.
pub fn pair(delay: Duration, times: [Duration; 2]) -> Result<[PairEnd; 2], Error> {
    let shared = Arc::new(Mutex::new(Shared::default()));
    let ns = times.map(|t| t.as_nanos() as i128);
    let end = |end: usize| {
        Ok(PairEnd {
            shared: shared.clone(),
            end,
            delay,
            ahead: ns[1 - end] - ns[end],
            port: VecDeque::new(),
            port_bytes: 0,
            guest: Guest::default(),
            poll: Poll::new().map_err(Error::Watch)?,
        })
    };
    Ok([end(0)?, end(1)?])
}

impl PairEnd {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frames that the switch has lost on the way to this end.
    pub fn lost(&self) -> u64 {
        self.shared().ways[self.end].lost
    }
}

impl Drop for PairEnd {
    fn drop(&mut self) {
        self.shared().cut = true;
    }
}

impl Link for PairEnd {
    fn name(&self) -> &'static str {
        "pair"
    }

    fn is_up(&self) -> bool {
        !self.shared().cut
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn send(&mut self, now: Duration, frame: Frame) {
        let there = (now + self.delay).as_nanos() as i128 + self.ahead;
        let there = Duration::from_nanos(u64::try_from(there).unwrap_or(0));
        let other = 1 - self.end;
        self.shared().ways[other].flying.push_back((there, frame));
    }

    fn run(&mut self, now: Duration) {
        let shared = self.shared.clone();
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let way = &mut shared.ways[self.end];
        while way.flying.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, frame)) = way.flying.pop_front() else {
                break;
            };
            let frames = match self.guest.segments {
                true => vec![frame],
                // A frame that cannot be finished is none.
                false => finish(frame).unwrap_or_default(),
            };
            for f in frames {
                if self.port_bytes + f.bytes.len() <= PORT_BYTES {
                    self.port_bytes += f.bytes.len();
                    self.port.push_back(f);
                } else {
                    way.lost += 1
                }
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Result<(), Error> {
        self.run(now);
        Ok(())
    }

    fn receive(&mut self) -> Option<Frame> {
        let frame = self.port.pop_front()?;
        self.port_bytes -= frame.bytes.len();
        Some(frame)
    }

    fn next_time(&mut self, now: Duration) -> Option<Duration> {
        let shared = self.shared();
        let first = shared.ways[self.end].flying.front()?.0;
        Some(first.max(now))
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    fn is_live(&self, _: Duration) -> bool {
        // Idle time may be skipped: what comes, comes at a known time.
        false
    }

    fn set_guest(&mut self, guest: Guest) {
        self.guest = guest;
    }

    fn reset(&mut self) {
        self.port.clear();
        self.port_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn frames_arrive_after_the_delay_and_not_before() {
        let [mut a, mut b] = pair(us(10), [us(1000), us(400)]).unwrap();
        a.send(us(1003), Frame::plain(vec![1; 60]));
        a.send(us(1004), Frame::plain(vec![2; 60]));
        assert_eq!(b.next_time(us(400)), Some(us(413)));
        b.run(us(413) - Duration::from_nanos(1));
        assert_eq!(b.receive(), None);
        b.run(us(413));
        assert_eq!(b.receive().unwrap().bytes[0], 1);
        assert_eq!(b.receive(), None);
        assert_eq!(b.next_time(us(413)), Some(us(414)));
        b.send(us(413), Frame::plain(vec![3; 60]));
        assert_eq!(a.next_time(us(1013)), Some(us(1023)));
        drop(b);
        assert!(!a.is_up());
    }

    #[test]
    fn a_full_port_loses_what_comes_and_counts_it() {
        let [mut a, mut b] = pair(us(1), [us(0); 2]).unwrap();
        let sent = 2 * PORT_BYTES / 1500;
        for _ in 0..sent {
            a.send(us(0), Frame::plain(vec![0; 1500]));
        }
        b.run(us(1));
        let there = std::iter::from_fn(|| b.receive()).count();
        assert_eq!(there, PORT_BYTES / 1500);
        assert_eq!(b.lost() as usize, sent - there);
        a.send(us(2), Frame::plain(vec![0; 1500]));
        b.run(us(3));
        assert!(b.receive().is_some());
    }
}
