//! The machine's parameters by name: the writable rows of the register table.
use nagori_machine::Machine;
use nagori_memtime::{Method, Period, Ps};
use nagori_platform::control::{
    method_from_number, method_number, Access, ControlError, Fixed, FixedRow, FIXED,
};
use nagori_remote::api::{Parameter, Parameters, SetValue};
use nagori_remote::rpc::{RpcError, INVALID_PARAMS};
use std::collections::BTreeMap;

/// Registers that are of use to a guest only.
const NOT_PARAMETERS: [Fixed; 7] = [
    Fixed::Error,
    Fixed::StatsControl,
    Fixed::Label,
    Fixed::LabelText,
    Fixed::SpaceName,
    Fixed::HostRequest,
    Fixed::MemorySet,
];

fn rows() -> impl Iterator<Item = &'static FixedRow> {
    FIXED
        .iter()
        .filter(|r| r.access == Access::ReadWrite && !r.reg.is_iomap())
        .filter(|r| !NOT_PARAMETERS.contains(&r.reg))
}

fn name(row: &FixedRow) -> String {
    row.name.to_ascii_lowercase()
}

fn wrong(text: String) -> RpcError {
    RpcError::new(INVALID_PARAMS, text)
}

fn row(wanted: &str) -> Result<&'static FixedRow, RpcError> {
    rows().find(|r| name(r) == wanted).ok_or_else(|| {
        let known: Vec<_> = rows().map(name).collect();
        wrong(format!(
            "there is no parameter `{wanted}`; there are {}",
            known.join(", ")
        ))
    })
}

fn describe(machine: &mut Machine, row: &FixedRow) -> Parameter {
    let value = machine.parameter(row.reg);
    let clock = machine.config().memory.controller.clock;
    let method = (row.reg == Fixed::Method).then(|| method_from_number(value));
    Parameter {
        value,
        name: method.flatten().map(|m| m.name().to_string()),
        unit: row.unit.to_string(),
        ps: (row.unit == "clocks").then(|| clock.edge(value).0),
        doc: row.doc.to_string(),
    }
}

/// Prefix of the names of values of a region's own memory, as in a machine's description.
const REGIONS: &str = "memory.regions.";

/// Changeable values of regions' own memories.
fn of_regions(machine: &Machine) -> impl Iterator<Item = (String, Parameter)> {
    let all = machine.region_parameters().into_iter();
    all.map(|(region, key, value)| {
        let parameter = Parameter {
            value: value.parse().unwrap_or(0),
            name: Some(value),
            unit: String::new(),
            ps: None,
            doc: format!("Value of the memory of region {region}, as its description has it"),
        };
        (format!("{REGIONS}{region}.{key}"), parameter)
    })
}

/// All parameters.
pub fn all(machine: &mut Machine) -> Parameters {
    let board: Vec<_> = rows().map(|r| (name(r), describe(machine, r))).collect();
    let parameters = board.into_iter().chain(of_regions(machine)).collect();
    Parameters { parameters }
}

/// Sets a value of a region's own memory; returns its previous value.
fn set_region(machine: &mut Machine, key: &str, value: &str) -> Result<String, RpcError> {
    let (region, inner) = key
        .strip_prefix(REGIONS)
        .and_then(|k| k.split_once('.'))
        .ok_or_else(|| wrong(format!("`{key}`: expected {REGIONS}NAME.KEY")))?;
    let all = machine.region_parameters();
    let found = all.into_iter().find(|(r, k, _)| r == region && k == inner);
    machine
        .set_region_parameter(region, inner, value)
        .map_err(|e| wrong(format!("{e}; nothing was set")))?;
    Ok(found.map(|f| f.2).unwrap_or_default())
}

/// Sets parameters, all or none; returns those set.
pub fn set(
    machine: &mut Machine,
    values: &BTreeMap<String, SetValue>,
) -> Result<Parameters, RpcError> {
    let clock = machine.config().memory.controller.clock;
    let mut wanted = Vec::new();
    let mut regions = Vec::new();
    for (key, value) in values {
        if key.starts_with(REGIONS) {
            let text = match value {
                SetValue::Text(t) => t.clone(),
                SetValue::Number(n) => n.to_string(),
                SetValue::Switch(on) => on.to_string(),
            };
            regions.push((key, text));
            continue;
        }
        let row = row(key)?;
        wanted.push((row, number(row, value, clock)?));
    }
    let mut changed: Vec<(&String, String)> = Vec::new();
    for (key, value) in &regions {
        match set_region(machine, key, value) {
            Ok(old) => changed.push((key, old)),
            Err(e) => {
                undo(machine, changed);
                return Err(e);
            }
        }
    }
    let mut before = Vec::new();
    for (row, value) in &wanted {
        let old = machine.parameter(row.reg);
        if let Err(e) = machine.set_parameter(row.reg, *value) {
            // These were in use a moment ago, so they are accepted, the last one first.
            for (reg, old) in before.into_iter().rev() {
                let _ = machine.set_parameter(reg, old);
            }
            undo(machine, changed);
            return Err(refusal(row, *value, e));
        }
        before.push((row.reg, old));
    }
    let mut parameters: BTreeMap<_, _> = wanted
        .iter()
        .map(|(r, _)| (name(r), describe(machine, r)))
        .collect();
    let mine = |(key, _): &(String, Parameter)| regions.iter().any(|(k, _)| *k == key);
    parameters.extend(of_regions(machine).filter(mine));
    Ok(Parameters { parameters })
}

