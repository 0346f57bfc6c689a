//! Policies, placements and workloads by name, as the command line and reports write them.

use super::trace::Trace;
use super::workload::Workload;
use firnfs::clean::{Dac, LeapingDac, MAX_OPEN_LOGS, Mida, OneLog, Placement, Policy, SepBit, Split};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A policy by name; its ages are shares of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyName {
    /// One without ages of its own.
    Plain(Policy),
    /// [`Policy::AgeThreshold`], in volumes written.
    AgeThreshold(f64),
}

impl PolicyName {
    /// For a volume of so many live blocks.
    #[must_use]
    pub fn for_volume(self, live_blocks: u32) -> Policy {
        match self {
            Self::Plain(policy) => policy,
            Self::AgeThreshold(volumes) => Policy::AgeThreshold { age: volumes * f64::from(live_blocks) },
        }
    }
}

/// What `firn sim cleaning --help` says of policies.
pub const POLICIES: &str = "greedy, fifo, d-choices[:D=10], windowed[:SHARE=0.2], cost-benefit (age of the segment), \
                            cost-benefit-youngest (age of its youngest block), cost-benefit-sqrt, \
                            age-threshold[:VOLUMES=1], pooled[:WEIGHT=0.1]";

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split(text);
        let number = |otherwise: f64, max: f64| number(text, parameter, otherwise, max);
        let plain = |policy| {
            if parameter.is_some() {
                Err(format!("{name} takes no parameter"))
            } else {
                Ok(Self::Plain(policy))
            }
        };
        match name {
            "greedy" => plain(Policy::Greedy),
            "fifo" => plain(Policy::Fifo),
            "cost-benefit" => plain(Policy::CostBenefit),
            "cost-benefit-youngest" => plain(Policy::CostBenefitYoungest),
            "cost-benefit-sqrt" => plain(Policy::CostBenefitSqrt),
            "d-choices" => Ok(Self::Plain(Policy::DChoices { d: number(10.0, 1e6)?.max(1.0) as u32 })),
            "windowed" => Ok(Self::Plain(Policy::WindowedGreedy { window: number(0.2, 1.0)? })),
            "age-threshold" => Ok(Self::AgeThreshold(number(1.0, 1e6)?)),
            "pooled" => Ok(Self::Plain(Policy::PooledRate { weight: number(0.1, 1e9)? })),
            _ => Err(format!("no policy is called {name}; there are {POLICIES}")),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgeThreshold(volumes) => write!(f, "age-threshold:{volumes}"),
            Self::Plain(policy) => match policy {
                Policy::Greedy => f.write_str("greedy"),
                Policy::Fifo => f.write_str("fifo"),
                Policy::CostBenefit => f.write_str("cost-benefit"),
                Policy::CostBenefitYoungest => f.write_str("cost-benefit-youngest"),
                Policy::CostBenefitSqrt => f.write_str("cost-benefit-sqrt"),
                Policy::DChoices { d } => write!(f, "d-choices:{d}"),
                Policy::WindowedGreedy { window } => write!(f, "windowed:{window}"),
                Policy::AgeThreshold { age } => write!(f, "age-threshold:{age} blocks"),
                Policy::PooledRate { weight } => write!(f, "pooled:{weight}"),
            },
        }
    }
}

/// A placement by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementName {
    /// One log.
    One,
    /// Users' and cleaner's.
    Split,
    /// Temperature, with so many logs.
    Dac(u8),
    /// Temperature that rises in leaps, with so many logs.
    LeapingDac(u8),
    /// Number of moves, with so many logs.
    Mida(u8),
    /// Inferred life span.
    SepBit,
    /// The future, with so many logs.
    Oracle(u8),
}

impl Default for PolicyName {
    fn default() -> Self {
        Self::Plain(Policy::default())
    }
}

/// The one that [`LeapingDac`] is by default.
impl Default for PlacementName {
    fn default() -> Self {
        Self::LeapingDac(LeapingDac::default().logs())
    }
}

/// What `firn sim cleaning --help` says of placements.
pub const PLACEMENTS: &str = "one, split (users, cleaner), dac[:LOGS=6], dac-leap[:LOGS=6], sepbit, mida[:LOGS=6], oracle[:LOGS=16] (knows the future: a bound)";

