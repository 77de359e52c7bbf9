//! Every kind of saved model.

use serde::{Deserialize, Deserializer};

use crate::saved::{SavedModel, State};
use crate::{board, cache, cxl, dram, function, hybrid, interleaved, worn, xpoint};

/// Rows `variant: state = name in data, name in messages`. A state adds its outstanding completions by a method
/// `add_owed`.
macro_rules! kinds {
    ($($variant:ident: $state:ty = $tag:literal, $kind:literal;)*) => {
        #[derive(Deserialize)]
        enum Kind {
            $(#[serde(rename = $tag)] $variant(Box<$state>),)*
        }

        impl<'de> Deserialize<'de> for SavedModel {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SavedModel, D::Error> {
                Ok(match Kind::deserialize(d)? {
                    $(Kind::$variant(s) => SavedModel::new(*s),)*
                })
            }
        }

        $(impl State for $state {
            const TAG: &'static str = $tag;
            const KIND: &'static str = $kind;

            fn add_owed(&self, ids: &mut Vec<u64>) {
                <$state>::add_owed(self, ids);
            }
        })*
    };
}

kinds! {
    Board: board::SavedController = "board", "board controller";
    Dram: dram::Saved = "dram", "general controller";
    Xpoint: xpoint::Saved = "xpoint", "xpoint DIMM";
    Cxl: cxl::Saved = "cxl", "cxl link";
    Cache: cache::Saved = "cache", "cache";
    Hybrid: hybrid::Saved = "hybrid", "flat hybrid";
    Interleaved: interleaved::Saved = "interleaved", "interleaved memory";
    Worn: worn::Saved = "worn", "memory with wear";
    Function: function::Saved = "function", "memory whose times a function gives";
}
