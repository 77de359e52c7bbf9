//! One device in code, for tests and examples of this crate. The presets for users are files.

use super::expr::Expr;
use super::spec::{
    Command, DeviceSpec, Energy, Idd, Organisation, Refresh, RowState, Rule, Scope, Timing,
};
use crate::error::Error;
use crate::period::Period;

const JEDEC: &str = "JEDEC JESD79-3F, DDR3-1600K";

/// DDR3-1600K, eight x8 devices of 4 Gbit, one rank, 8 banks: 4 GiB a channel.
pub fn ddr3_1600k() -> Result<DeviceSpec, Error> {
    let timings = [
        ("CL", "11 nCK"),
        ("CWL", "8 nCK"),
        ("BL", "8 nCK"),
        ("tRCD", "13.75 ns"),
        ("tRP", "13.75 ns"),
        ("tRAS", "35 ns"),
        ("tRC", "48.75 ns"),
        ("tCCD", "4 nCK"),
        ("tRRD", "max(4 nCK, 6 ns)"),
        ("tFAW", "30 ns"),
        ("tRTP", "max(4 nCK, 7.5 ns)"),
        ("tWTR", "max(4 nCK, 7.5 ns)"),
        ("tWR", "15 ns"),
        ("tRTRS", "2 nCK"),
        ("tRFC", "260 ns"),
        ("tREFI", "7800 ns"),
    ];
    use Command::{Act, Pre, Rd, RefAll, Wr};
    let rules = [
        (Act, Rd, Scope::Bank, "tRCD", 1),
        (Act, Wr, Scope::Bank, "tRCD", 1),
        (Act, Pre, Scope::Bank, "tRAS", 1),
        (Act, Act, Scope::Bank, "tRC", 1),
        (Pre, Act, Scope::Bank, "tRP", 1),
        (Rd, Pre, Scope::Bank, "tRTP", 1),
        (Wr, Pre, Scope::Bank, "CWL + BL/2 + tWR", 1),
        (Act, Act, Scope::Rank, "tRRD", 1),
        (Act, Act, Scope::Rank, "tFAW", 4),
        (Rd, Rd, Scope::Rank, "tCCD", 1),
        (Wr, Wr, Scope::Rank, "tCCD", 1),
        (Rd, Wr, Scope::Rank, "CL + BL/2 + 2 - CWL", 1),
        (Wr, Rd, Scope::Rank, "CWL + BL/2 + tWTR", 1),
        (Rd, Rd, Scope::OtherRank, "BL/2 + tRTRS", 1),
        (Wr, Wr, Scope::OtherRank, "BL/2 + tRTRS", 1),
        (Rd, Wr, Scope::OtherRank, "CL + BL/2 + tRTRS - CWL", 1),
        (
            Wr,
            Rd,
            Scope::OtherRank,
            "max(1, CWL + BL/2 + tRTRS - CL)",
            1,
        ),
        (Pre, RefAll, Scope::Rank, "tRP", 1),
        (Act, RefAll, Scope::Rank, "tRC", 1),
        (RefAll, Act, Scope::Rank, "tRFC", 1),
        (RefAll, RefAll, Scope::Rank, "tRFC", 1),
    ];
    let source = || JEDEC.to_owned();
    Ok(DeviceSpec {
        name: "DDR3-1600K-4Gb-x8".to_owned(),
        technology: "DDR3".to_owned(),
        source: source(),
        clock: Period::of_ps(1250).expect("a period"),
        organisation: Organisation {
            ranks: 1,
            bank_groups: 1,
            banks_per_group: 8,
            rows: 1 << 16,
            columns: 1 << 10,
            device_width: 8,
            channel_width: 64,
            burst_length: 8,
        },
        timings: timings
            .iter()
            .map(|(name, value)| {
                Ok(Timing {
                    name: (*name).to_owned(),
                    value: Expr::parse(value)?,
                    source: source(),
                })
            })
            .collect::<Result<_, Error>>()?,
        rules: rules
            .iter()
            .map(|&(prev, next, scope, latency, window)| {
                Ok(Rule {
                    prev,
                    next,
                    scope,
                    latency: Expr::parse(latency)?,
                    window,
                    row: RowState::Any,
                    source: source(),
                })
            })
            .collect::<Result<_, Error>>()?,
        read_data: Expr::parse("CL + BL/2")?,
        write_data: Expr::parse("CWL + BL/2")?,
        refresh: vec![Refresh {
            command: RefAll,
            interval: Expr::parse("tREFI")?,
            source: source(),
        }],
        write_pause: None,
        energy: Some(Energy::Idd(Idd {
            vdd: 1.5,
            idd0: 55.0,
            idd2n: 32.0,
            idd3n: 38.0,
            idd4r: 157.0,
            idd4w: 118.0,
            idd5b: 155.0,
            tras: Expr::parse("tRAS")?,
            trc: Expr::parse("tRC")?,
            burst: Expr::parse("BL/2")?,
            trfc: Expr::parse("tRFC")?,
            source: "Micron MT41J512M8 data sheet, speed grade -125".to_owned(),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_round_trips() {
        let d = ddr3_1600k().unwrap();
        d.validate().unwrap();
        assert_eq!(d.organisation.channel_bytes(), 4 << 30);
        assert_eq!(d.organisation.access_bytes(), 64);
        let text = serde_json::to_string(&d).unwrap();
        assert_eq!(serde_json::from_str::<DeviceSpec>(&text).unwrap(), d);
        let t = d.resolve_timings().unwrap();
        let get = |n| t.iter().find(|t| t.0 == n).unwrap().1;
        assert_eq!((get("tRCD"), get("tRAS"), get("tRC")), (11, 28, 39));
        assert_eq!((get("tRRD"), get("tFAW"), get("tREFI")), (5, 24, 6240));
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |f: &dyn Fn(&mut DeviceSpec), hint: &str| {
            let mut d = ddr3_1600k().unwrap();
            f(&mut d);
            let e = d.validate().unwrap_err().to_string();
            assert!(e.contains(hint), "{e}");
        };
        let time = |d: &mut DeviceSpec, name: &str, v: &str| {
            let t = d.timings.iter_mut().find(|t| t.name == name).unwrap();
            t.value = Expr::parse(v).unwrap();
        };
        check(&|d| time(d, "tRC", "47 ns"), "tRAS + tRP");
        check(&|d| time(d, "tRAS", "10 ns"), "tRCD");
        check(&|d| d.timings.remove(3).name.clear(), "'tRCD' is no timing");
        check(&|d| d.rules.truncate(19), "tRFC");
        check(&|d| d.rules[0].next = Command::RdA, "RDA");
        check(&|d| d.organisation.rows = 3, "power of two");
        check(&|d| time(d, "tREFI", "200 ns"), "interval");
        check(&|d| d.timings.push(d.timings[0].clone()), "twice");
        check(&|d| d.rules[5].row = RowState::Dirty, "after PRE");
    }
}
