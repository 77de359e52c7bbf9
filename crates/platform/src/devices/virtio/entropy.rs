//! Entropy source whose bytes are derived from a seed.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::device::{DeviceState, StateError};
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-rng";
/// Greatest number of bytes given for a request, whatever its length.
const CHUNK: usize = 4096;

/// State of the generator: its position in the seed's stream.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct State {
    seed: u64,
    /// 32-bit words taken from the stream.
    words: u64,
}

/// virtio entropy device (type 4): ChaCha20 keyed by the machine's seed.
#[derive(Debug)]
pub struct Entropy {
    rng: ChaCha20Rng,
    state: State,
}

impl Entropy {
    /// A source of the stream that belongs to `seed`.
    pub fn new(seed: u64) -> Entropy {
        Entropy::at(State { seed, words: 0 })
    }

    fn at(state: State) -> Entropy {
        let mut rng = ChaCha20Rng::seed_from_u64(state.seed);
        rng.set_word_pos(u128::from(state.words));
        Entropy { rng, state }
    }
}

impl VirtioBackend for Entropy {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        4
    }

    fn features(&self) -> u64 {
        0
    }

    fn queues(&self) -> usize {
        1
    }

    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError> {
        // No more than the queue can hold, even if the rings change meanwhile.
        for _ in 0..port.queue_size(queue) {
            let Some(chain) = port.pop(queue)? else { break };
            let mut written = 0u32;
            for buffer in chain.buffers.iter().filter(|b| b.writable) {
                let mut bytes = [0; CHUNK];
                let bytes = &mut bytes[..CHUNK.min(buffer.len as usize)];
                self.rng.fill_bytes(bytes);
                self.state.words = self.rng.get_word_pos() as u64;
                port.write(&chain, written.into(), bytes)?;
                written += bytes.len() as u32;
                if bytes.len() < buffer.len as usize {
                    break;
                }
            }
            port.complete(queue, chain.head, written)?;
        }
        Ok(())
    }

    fn reset(&mut self) {
        // A restarted guest gets new bytes; the stream continues.
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        *self = Entropy::at(state.unpack(KIND, 1)?);
        Ok(())
    }
}
