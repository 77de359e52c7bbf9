//! Descriptions of the memories of host and emulation: what `--method` reads and `--calibrate` writes.

use nagori_epoch::{Attribution, Model, Params, PerLine, Variant, Weight};
use nagori_memtime::units::ps_text;
use nagori_memtime::{Period, Ps};
use serde::{Deserialize, Serialize};

/// A time with its unit, or nothing.
mod optional {
    use super::{ps_text, Deserialize, Ps, Serialize};
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Time(#[serde(with = "ps_text")] Ps);

    pub fn serialize<S: Serializer>(t: &Option<Ps>, s: S) -> Result<S::Ok, S::Error> {
        t.map(Time).serialize(s)
    }
    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Option<Ps>, D::Error> {
        Ok(Option::<Time>::deserialize(d)?.map(|t| t.0))
    }
}

/// Parameters of which some may be left to others: the command line goes before a file, and a file before what the
/// source says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Method {
    /// The formulas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// Which misses count as those with a write-back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Clock of the stall cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Period>,
    /// `D0`.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub dram: Option<Ps>,
    /// `R`.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub read: Option<Ps>,
    /// `W`.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub write: Option<Ps>,
    /// `w`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// The weight of hits in L2; needed where stall cycles begin at L1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_weight: Option<Weight>,
    /// Flushed lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<PerLine>,
    /// Lines of non-temporal stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nt_store: Option<PerLine>,
}

impl Method {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// Names the line and the key that is wrong.
    pub fn parse(text: &str) -> Result<Method, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// This one, and from the other what it leaves open.
    pub fn or(self, other: Method) -> Method {
        Method {
            variant: self.variant.or(other.variant),
            attribution: self.attribution.or(other.attribution),
            clock: self.clock.or(other.clock),
            dram: self.dram.or(other.dram),
            read: self.read.or(other.read),
            write: self.write.or(other.write),
            weight: self.weight.or(other.weight),
            l2_weight: self.l2_weight.or(other.l2_weight),
            flush: self.flush.or(other.flush),
            nt_store: self.nt_store.or(other.nt_store),
        }
    }

    /// The parameters, if all are there. `from_l1`: the source's stall cycles begin at L1.
    ///
    /// # Errors
    /// Names what is missing, and where it may come from.
    pub fn model(self, from_l1: bool) -> Result<Model, String> {
        let variant = self.variant.unwrap_or_default();
        let missing = |what: &str, option: &str| {
            format!("{what} is not given: {option}, or a file with --method; `nagori native --calibrate` measures this \
                host's")
        };
        let stalls = variant.needs_stalls();
        let weight = match self.weight {
            Some(w) => w,
            None if !stalls => Weight::ONE,
            None => return Err(missing("w, the weight of misses", "--weight")),
        };
        let l2_weight = match self.l2_weight {
            Some(w) => w,
            None if !stalls || !from_l1 => Weight::ZERO,
            None => return Err(missing("the weight of hits in L2", "--l2-weight")),
        };
        let read = self
            .read
            .ok_or("R, the latency of reads, is not given (--read)")?;
        let write = match self.write {
            Some(w) => w,
            // Formulas without write-backs do not use it.
            None if !variant.needs_writebacks() => read,
            None => return Err("W, the latency of writes, is not given (--write)".into()),
        };
        let params = Params {
            variant,
            attribution: self.attribution.unwrap_or_default(),
            clock: self
                .clock
                .ok_or("the clock of the stall cycles is not known (--clock)")?,
            dram: self
                .dram
                .ok_or_else(|| missing("D0, the latency of this host's memory", "--dram"))?,
            read,
            write,
            weight,
            // Where hits in L2 are not part of the stall cycles, they have no weight.
            l2_weight: if from_l1 { l2_weight } else { Weight::ZERO },
            flush: self.flush,
            nt_store: self.nt_store,
        };
        Model::new(params).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_what_is_missing_is_told() {
        let text = "dram = \"85.7 ns\"\nweight = \"4.2\"\nread = \"300 ns\"\nwrite = \"1 us\"\nclock = \"2.2 GHz\"\n\
                    [flush]\nbase = \"120 ns\"\noverlap = \"1\"\n";
        let m = Method::parse(text).unwrap();
        let model = m.model(false).unwrap();
        assert_eq!(model.params().dram, Ps(85_700));
        assert_eq!(model.params().flush.unwrap().base, Ps(120_000));
        assert!(m.model(true).unwrap_err().contains("--l2-weight"));
        let again = toml::to_string(&m).unwrap();
        assert_eq!(Method::parse(&again).unwrap(), m);
        for (without, option) in [
            ("dram", "--dram"),
            ("weight", "--weight"),
            ("read", "--read"),
            ("write", "--write"),
            ("clock", "--clock"),
        ] {
            let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with(without)).collect();
            let e = Method::parse(&lines.join("\n"))
                .unwrap()
                .model(false)
                .unwrap_err();
            assert!(e.contains(option), "{e}");
        }
        let e = Method::parse("read = 300").unwrap_err();
        assert!(e.contains("has no unit"), "{e}");
        assert!(Method::parse("speed = 3").is_err());
        let first = Method {
            read: Some(Ps(7)),
            ..Method::default()
        };
        assert_eq!(
            (first.or(m).read, first.or(m).write),
            (Some(Ps(7)), m.write)
        );
    }

    #[test]
    fn quartz_needs_no_latency_of_writes() {
        let m = Method::parse(
            "variant = \"quartz\"\nread = \"2 ns\"\ndram = \"1 ns\"\nweight = \"2\"\nclock = \"1 \
            GHz\"",
        )
        .unwrap();
        assert!(m.model(false).is_ok());
    }
}
