//! A claim: an expected result of certain runs, and whether it holds.
//!
//! A claim holds if all its runs were steady and the whole 95% interval of the measurement satisfies it. So every claim can
//! fail, and a claim that is only just satisfied fails. A claim that is known not to hold says why, and counts as wrong if
//! it suddenly holds.

use super::condition::Condition;
use crate::cleaning::histogram::Histogram;
use crate::cleaning::simulate::Outcome;
use crate::cleaning::steady::Interval;

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    /// Write cost.
    Cost,
    /// Write cost under the first condition over that under the second.
    CostRatio,
    /// Mean utilisation of the segments that are cleaned.
    Cleaned,
    /// Most frequent utilisation of the segments that are cleaned, between two utilisations.
    Peak(f64, f64),
}

/// The expected value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// A value and its absolute tolerance.
    Near(f64, f64),
    /// A value and its relative tolerance.
    Within(f64, f64),
    Below(f64),
    Above(f64),
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Figure or section of the paper, or another source.
    pub place: &'static str,
    pub what: &'static str,
    pub conditions: Vec<Condition>,
    pub measure: Measure,
    pub expected: Expected,
    /// Why it does not hold.
    pub known_miss: Option<&'static str>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    pub measured: Interval,
    pub is_steady: bool,
    pub holds: bool,
}

impl Claim {
    pub fn new(
        place: &'static str,
        what: &'static str,
        conditions: Vec<Condition>,
        measure: Measure,
        expected: Expected,
    ) -> Self {
        Self { place, what, conditions, measure, expected, known_miss: None }
    }

    /// The same claim, which is known not to hold.
    pub fn missed(self, why: &'static str) -> Self {
        Self { known_miss: Some(why), ..self }
    }

    /// Judges the claim by the outcomes of its conditions, in their order.
    pub fn judge(&self, outcomes: &[&Outcome]) -> Verdict {
        let measured = self.measure.of(outcomes);
        let is_steady = outcomes.iter().all(|outcome| outcome.is_steady);
        Verdict { measured, is_steady, holds: is_steady && self.expected.is_met(measured) }
    }

    /// Whether a verdict is the recorded one.
    pub fn is_as_recorded(&self, verdict: &Verdict) -> bool {
        verdict.holds == self.known_miss.is_none()
    }
}

impl Measure {
    fn of(self, outcomes: &[&Outcome]) -> Interval {
        match (self, outcomes) {
            (Self::Cost, [outcome]) => outcome.write_cost,
            (Self::Cleaned, [outcome]) => outcome.cleaned_utilisation,
            (Self::CostRatio, [over, under]) => ratio(over.write_cost, under.write_cost),
            (Self::Peak(from, to), [outcome]) => peak(&outcome.victims, from, to),
            _ => unreachable!("a claim names as many conditions as its measure needs"),
        }
    }
}

impl Expected {
    /// Whether the whole interval meets the expectation. An interval without bounds, or one that is not a number, never
    /// does.
    fn is_met(self, measured: Interval) -> bool {
        let (low, high) = (measured.mean - measured.half_width, measured.mean + measured.half_width);
        match self {
            Self::Near(value, by) => low >= value - by && high <= value + by,
            Self::Within(value, share) => Self::Near(value, value * share).is_met(measured),
            Self::Below(value) => high < value,
            Self::Above(value) => low > value,
        }
    }
}

/// The ratio of independent values.
fn ratio(over: Interval, under: Interval) -> Interval {
    let mean = over.mean / under.mean;
    Interval { mean, half_width: mean * over.relative().hypot(under.relative()) }
}

/// The peak, known to half a bar.
fn peak(histogram: &Histogram, from: f64, to: f64) -> Interval {
    let bars = histogram.bars().into_iter().filter(|bar| (from..to).contains(&bar.utilisation));
    let highest = bars.max_by(|a, b| a.share.total_cmp(&b.share)).filter(|bar| bar.share > 0.0);
    highest.map_or(Interval { mean: f64::NAN, half_width: f64::NAN }, |bar| Interval {
        mean: bar.utilisation,
        half_width: bar.half_width,
    })
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
