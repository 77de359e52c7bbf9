//! Hosts without a translator.

use crate::{Error, Options, Stats};
use nagori_hart::engine::{Engine, Ran};
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
}

impl<W: World> Engine<W> for Translator<W> {
    fn run<const TIMED: bool>(
        &mut self,
        _: &mut Hart,
        _: &mut CodeCache,
        _: &mut W,
        _: u32,
        _: u64,
    ) -> Ran {
        Ran::Cold
    }
}
