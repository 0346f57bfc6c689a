//! Policies and placements by name, as options and reports write them. The simulator knows a few more, which no file system
//! could have; it tries these names first.

use super::dac::{Dac, LeapingDac};
use super::lifespan::SepBit;
use super::placement::{AgeSort, MAX_OPEN_LOGS, Mida, OneLog, Placement, Split};
use super::policy::Policy;
use std::fmt;
use std::str::FromStr;

/// Policies without ages in units of their own.
pub const AGELESS_POLICIES: &str = "greedy, fifo, d-choices[:D=10], windowed[:SHARE=0.2], cost-benefit (age of the segment), \
                                    cost-benefit-youngest (age of its youngest block), cost-benefit-sqrt, pooled[:WEIGHT=0.1]";

/// The further text that [`Policy`] can be parsed from, besides [`AGELESS_POLICIES`].
pub const AGE_THRESHOLD: &str = "age-threshold[:SECONDS=604800] (emptiest of those older)";

/// The most segments that d-choices may draw.
const D_MAX: u32 = 1_000_000;

/// The default threshold: a week, as in F2FS.
const AGE_THRESHOLD_S: f64 = 604_800.0;

/// The texts that [`PlacementName`] can be parsed from.
pub const PLACEMENTS: &str = "one, split (users, cleaner), age-sort (split, moved oldest first), dac[:LOGS=6], dac-leap[:LOGS=6], sepbit[:LOGS=6], mida[:LOGS=6]";

/// A name and its parameter: `dac:4`.
#[must_use]
pub fn split_parameter(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)))
}

/// The parameter of the name `whole`, a number from 0 to `max`; `otherwise` if there is none.
///
/// # Errors
/// What is wrong with it, as text for people.
pub fn number(whole: &str, parameter: Option<&str>, otherwise: f64, max: f64) -> Result<f64, String> {
    let Some(text) = parameter else { return Ok(otherwise) };
    let value = text.parse::<f64>().ok().filter(|v| (0.0..=max).contains(v));
    value.ok_or_else(|| format!("{whole}: {text} is not a number from 0 to {max}"))
}

/// The parameter of the name `whole`, a whole number from 1 to `max`; `otherwise` if there is none.
///
/// # Errors
/// What is wrong with it, as text for people.
pub fn count<N>(whole: &str, parameter: Option<&str>, otherwise: N, max: N) -> Result<N, String>
where
    N: Copy + FromStr + PartialOrd + From<u8> + fmt::Display,
{
    let Some(text) = parameter else { return Ok(otherwise) };
    let value = text.parse::<N>().ok().filter(|v| (N::from(1)..=max).contains(v));
    value.ok_or_else(|| format!("{whole}: {text} is not a whole number from 1 to {max}"))
}

/// Ages are in grains, which are seconds in the file system.
impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split_parameter(text);
        let number = |otherwise: f64, max: f64| number(text, parameter, otherwise, max);
        let policy = match name {
            "greedy" => Self::Greedy,
            "fifo" => Self::Fifo,
            "cost-benefit" => Self::CostBenefit,
            "cost-benefit-youngest" => Self::CostBenefitYoungest,
            "cost-benefit-sqrt" => Self::CostBenefitSqrt,
            "d-choices" => return Ok(Self::DChoices { d: count(text, parameter, 10, D_MAX)? }),
            "windowed" => return Ok(Self::WindowedGreedy { window: number(0.2, 1.0)? }),
            "pooled" => return Ok(Self::PooledRate { weight: number(0.1, 1e9)? }),
            "age-threshold" => return Ok(Self::AgeThreshold { age: number(AGE_THRESHOLD_S, 1e12)? }),
            _ => {
                return Err(format!(
                    "no policy is called {name}; there are {AGELESS_POLICIES}, {AGE_THRESHOLD}"
                ));
            }
        };
        if parameter.is_some() { Err(format!("{name} takes no parameter")) } else { Ok(policy) }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greedy => f.write_str("greedy"),
            Self::Fifo => f.write_str("fifo"),
            Self::CostBenefit => f.write_str("cost-benefit"),
            Self::CostBenefitYoungest => f.write_str("cost-benefit-youngest"),
            Self::CostBenefitSqrt => f.write_str("cost-benefit-sqrt"),
            Self::DChoices { d } => write!(f, "d-choices:{d}"),
            Self::WindowedGreedy { window } => write!(f, "windowed:{window}"),
            Self::AgeThreshold { age } => write!(f, "age-threshold:{age}"),
            Self::PooledRate { weight } => write!(f, "pooled:{weight}"),
        }
    }
}

