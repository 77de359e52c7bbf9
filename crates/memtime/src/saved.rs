//! The state of a model as data.
//!
//! Each model has a format with a version of its own. The data depends only on the state, not on
//! its history: heaps are sorted, free slots are left out, and large arrays hold only what is in
//! use.

use std::any::Any;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::Error;

/// The state of one kind of model. The kinds are in `kinds.rs`.
pub(crate) trait State: Any + Clone + fmt::Debug + Send + Sync + Serialize {
    /// Its name in data.
    const TAG: &'static str;
    /// Name of the model, for messages.
    const KIND: &'static str;

    /// Adds the ids of outstanding completions.
    fn add_owed(&self, ids: &mut Vec<u64>);
}

/// The state of some kind of model.
trait Saved: Any + fmt::Debug + Send + Sync + erased_serde::Serialize {
    fn tag(&self) -> &'static str;
    fn kind(&self) -> &'static str;
    fn add_owed(&self, ids: &mut Vec<u64>);
    fn clone_box(&self) -> Box<dyn Saved>;
}

erased_serde::serialize_trait_object!(Saved);

impl<T: State> Saved for T {
    fn tag(&self) -> &'static str {
        T::TAG
    }
    fn kind(&self) -> &'static str {
        T::KIND
    }
    fn add_owed(&self, ids: &mut Vec<u64>) {
        State::add_owed(self, ids);
    }
    fn clone_box(&self) -> Box<dyn Saved> {
        Box::new(self.clone())
    }
}

/// The complete state of a [`MemoryModel`](crate::MemoryModel), except for its log of commands. See
/// [`MemoryModel::save`](crate::MemoryModel::save).
#[derive(Debug)]
pub struct SavedModel(Box<dyn Saved>);

impl Clone for SavedModel {
    fn clone(&self) -> SavedModel {
        SavedModel(self.0.clone_box())
    }
}

impl Serialize for SavedModel {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // Only the name counts, as the formats in use say what they contain.
        s.serialize_newtype_variant("SavedModel", 0, self.0.tag(), &*self.0)
    }
}

impl SavedModel {
    pub(crate) fn new(state: impl State) -> SavedModel {
        SavedModel(Box::new(state))
    }

    /// Name of the model, for messages.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The state of a kind of model; an error that names both kinds for that of another one.
    pub(crate) fn of<T: State>(self) -> Result<T, Error> {
        let found = self.kind();
        let state: Box<dyn Any> = self.0;
        match state.downcast::<T>() {
            Ok(state) => Ok(*state),
            Err(_) => {
                let asked = T::KIND;
                Err(bad(format!("it is one of a {found}, not of a {asked}")))
            }
        }
    }

    /// Ids of the outstanding completions, in ascending order.
    pub(crate) fn owed(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        self.add_owed(&mut ids);
        ids.sort_unstable();
        ids
    }

    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        self.0.add_owed(ids);
    }
}

pub(crate) fn bad(what: impl Into<String>) -> Error {
    Error::SavedState(what.into())
}
