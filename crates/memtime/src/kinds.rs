//! Every kind of saved model, by its name in data.

use serde::{Deserialize, Deserializer};

use crate::saved::SavedModel;
use crate::{board, cache, cxl, dram, function, hybrid, interleaved, worn, xpoint};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Board(Box<board::SavedController>),
    Dram(Box<dram::Saved>),
    Xpoint(Box<xpoint::Saved>),
    Cxl(Box<cxl::Saved>),
    Cache(Box<cache::Saved>),
    Hybrid(Box<hybrid::Saved>),
    Interleaved(Box<interleaved::Saved>),
    Worn(Box<worn::Saved>),
    Function(function::Saved),
}

impl<'de> Deserialize<'de> for SavedModel {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SavedModel, D::Error> {
        Ok(match Kind::deserialize(d)? {
            Kind::Board(s) => SavedModel::new(*s),
            Kind::Dram(s) => SavedModel::new(*s),
            Kind::Xpoint(s) => SavedModel::new(*s),
            Kind::Cxl(s) => SavedModel::new(*s),
            Kind::Cache(s) => SavedModel::new(*s),
            Kind::Hybrid(s) => SavedModel::new(*s),
            Kind::Interleaved(s) => SavedModel::new(*s),
            Kind::Worn(s) => SavedModel::new(*s),
            Kind::Function(s) => SavedModel::new(s),
        })
    }
}
