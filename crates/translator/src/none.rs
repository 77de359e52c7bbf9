//! Hosts without a translator.

use crate::{Error, Options, Piece, Stats};
use nagori_hart::engine::{Engine, Ran};
use nagori_hart::mode::Mode;
use nagori_hart::world::World;
use nagori_hart::{CodeCache, Hart};
use std::marker::PhantomData;

/// Never built on this host.
#[derive(Debug)]
pub struct Translator<W>(PhantomData<fn(W)>);

impl<W> Translator<W> {
    /// Whether there is a translator for this host.
    pub const SUPPORTED: bool = false;

    /// Always an error on this host.
    pub fn new(_: Options) -> Result<Self, Error> {
        Err(Error::Host)
    }

    /// What the translator has done so far.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Measures from now on.
    pub fn measure(&mut self) {}

    /// Keeps a list of all code from now on.
    pub fn keep_pieces(&mut self) {}

    /// The code of blocks.
    pub fn pieces(&self) -> Vec<&Piece> {
        Vec::new()
    }

    /// Forgets all code.
    pub fn forget(&mut self) {}

    /// Called before a run of the hart.
    pub fn begin(&mut self, _: &Hart) {}

    /// Called after a run of the hart.
    pub fn end(&mut self, _: &Hart) {}
}

impl<W: World> Engine<W> for Translator<W> {
    fn run<M: Mode>(&mut self, _: &mut Hart, _: &mut CodeCache, _: &mut W, _: u32, _: u64) -> Ran {
        Ran::Cold
    }
}
