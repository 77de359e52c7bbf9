//! Store buffers and hints.

use crate::problem::{ensure, within, Problem};
use crate::stores::HintedStore;
use crate::types::MachineConfig;
use nagori_cache::config::Inclusion;

/// Checks them.
pub(super) fn check(c: &MachineConfig) -> Result<(), Problem> {
    let b = &c.store_buffer;
    within("store_buffer.entries", b.entries.into(), 0, 128)?;
    within(
        "store_buffer.forward_cycles",
        b.forward_cycles.into(),
        0,
        1000,
    )?;
    within("store_buffer.drain_cycles", b.drain_cycles.into(), 1, 1000)?;
    let registers = c.l1d.mshrs.is_some();
    ensure(b.entries == 0 || registers, "store_buffer.entries", || {
        "a store buffer requests lines with line fill buffers: say how many there are with l1d.mshrs".into()
    })?;
    for (name, h) in c.nontemporal.hints() {
        let key = |k: &str| format!("nontemporal.{name}.{k}");
        let temporal = h.store == HintedStore::Temporal;
        ensure(temporal || registers, &key("store"), || {
            "stores are combined in line fill buffers: say how many there are with l1d.mshrs".into()
        })?;
        for (k, list) in [("last", &h.last), ("bypass", &h.bypass)] {
            for level in list {
                ensure(c.cache_bit(level).is_some(), &key(k), || {
                    let levels = c.levels().into_iter().map(|(n, _)| n);
                    let known: Vec<&str> = std::iter::once("l1d").chain(levels).collect();
                    format!(
                        "`{level}` is no cache of this machine; there are {}",
                        known.join(", ")
                    )
                })?;
            }
        }
        for level in &h.bypass {
            ensure(level != "l1d", &key("bypass"), || {
                "`l1d` holds what its core accesses: expected an outer level, or `l1d` in `last`"
                    .into()
            })?;
            let inclusive = c
                .levels()
                .into_iter()
                .any(|(n, l)| n == level && l.inclusion == Inclusion::Inclusive);
            ensure(!inclusive, &key("bypass"), || {
                format!("`{level}` is inclusive, so it has every line of its inner caches: put it into `last`")
            })?;
            ensure(!h.last.contains(level), &key("bypass"), || {
                format!("`{level}` is in `last`, too")
            })?;
        }
    }
    Ok(())
}