/// Restores values of regions' memories, the last one first: they were in use a moment ago.
fn undo(machine: &mut Machine, changed: Vec<(&String, String)>) {
    for (key, old) in changed.into_iter().rev() {
        let _ = set_region(machine, key, &old);
    }
}

fn refusal(row: &FixedRow, value: u64, e: ControlError) -> RpcError {
    wrong(format!(
        "{} cannot be {value} {}: {e}; nothing was set",
        name(row),
        row.unit
    ))
}

/// The register value for a client's value.
fn number(row: &FixedRow, value: &SetValue, clock: Period) -> Result<u64, RpcError> {
    let text = match value {
        SetValue::Number(n) => return Ok(*n),
        SetValue::Switch(on) if row.reg == Fixed::TimingMode => return Ok(u64::from(*on)),
        SetValue::Switch(_) => {
            return Err(wrong(format!("{} is not a switch", name(row))));
        }
        SetValue::Text(text) => text,
    };
    if row.reg == Fixed::Method {
        let found = Method::ALL.into_iter().find(|m| m.name() == text);
        return found.map(method_number).ok_or_else(|| {
            let known = Method::ALL.map(Method::name).join(", ");
            wrong(format!("there is no method `{text}`; there are {known}"))
        });
    }
    if let Some(n) = plain(text) {
        return Ok(n);
    }
    if row.unit != "clocks" {
        return Err(wrong(format!("{}: `{text}` is no number", name(row))));
    }
    let time: Ps = text
        .parse()
        .map_err(|e| wrong(format!("{}: {e}", name(row))))?;
    clock
        .whole_clocks(time)
        .map_err(|e| wrong(format!("{}: {e}", name(row))))
}

/// A number, also with 0x.
fn plain(text: &str) -> Option<u64> {
    nagori_values::count(text, ..).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_config::{Library, Machine as Description};

    fn machine() -> Machine {
        let d = Description::load(&Library::installed(), "vc707", &[]).unwrap();
        Machine::new(&d).unwrap()
    }

    fn values(of: &[(&str, SetValue)]) -> BTreeMap<String, SetValue> {
        of.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
    }

    fn text(s: &str) -> SetValue {
        SetValue::Text(s.into())
    }

    #[test]
    fn every_parameter_can_be_set_to_what_it_is() {
        let mut m = machine();
        let before = all(&mut m);
        assert!(before.parameters.len() > 15);
        let same = before.parameters.iter();
        let same = same.map(|(k, p)| (k.clone(), SetValue::Number(p.value)));
        assert_eq!(set(&mut m, &same.collect()).unwrap(), before);
    }

    #[test]
    fn names_times_and_numbers_are_understood() {
        let mut m = machine();
        let clock = m.parameter(Fixed::ClockPs);
        let answer = set(
            &mut m,
            &values(&[
                ("method", text("extended")),
                ("coarse_read", text(&format!("{} ps", 40 * clock))),
                ("coarse_write", text("0x10")),
                ("timed", SetValue::Switch(false)),
            ]),
        )
        .unwrap()
        .parameters;
        assert_eq!(answer["method"].name.as_deref(), Some("extended"));
        assert_eq!(answer["coarse_read"].value, 40);
        assert_eq!(answer["coarse_read"].ps, Some(40 * clock));
        assert_eq!(answer["coarse_write"].value, 16);
        assert!(!m.timed());
    }

    #[test]
    fn what_is_refused_leaves_everything_as_it_was() {
        let mut m = machine();
        let before = all(&mut m);
        for bad in [
            ("nothing", SetValue::Number(1)),
            ("timed", SetValue::Number(2)),
            ("timed", text("maybe")),
            ("method", text("slow")),
            ("base_rcd", SetValue::Number(u64::MAX)),
            ("base_rcd", SetValue::Switch(true)),
            ("base_rcd", text("1 ps")),
            ("base_rcd", text("1 parsec")),
            ("nvmm_base", SetValue::Number(1)),
        ] {
            let many = values(&[("added_rcd", SetValue::Number(3)), bad.clone()]);
            let e = set(&mut m, &many).expect_err(bad.0);
            assert_eq!(e.code, INVALID_PARAMS);
            assert_eq!(all(&mut m), before, "{bad:?}");
        }
    }
}
