//! The limits of a device in whole clocks, derived from the definitions of the timings.

use crate::dram::DeviceSpec;
use crate::error::Error;

/// Limits in clocks. `None`: the device has no such limit.
///
/// Everything is derived from the timing values alone; the rule table that drives the engine is
/// not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// ACT to a column command of the bank.
    pub rcd: u64,
    /// Precharge to ACT or refresh.
    pub rp: u64,
    /// Precharge of all banks to ACT or refresh.
    pub rp_all: u64,
    /// ACT to precharge.
    pub ras: u64,
    /// ACT to ACT or refresh of the bank.
    pub rc: u64,
    /// ACT to ACT of another bank: same bank group, other bank group.
    pub rrd: [u64; 2],
    /// Five ACTs of a rank take longer than this.
    pub faw: Option<u64>,
    /// Column command to column command of the same kind: same bank group, other.
    pub ccd: [u64; 2],
    /// End of write data to read of the rank: same bank group, other.
    pub wtr: [u64; 2],
    /// Read to precharge.
    pub rtp: u64,
    /// End of write data to precharge.
    pub wr: u64,
    /// Write of the cells that the precharge of a written row begins; added to `rp`.
    pub cell_write: u64,
    /// Iteration of a cell write that can be paused, and the overhead of a resumption; `None` if it
    /// cannot be paused.
    pub pause: Option<(u64, u64)>,
    /// Read command to its first data.
    pub read_data: u64,
    /// Write command to its first data, as the turnaround from reads counts it.
    pub write_data: u64,
    /// Write command to its first data, as write recovery and the turnaround to reads count it (latest strobe).
    pub write_data_late: u64,
    /// Clocks of one burst.
    pub burst: u64,
    /// Free clocks on the data bus from read data to write data of a rank.
    pub read_to_write_gap: u64,
    /// Free clocks on the data bus between ranks.
    pub rank_gap: u64,
    /// Precharge to precharge of another bank.
    pub ppd: Option<u64>,
    /// Refresh to ACT or refresh.
    pub rfc: Option<u64>,
    /// Refresh of one bank to ACT of that bank, or to another refresh.
    pub rfc_bank: Option<u64>,
    /// Mean interval of the refreshes of a rank (or of each bank).
    pub refi: Option<u64>,
}

/// A timing value that the checker needs and the device does not give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the checker needs the timing value {0}: add it to the device")]
pub struct Missing(pub &'static str);

impl Limits {
    /// Reads the limits from timing values in clocks; `burst` is the clocks
    /// that the data of one column command occupies.
    pub fn new(get: &dyn Fn(&str) -> Option<u64>, burst: u64) -> Result<Limits, Missing> {
        let need = |name: &'static str| get(name).ok_or(Missing(name));
        let pair = |one: &'static str, long: &str, short: &str| match (get(long), get(short)) {
            (Some(l), Some(s)) => Ok([l, s]),
            _ => need(one).map(|v| [v, v]),
        };
        let low_power = get("tDQSCK").is_some();
        let (cl, cwl) = (need("CL")?, need("CWL")?);
        let rp = need("tRP")?;
        Ok(Limits {
            rcd: need("tRCD")?,
            rp,
            rp_all: get("tRPab").unwrap_or(rp),
            ras: need("tRAS")?,
            rc: need("tRC")?,
            rrd: pair("tRRD", "tRRD_L", "tRRD_S")?,
            faw: get("tFAW"),
            ccd: pair("tCCD", "tCCD_L", "tCCD_S")?,
            wtr: pair("tWTR", "tWTR_L", "tWTR_S")?,
            rtp: need("tRTP")?,
            wr: need("tWR")?,
            cell_write: get("tWP").unwrap_or(0),
            pause: None,
            read_data: cl + get("tDQSCK").unwrap_or(0),
            write_data: cwl,
            // LPDDR: write data may start up to a clock late (tDQSS).
            write_data_late: cwl + u64::from(low_power),
            burst,
            // DDR3, DDR4: two clocks for preamble and turnaround.
            read_to_write_gap: get("tWPRE").unwrap_or(2),
            rank_gap: get("tRTRS").unwrap_or(0),
            ppd: get("tPPD"),
            rfc: get("tRFC"),
            rfc_bank: get("tRFCpb"),
            refi: get("tREFI"),
        })
    }

    /// The limits of a device, from its timing values.
    pub fn of(d: &DeviceSpec) -> Result<Limits, Error> {
        let timings = d.resolve_timings()?;
        let get = |n: &str| timings.iter().find(|t| t.0 == n).map(|t| t.1.into());
        // Two beats a clock.
        let burst = d.organisation.burst_length.div_ceil(2);
        let mut limits = Limits::new(&get, burst.into()).map_err(|e| Error::Spec {
            place: format!("device {}", d.name),
            problem: e.to_string(),
        })?;
        if let Some(p) = &d.write_pause {
            let clocks = |e| d.clocks("write_pause", e, &timings).map(u64::from);
            limits.pause = Some((clocks(&p.granularity)?, clocks(&p.overhead)?));
        }
        Ok(limits)
    }
}