impl PlacementName {
    /// The placement; `None` for the oracle, which is none that a file system could have.
    #[must_use]
    pub fn placement(self) -> Option<Box<dyn Placement>> {
        Some(match self {
            Self::One => Box::new(OneLog),
            Self::Split => Box::new(Split),
            Self::Dac(logs) => Box::new(Dac { logs, start: logs / 2 }),
            Self::LeapingDac(logs) => Box::new(LeapingDac::new(Dac { logs, start: logs / 2 })),
            Self::Mida(logs) => Box::new(Mida { logs }),
            Self::SepBit => Box::new(SepBit::default()),
            Self::Oracle(_) => return None,
        })
    }
}

impl PlacementName {
    /// How many logs it keeps open.
    #[must_use]
    pub fn logs(self) -> u8 {
        match self {
            Self::Oracle(logs) => logs,
            _ => self.placement().map_or(1, |placement| placement.logs()),
        }
    }
}

impl FromStr for PlacementName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split(text);
        let logs = |otherwise: u8, max: usize| {
            number(text, parameter, f64::from(otherwise), max as f64).map(|logs| logs.max(1.0) as u8)
        };
        match (name, parameter) {
            ("one", None) => Ok(Self::One),
            ("split", None) => Ok(Self::Split),
            ("sepbit", None) => Ok(Self::SepBit),
            ("dac", _) => Ok(Self::Dac(logs(6, MAX_OPEN_LOGS)?)),
            ("dac-leap", _) => Ok(Self::LeapingDac(logs(6, MAX_OPEN_LOGS)?)),
            ("mida", _) => Ok(Self::Mida(logs(6, MAX_OPEN_LOGS)?)),
            ("oracle", _) => Ok(Self::Oracle(logs(16, super::disk::MAX_LOGS)?)),
            _ => Err(format!("no placement is called {text}; there are {PLACEMENTS}")),
        }
    }
}

impl fmt::Display for PlacementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Split => f.write_str("split"),
            Self::SepBit => f.write_str("sepbit"),
            Self::Dac(logs) => write!(f, "dac:{logs}"),
            Self::LeapingDac(logs) => write!(f, "dac-leap:{logs}"),
            Self::Mida(logs) => write!(f, "mida:{logs}"),
            Self::Oracle(logs) => write!(f, "oracle:{logs}"),
        }
    }
}

/// A workload with the name it was asked for by.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWorkload {
    /// As on the command line.
    pub name: String,
    /// What it is.
    pub workload: Workload,
}

/// What `firn sim cleaning --help` says of workloads.
pub const WORKLOADS: &str = "uniform, hot-cold[:DATA/WRITES=10/90] (percent), groups:DATA/WRITES+DATA/WRITES+..., \
                             zipf[:EXPONENT=1], shift[:VOLUMES=10[:DATA/WRITES=10/90]] (the hot part moves when that many volumes are \
                             written), files[:BLOCKS=64] (whole files written and deleted), trace:FILE";

impl FromStr for NamedWorkload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split(text);
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

fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)))
}

fn number(whole: &str, text: Option<&str>, otherwise: f64, max: f64) -> Result<f64, String> {
    let Some(text) = text else { return Ok(otherwise) };
    let value = text.parse::<f64>().ok().filter(|v| (0.0..=max).contains(v));
    value.ok_or_else(|| format!("{whole}: {text} is not a number from 0 to {max}"))
}

/// `10/90`: percentages above 0 and below 100.
fn pair(text: &str) -> Result<(f64, f64), String> {
    let percent = |text: &str| text.parse::<f64>().ok().filter(|v| *v > 0.0 && *v < 100.0);
    text.split_once('/')
        .and_then(|(data, writes)| Some((percent(data)?, percent(writes)?)))
        .ok_or_else(|| format!("{text} is not a share of data and one of writes in percent, such as 10/90"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        for name in [
            "greedy",
            "fifo",
            "d-choices:3",
            "windowed:0.5",
            "cost-benefit",
            "cost-benefit-youngest",
            "age-threshold:2",
            "pooled:0.25",
        ] {
            assert_eq!(name.parse::<PolicyName>().unwrap().to_string(), name);
        }
        for name in ["one", "split", "dac:4", "dac-leap:5", "sepbit", "mida:6", "oracle:16"] {
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
        for text in ["lru", "greedy:1", "windowed:2", "pooled:x", "d-choices:-1"] {
            assert!(text.parse::<PolicyName>().is_err(), "{text}");
        }
        for text in ["one:2", "dac:7", "oracle:17", "split:3"] {
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
