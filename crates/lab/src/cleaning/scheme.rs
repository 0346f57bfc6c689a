//! Policies, placements and workloads by name, for the command line and reports.

use super::trace::Trace;
use super::workload::Workload;
use firnfs::clean::names::{self, count, number, split_parameter};
use firnfs::clean::{self, Placement, Policy};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A policy by name; ages are shares of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyName {
    /// A policy without ages of its own.
    Plain(Policy),
    /// [`Policy::AgeThreshold`], in volumes written.
    AgeThreshold(f64),
}

impl PolicyName {
    /// The policy for a volume of this many live blocks.
    #[must_use]
    pub fn for_volume(self, live_blocks: u32) -> Policy {
        match self {
            Self::Plain(policy) => policy,
            Self::AgeThreshold(volumes) => Policy::AgeThreshold { age: volumes * f64::from(live_blocks) },
        }
    }
}

/// The text about policies in `firn sim cleaning --help`.
#[must_use]
pub fn policies() -> String {
    format!(
        "{}, age-threshold[:VOLUMES=1] (emptiest of those older; volumes take seconds)",
        names::AGELESS_POLICIES
    )
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match split_parameter(text) {
            ("age-threshold", volumes) => Ok(Self::AgeThreshold(number(text, volumes, 1.0, 1e6)?)),
            _ => text.parse().map(Self::Plain),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgeThreshold(volumes) => write!(f, "age-threshold:{volumes}"),
            Self::Plain(policy) => policy.fmt(f),
        }
    }
}

/// Logs for data that a large volume has (docs/decisions/0203).
const DATA_LOGS: u8 = 5;

/// A placement by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementName {
    /// A placement that a file system can have.
    Real(clean::PlacementName),
    /// The oracle, with this many logs.
    Oracle(u8),
}

impl Default for PolicyName {
    fn default() -> Self {
        Self::Plain(Policy::default())
    }
}

/// The placement of large volumes, with all logs for data.
impl Default for PlacementName {
    fn default() -> Self {
        Self::Real(clean::PlacementName::default().within(DATA_LOGS))
    }
}

/// The text about placements in `firn sim cleaning --help`.
#[must_use]
pub fn placements() -> String {
    format!("{}, oracle[:LOGS=16] (knows the future: a bound)", names::PLACEMENTS)
}

impl PlacementName {
    /// The placement; `None` for the oracle, which no file system can have.
    #[must_use]
    pub fn placement(self) -> Option<Box<dyn Placement>> {
        match self {
            Self::Real(name) => Some(name.placement()),
            Self::Oracle(_) => None,
        }
    }

    /// How many logs it keeps open.
    #[must_use]
    pub fn logs(self) -> u8 {
        match self {
            Self::Oracle(logs) => logs,
            Self::Real(name) => name.logs(),
        }
    }
}

impl FromStr for PlacementName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match split_parameter(text) {
            ("oracle", logs) => {
                let most = super::disk::MAX_LOGS as u8;
                Ok(Self::Oracle(count(text, logs, most, most)?))
            }
            _ => text.parse().map(Self::Real),
        }
    }
}

impl fmt::Display for PlacementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(name) => name.fmt(f),
            Self::Oracle(logs) => write!(f, "oracle:{logs}"),
        }
    }
}

/// A workload with the name by which it was requested.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWorkload {
    /// The name on the command line.
    pub name: String,
    /// The workload.
    pub workload: Workload,
}

/// The text about workloads in `firn sim cleaning --help`.
pub const WORKLOADS: &str = "uniform, hot-cold[:DATA/WRITES=10/90] (percent), groups:DATA/WRITES+DATA/WRITES+..., \
                             zipf[:EXPONENT=1], shift[:VOLUMES=10[:DATA/WRITES=10/90]] (the hot part moves when that many volumes are \
                             written), files[:BLOCKS=64] (whole files written and deleted), trace:FILE";

