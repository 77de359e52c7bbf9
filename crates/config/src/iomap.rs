//! Descriptions of the table that translates I/O addresses.

use super::problem::{ensure, within, Problem};
use nagori_iomap::{ports, Entry, Kind, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table between the physical addresses of harts and the devices: it translates accesses of supervisor and user
/// mode by the VM that the hart runs. Accesses of machine mode pass it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IomapConfig {
    /// What kind of table there is, if there is one.
    pub kind: IomapKind,
    /// Entries of a `full` table, 1 to 1024, or of a `small` one, a power of two from 4 to 64. A constant table has
    /// those of its maps.
    pub entries: u32,
    /// How a small table chooses the entry that a new one replaces.
    pub replacement: IomapReplacement,
    /// Core cycles that an access takes longer because it goes through the table, 0 to 1000.
    pub hit_cycles: u32,
    /// Entries of a constant table, one a line in the form of `nagori iomap merge`: FROM TO SIZE [xCOUNT] [vm=N]
    /// [r|w|rw]. The size is a power of two, at least 4.
    pub map: Vec<String>,
    /// Whether the addresses that devices access by themselves are translated, too, by a table of their own of the
    /// same kind and size.
    pub dma: IomapDma,
    /// Entries of a constant table for devices: FROM is the device's address, TO that of memory.
    pub dma_map: Vec<String>,
}

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IomapKind {
    /// There is no table.
    None,
    /// Its entries are those of the description, and cannot be written.
    Constant,
    /// As many entries as are needed, written by machine mode.
    Full,
    /// Few entries, of which a new one replaces another.
    Small,
}

/// Replacement of a small table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IomapReplacement {
    /// The entry that was not used for longest.
    Lru,
    /// The entry that was filled first.
    Fifo,
    /// One that a shift register names.
    Random,
    /// The one that software names.
    Software,
}

/// What becomes of the addresses of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IomapDma {
    /// They are physical addresses.
    Direct,
    /// They are translated by the VM to which the device belongs.
    Translated,
}

impl Default for IomapConfig {
    fn default() -> Self {
        IomapConfig {
            kind: IomapKind::None,
            entries: 16,
            replacement: IomapReplacement::Lru,
            hit_cycles: 1,
            map: Vec::new(),
            dma: IomapDma::Direct,
            dma_map: Vec::new(),
        }
    }
}

impl IomapConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == IomapConfig::default()
    }

    /// The kind, in the words of the model of the table.
    fn model(&self) -> Option<Kind> {
        use nagori_iomap::Replacement as R;
        Some(match self.kind {
            IomapKind::None => return None,
            IomapKind::Constant => Kind::Constant,
            IomapKind::Full => Kind::Full,
            IomapKind::Small => Kind::Small(match self.replacement {
                IomapReplacement::Lru => R::Lru,
                IomapReplacement::Fifo => R::Fifo,
                IomapReplacement::Random => R::Random,
                IomapReplacement::Software => R::Software,
            }),
        })
    }

    /// The table of the harts and, if devices have one, theirs; as they are at power-on.
    pub fn tables(&self) -> Option<(Table, Option<Table>)> {
        // The description has been checked.
        self.build().ok().flatten()
    }

    fn build(&self) -> Result<Option<(Table, Option<Table>)>, Problem> {
        let Some(kind) = self.model() else {
            return Ok(None);
        };
        let table = |key: &str, lines: &[String]| {
            let table = match kind {
                Kind::Constant => Table::constant(&entries(key, lines)?),
                _ => Table::new(kind, self.entries as usize),
            };
            let key = match kind {
                Kind::Constant => key,
                _ => "iomap.entries",
            };
            table.map_err(|e| Problem::new(key.into(), e.to_string()))
        };
        let harts = table("iomap.map", &self.map)?;
        let dma = match self.dma {
            IomapDma::Direct => None,
            IomapDma::Translated => Some(table("iomap.dma_map", &self.dma_map)?),
        };
        Ok(Some((harts, dma)))
    }

    /// Where a VM sees a range of the bus, if a constant entry gives it the whole of it.
    pub fn seen_at(&self, vm: u16, base: u64, size: u64) -> Option<u64> {
        let entries = match self.kind {
            IomapKind::Constant => entries("iomap.map", &self.map).ok()?,
            _ => return None,
        };
        let holds = |e: &Entry| {
            let bytes = 1u64 << e.size_log2;
            let end = base.checked_add(size)?;
            let inside = base >= e.to && end <= e.to.checked_add(bytes)?;
            (e.vm == vm && inside).then(|| e.from + (base - e.to))
        };
        entries.iter().find_map(holds)
    }
}

/// The entries of a list of lines.
fn entries(key: &str, lines: &[String]) -> Result<Vec<Entry>, Problem> {
    let mut all = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let wrong = |what: String| Problem::new(format!("{key}[{i}]"), format!("`{line}`: {what}"));
        let list = ports::parse(line).map_err(|e| wrong(e.what))?;
        if list.ports.is_empty() || !list.kept.is_empty() {
            return Err(wrong(
                "expected an entry: FROM TO SIZE [xCOUNT] [vm=N] [r|w|rw]".into(),
            ));
        }
        for p in &list.ports {
            if !p.size.is_power_of_two() {
                return Err(wrong(format!("the size {} is no power of two", p.size)));
            }
            let e = Entry {
                vm: p.vm,
                from: p.from,
                to: p.to,
                size_log2: p.size.ilog2(),
                rights: p.rights,
            };
            e.validate().map_err(|e| wrong(e.to_string()))?;
            all.push(e);
        }
    }
    Ok(all)
}

pub(super) fn check(c: &IomapConfig) -> Result<(), Problem> {
    within("iomap.hit_cycles", c.hit_cycles.into(), 0, 1000)?;
    let constant = c.kind == IomapKind::Constant;
    for (key, list) in [("iomap.map", &c.map), ("iomap.dma_map", &c.dma_map)] {
        ensure(constant || list.is_empty(), key, || {
            "only a constant table has entries from the start: set iomap.kind to constant".into()
        })?;
    }
    ensure(
        c.dma == IomapDma::Translated || c.dma_map.is_empty(),
        "iomap.dma_map",
        || "has a meaning only with iomap.dma = translated".into(),
    )?;
    ensure(
        c.dma == IomapDma::Direct || c.kind != IomapKind::None,
        "iomap.dma",
        || "there is no table: say with iomap.kind which one".into(),
    )?;
    c.build().map(drop)
}