/// A placement by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementName {
    /// One log for everything.
    One,
    /// One log for users, one for the cleaner.
    Split,
    /// Like `Split`, with moved blocks sorted by age.
    AgeSort,
    /// Temperature, with this many logs.
    Dac(u8),
    /// Temperature that rises in leaps, with this many logs.
    LeapingDac(u8),
    /// Number of moves, with this many logs.
    Mida(u8),
    /// Inferred life span, with this many logs.
    SepBit(u8),
}

/// The placement with the default number of logs of [`LeapingDac`].
impl Default for PlacementName {
    fn default() -> Self {
        Self::LeapingDac(LeapingDac::default().logs())
    }
}

impl PlacementName {
    /// A new placement, which has not learnt anything yet.
    #[must_use]
    pub fn placement(self) -> Box<dyn Placement> {
        match self {
            Self::One => Box::new(OneLog),
            Self::Split => Box::new(Split),
            Self::AgeSort => Box::new(AgeSort),
            Self::Dac(logs) => Box::new(Dac { logs, start: logs / 2 }),
            Self::LeapingDac(logs) => Box::new(LeapingDac::new(Dac { logs, start: logs / 2 })),
            Self::Mida(logs) => Box::new(Mida { logs }),
            Self::SepBit(logs) => Box::new(SepBit::with_logs(logs)),
        }
    }

    /// How many logs it keeps open.
    #[must_use]
    pub fn logs(self) -> u8 {
        self.placement().logs()
    }

    /// The same for a volume with this many logs for data, at least 2.
    #[must_use]
    pub fn within(self, logs: u8) -> Self {
        match self {
            Self::One | Self::Split | Self::AgeSort => self,
            Self::Dac(wanted) => Self::Dac(wanted.min(logs)),
            Self::LeapingDac(wanted) => Self::LeapingDac(wanted.min(logs)),
            Self::Mida(wanted) => Self::Mida(wanted.min(logs)),
            Self::SepBit(wanted) => Self::SepBit(wanted.min(logs)),
        }
    }
}

impl FromStr for PlacementName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = split_parameter(text);
        let most = MAX_OPEN_LOGS as u8;
        let logs = || count(text, parameter, most, most);
        match (name, parameter) {
            ("one", None) => Ok(Self::One),
            ("split", None) => Ok(Self::Split),
            ("age-sort", None) => Ok(Self::AgeSort),
            ("sepbit", _) => Ok(Self::SepBit(logs()?)),
            ("dac", _) => Ok(Self::Dac(logs()?)),
            ("dac-leap", _) => Ok(Self::LeapingDac(logs()?)),
            ("mida", _) => Ok(Self::Mida(logs()?)),
            _ => Err(format!("no placement is called {text}; there are {PLACEMENTS}")),
        }
    }
}

impl fmt::Display for PlacementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Split => f.write_str("split"),
            Self::AgeSort => f.write_str("age-sort"),
            Self::SepBit(logs) if usize::from(*logs) == MAX_OPEN_LOGS => f.write_str("sepbit"),
            Self::SepBit(logs) => write!(f, "sepbit:{logs}"),
            Self::Dac(logs) => write!(f, "dac:{logs}"),
            Self::LeapingDac(logs) => write!(f, "dac-leap:{logs}"),
            Self::Mida(logs) => write!(f, "mida:{logs}"),
        }
    }
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
            "cost-benefit-sqrt",
            "pooled:0.25",
            "age-threshold:3600",
        ] {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        for name in ["one", "split", "age-sort", "dac:4", "dac-leap:5", "sepbit", "sepbit:3", "mida:6"] {
            assert_eq!(name.parse::<PlacementName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_placement_takes_no_more_logs_than_a_volume_has() {
        for name in ["one", "split", "age-sort", "dac", "dac-leap", "sepbit", "mida"] {
            let asked: PlacementName = name.parse().unwrap();
            for logs in 2..=6 {
                let given = asked.within(logs);
                assert_eq!(given.logs(), asked.logs().min(logs), "{given}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_there_is() {
        for text in ["lru", "greedy:1", "windowed:2", "pooled:x", "d-choices:2.5", "age-threshold:-1"] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
        for text in ["d-choices:0", "d-choices:-1", "d-choices:1000001"] {
            let refused = text.parse::<Policy>().unwrap_err();
            assert!(refused.ends_with("is not a whole number from 1 to 1000000"), "{refused}");
        }
        for text in ["dac:0", "one:2", "dac:7", "oracle", "split:3"] {
            assert!(text.parse::<PlacementName>().is_err(), "{text}");
        }
    }
}
