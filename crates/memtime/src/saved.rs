//! The state of a model as data.
//!
//! Each model has a format with a version of its own. The data depends only on the state, not on
//! its history: heaps are sorted, free slots are left out, and large arrays hold only what is in
//! use.

use std::any::Any;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::Error;

/// The state of one kind of model.
pub(crate) trait Saved: Any + fmt::Debug + Send + Sync + erased_serde::Serialize {
    /// Its name in data.
    fn tag(&self) -> &'static str;

    /// Name of the model, for messages.
    fn kind(&self) -> &'static str;

    /// Adds the ids of outstanding completions.
    fn add_owed(&self, ids: &mut Vec<u64>);

    fn clone_box(&self) -> Box<dyn Saved>;
}

erased_serde::serialize_trait_object!(Saved);

/// Makes a type the state of a kind of model, by its name in data and in messages. It adds the ids of outstanding
/// completions by a method `add_owed`.
macro_rules! saved {
    ($type:ty, $tag:literal, $kind:literal) => {
        impl crate::saved::Saved for $type {
            fn tag(&self) -> &'static str {
                $tag
            }
            fn kind(&self) -> &'static str {
                $kind
            }
            fn add_owed(&self, ids: &mut Vec<u64>) {
                <$type>::add_owed(self, ids);
            }
            fn clone_box(&self) -> Box<dyn crate::saved::Saved> {
                Box::new(self.clone())
            }
        }
    };
}
pub(crate) use saved;

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
    pub(crate) fn new(state: impl Saved) -> SavedModel {
        SavedModel(Box::new(state))
    }

    /// Name of the model, for messages.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The state of a kind of model; an error that names both kinds for that of another one.
    pub(crate) fn of<T: Saved>(self, model: &str) -> Result<T, Error> {
        let found = self.kind();
        let state: Box<dyn Any> = self.0;
        match state.downcast::<T>() {
            Ok(state) => Ok(*state),
            Err(_) => Err(bad(format!("it is one of a {found}, not of a {model}"))),
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
