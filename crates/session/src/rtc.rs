//! The time of the machine's real-time clock.

use crate::error::Result;
use nagori_config::{Machine as Description, Origin};
use nagori_image::GuestImage;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The key of machine descriptions.
const KEY: &str = "rtc_epoch";

/// The time of the clock when a machine starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rtc {
    /// The host's time at each start of a machine.
    Host,
    /// Seconds since 1970.
    At(u64),
}

impl Rtc {
    /// In seconds since 1970.
    pub fn seconds(self) -> u64 {
        match self {
            Rtc::At(seconds) => seconds,
            Rtc::Host => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.unwrap_or_default().as_secs()
            }
        }
    }
}

impl FromStr for Rtc {
    type Err = String;

    fn from_str(given: &str) -> Result<Rtc, String> {
        if given == "host" {
            return Ok(Rtc::Host);
        }
        let text = if given.contains(['T', ' ']) {
            given.to_string()
        } else {
            format!("{given}T00:00:00")
        };
        let time = humantime::parse_rfc3339_weak(&text).ok();
        let since = time.and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        since.map(|s| Rtc::At(s.as_secs())).ok_or_else(|| {
            "expected a date in UTC from 1970 on, such as 2026-10-01 or 2026-10-01T12:30:00, or host"
                .into()
        })
    }
}

/// A time for human readers.
pub fn text(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.map_or_else(
        || seconds.to_string(),
        |t| humantime::format_rfc3339_seconds(t).to_string(),
    )
}

/// A description whose clock starts at the date of the booted image, unless another time was
/// chosen: then no file has a time in the future, and apt accepts the index from which the packages
/// are.
pub fn of_image(
    description: Description,
    image: Option<&GuestImage>,
    rootfs: Option<&Path>,
) -> Result<Description> {
    if description.origin(KEY) != Origin::Default {
        return Ok(description);
    }
    let rootfs = rootfs.and_then(nagori_image::rootfs_at);
    let date = image
        .map(|i| i.manifest.date)
        .max(rootfs.map(|r| r.manifest.date));
    Ok(match date {
        Some(date) => description.with(&[format!("{KEY}={date}")])?,
        None => description,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_or_refused() {
        let read = |t: &str| t.parse::<Rtc>();
        assert_eq!(read("host"), Ok(Rtc::Host));
        let midnight = Ok(Rtc::At(1_790_812_800));
        assert_eq!(read("2026-10-01"), midnight);
        assert_eq!(read("2026-10-01T00:00:00"), midnight);
        assert_eq!(read("2026-10-01 00:00:00Z"), midnight);
        assert_eq!(text(1_790_812_800), "2026-10-01T00:00:00Z");
        for bad in [
            "",
            "now",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "1969-12-31",
            "2026-10-01T",
        ] {
            assert!(read(bad).unwrap_err().contains("expected a date"), "{bad}");
        }
    }
}
