//! States of machines as bytes.

use crate::error::SnapshotError;
use nagori_machine::MachineState;

/// A state as CBOR, as it stands in snapshots.
pub fn encode(state: &MachineState) -> Result<Vec<u8>, SnapshotError> {
    let mut plain = Vec::new();
    ciborium::into_writer(state, &mut plain).map_err(SnapshotError::encode)?;
    Ok(plain)
}

/// What [`encode`] has made.
pub fn decode(plain: &[u8]) -> Result<MachineState, SnapshotError> {
    ciborium::from_reader(plain)
        .map_err(|_| SnapshotError::Damaged("the state is not what this program writes"))
}
