//! Saved state of a device.

use serde::{de::DeserializeOwned, Deserialize, Serialize};

/// Saved state of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// [`Device::kind`](crate::device::Device::kind) of the device that wrote it.
    pub kind: String,
    /// Version of the layout of `data`.
    pub version: u32,
    /// The device's fields.
    pub data: serde_json::Value,
}

/// Saved state that does not match the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The state was written by something else.
    #[error("state of `{found}` version {found_version} given to `{expected}`, which reads version {expected_version}")]
    Kind {
        /// Kind in the state.
        found: String,
        /// Version in the state.
        found_version: u32,
        /// Kind of the device.
        expected: &'static str,
        /// Version that the device reads.
        expected_version: u32,
    },
    /// The fields do not have the right form or range.
    #[error("state of `{kind}`: {problem}")]
    Content {
        /// Kind of the device.
        kind: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The saved machine had other devices.
    #[error("the state has {found} devices, the machine {expected}")]
    Devices {
        /// Number in the state.
        found: usize,
        /// Number in the machine.
        expected: usize,
    },
}

impl DeviceState {
    /// Packs a plain struct.
    pub fn pack<T: Serialize>(kind: &'static str, version: u32, data: &T) -> DeviceState {
        let data = serde_json::to_value(data).expect("plain structs have a JSON form");
        DeviceState {
            kind: kind.into(),
            version,
            data,
        }
    }

    /// Unpacks a plain struct, checking kind and version.
    pub fn unpack<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        version: u32,
    ) -> Result<T, StateError> {
        if self.kind != kind || self.version != version {
            return Err(StateError::Kind {
                found: self.kind.clone(),
                found_version: self.version,
                expected: kind,
                expected_version: version,
            });
        }
        serde_json::from_value(self.data.clone()).map_err(|e| StateError::Content {
            kind,
            problem: e.to_string(),
        })
    }
}