impl FromStr for NamedWorkload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split_parameter(text);
        let workload = match (name, parameter) {
            ("uniform", None) => Workload::Groups(vec![(100.0, 100.0)]),
            ("hot-cold", None) => hot_cold((10.0, 90.0)),
            ("hot-cold", Some(shares)) => hot_cold(pair(shares)?),
            ("groups", Some(list)) => Workload::Groups(list.split('+').map(pair).collect::<Result<_, _>>()?),
            ("zipf", _) => Workload::Zipf { exponent: number(text, parameter, 1.0, 10.0)? },
            ("files", _) => Workload::Files { mean_blocks: number(text, parameter, 64.0, 1e6)?.max(1.0) },
            ("shift", _) => {
                let (period, shares) = parameter.map_or((None, None), |p| {
                    p.split_once(':').map_or((Some(p), None), |(period, shares)| (Some(period), Some(shares)))
                });
                let (data, writes) = shares.map_or(Ok((10.0, 90.0)), pair)?;
                Workload::Shifting { period: number(text, period, 10.0, 1e6)?, data, writes }
            }
            ("trace", Some(path)) => Workload::Trace(Arc::new(read_trace(Path::new(path))?)),
            _ => return Err(format!("no workload is called {text}; there are {WORKLOADS}")),
        };
        Ok(Self { name: text.to_owned(), workload })
    }
}

fn hot_cold((data, writes): (f64, f64)) -> Workload {
    Workload::Groups(vec![(data, writes), (100.0 - data, 100.0 - writes)])
}

fn read_trace(path: &Path) -> Result<Trace, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Trace::parse(&text).map_err(|why| format!("{} is no trace: {why}", path.display()))
}

/// `10/90`: percentages above 0 and below 100.
fn pair(text: &str) -> Result<(f64, f64), String> {
    let percent = |text: &str| text.parse::<f64>().ok().filter(|v| *v > 0.0 && *v < 100.0);
    text.split_once('/')
        .and_then(|(data, writes)| Some((percent(data)?, percent(writes)?)))
        .ok_or_else(|| format!("{text} is not a share of data and one of writes in percent, such as 10/90"))
}

/// The live share of a disk.
///
/// # Errors
/// What is wrong with it, as text for people.
pub fn utilisation(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|u| *u > 0.0 && *u < 1.0)
        .ok_or_else(|| "a utilisation is a number above 0 and below 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        for name in ["greedy", "age-threshold:2", "pooled:0.25"] {
            assert_eq!(name.parse::<PolicyName>().unwrap().to_string(), name);
        }
        for name in ["one", "dac-leap:5", "sepbit", "oracle:16"] {
            assert_eq!(name.parse::<PlacementName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn workloads_have_parameters_with_defaults() {
        let of = |text: &str| text.parse::<NamedWorkload>().unwrap().workload;
        assert_eq!(of("uniform"), Workload::Groups(vec![(100.0, 100.0)]));
        assert_eq!(of("hot-cold"), Workload::Groups(vec![(10.0, 90.0), (90.0, 10.0)]));
        assert_eq!(
            of("groups:1/50+9/40+90/10"),
            Workload::Groups(vec![(1.0, 50.0), (9.0, 40.0), (90.0, 10.0)])
        );
        assert_eq!(of("shift:2"), Workload::Shifting { period: 2.0, data: 10.0, writes: 90.0 });
        assert_eq!(of("shift:50:5/80"), Workload::Shifting { period: 50.0, data: 5.0, writes: 80.0 });
    }

    #[test]
    fn nonsense_is_refused_with_what_there_is() {
        for text in ["lru", "greedy:1", "windowed:2", "pooled:x", "d-choices:0", "age-threshold:x"] {
            assert!(text.parse::<PolicyName>().is_err(), "{text}");
        }
        for text in ["one:2", "dac:7", "oracle:0", "oracle:17", "split:3"] {
            assert!(text.parse::<PlacementName>().is_err(), "{text}");
        }
        for text in [
            "hot-cold:10",
            "hot-cold:0/90",
            "hot-cold:10/100",
            "zipf:-1",
            "trace",
            "trace:/no/such",
            "shift:a",
        ] {
            assert!(text.parse::<NamedWorkload>().is_err(), "{text}");
        }
    }
}
