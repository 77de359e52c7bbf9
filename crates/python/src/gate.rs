//! A service that holds a machine for a caller: it runs when it is told to, up to a point, and answers between.

use nagori_machine::{Machine, Point, Stop};
use nagori_platform::clock::Ps;
use nagori_session::drive::{Service, Wishes};
use nagori_session::{End, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::Arc;

/// Work on a machine that stands.
pub type Work = Box<dyn FnOnce(&mut Machine) + Send>;

/// What a caller wants of a machine that stands.
pub enum Order {
    /// Something with the machine.
    Do(Work),
    /// Run up to a point, or to the end; then say why it stands again.
    Go(Option<Point>, Sender<Halt>),
}

/// Why a machine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// It is at the point.
    Point,
    /// It waits for input, or for nothing that could come.
    Idle,
    /// The caller wants it to stand.
    Asked,
    /// Its run has ended.
    Ended(End),
}

/// Holds the machine between orders. When nobody is left who could give one, the run ends.
pub struct Gate {
    orders: Receiver<Order>,
    /// Whoever waits for the machine to stand, while it runs.
    waiting: Option<Sender<Halt>>,
    /// Set by a caller who wants it to stand now.
    pause: Arc<AtomicBool>,
}

impl Gate {
    /// A gate that is closed.
    pub fn new(orders: Receiver<Order>, pause: Arc<AtomicBool>) -> Gate {
        Gate {
            orders,
            waiting: None,
            pause,
        }
    }

    fn halt(&mut self, why: Halt) {
        if let Some(to) = self.waiting.take() {
            // Whoever has asked may be gone.
            let _ = to.send(why);
        }
    }

    /// Answers for a machine whose run has ended, until nobody is left who could ask.
    pub fn after_end(mut self, machine: &mut Machine, end: End) {
        self.halt(Halt::Ended(end));
        while let Ok(order) = self.orders.recv() {
            match order {
                Order::Do(work) => work(machine),
                Order::Go(_, to) => {
                    let _ = to.send(Halt::Ended(end));
                }
            }
        }
    }
}

impl Service for Gate {
    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        if self.pause.swap(false, Relaxed) && self.waiting.is_some() {
            machine.set_point(None);
            self.halt(Halt::Asked);
        }
        while self.waiting.is_none() {
            match self.orders.recv() {
                Ok(Order::Do(work)) => work(machine),
                Ok(Order::Go(point, to)) => {
                    machine.set_point(point);
                    self.waiting = Some(to);
                }
                Err(_) => {
                    wishes.end(End::Quit);
                    break;
                }
            }
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        match stop {
            Stop::Reached => self.halt(Halt::Point),
            // Only the caller could wake it.
            Stop::Idle(Ps::NEVER) if wishes.end.is_none() => {
                machine.set_point(None);
                self.halt(Halt::Idle);
            }
            _ => {}
        }
        Ok(())
    }

    fn may_wake(&self, _: &Machine) -> bool {
        // It may type something.
        self.waiting.is_none()
    }
}
