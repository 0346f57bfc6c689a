//! The published value of a figure, the value measured here, and whether they agree.
//!
//! A value may be within a tolerance of the published one, or in an order that the text states. Where it is known not to agree, the
//! claim says why; the command fails if a claim's outcome is not the recorded one. Callers: the benchmarks beside this file.

use serde::Serialize;

/// The expectation for a value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Within a share of a value.
    Within {
        /// The published value.
        value: f64,
        /// Largest difference, as a share of it.
        share: f64,
    },
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

/// A claim, and the result.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Paper and figure.
    pub place: &'static str,
    /// The value.
    pub what: String,
    /// Where the published value comes from: an input of the model, a prediction, or an order.
    pub kind: &'static str,
    /// What is expected.
    pub expected: Expected,
    /// The value measured here.
    pub ours: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// Why it is known not to hold.
    pub known_miss: Option<&'static str>,
}

/// The published number is an input of the model, so agreement shows only that the model is assembled correctly.
const INPUT: &str = "input";
/// Neither the value nor anything fitted to it is an input.
const PREDICTED: &str = "predicted";

impl Claim {
    /// A claim that is to hold.
    pub(super) fn new(
        place: &'static str,
        what: &str,
        expected: Expected,
        ours: f64,
        unit: &'static str,
    ) -> Self {
        Self { place, what: what.to_owned(), kind: PREDICTED, expected, ours, unit, known_miss: None }
    }

    /// The same, of a value that the model is made of.
    pub(super) fn of_input(self) -> Self {
        Self { kind: INPUT, ..self }
    }

    /// True if it is of such a value.
    pub(super) fn is_of_input(&self) -> bool {
        self.kind == INPUT
    }

    /// The same, known not to hold.
    pub(super) fn missed(self, why: &'static str) -> Self {
        Self { known_miss: Some(why), ..self }
    }

    /// True if the value is as expected.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.expected {
            Expected::Within { value, share } => (self.ours - value).abs() <= value.abs() * share,
            Expected::AtLeast(value) => self.ours >= value,
            Expected::AtMost(value) => self.ours <= value,
        }
    }

    /// True if it holds, or is known not to.
    #[must_use]
    pub fn is_as_recorded(&self) -> bool {
        self.holds() == self.known_miss.is_none()
    }

    /// The published value and its tolerance.
    #[must_use]
    pub fn expected_words(&self) -> String {
        match self.expected {
            Expected::Within { value, share } => format!("{value} ± {:.0}%", share * 100.0),
            Expected::AtLeast(value) => format!("at least {value:.2}"),
            Expected::AtMost(value) => format!("at most {value:.2}"),
        }
    }

    /// "yes", or "no"; in capitals if that is not as recorded.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.holds(), self.is_as_recorded()) {
            (true, true) => "yes",
            (true, false) => "YES",
            (false, true) => "no",
            (false, false) => "NO",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_within_its_tolerance_and_a_known_miss_that_holds_is_not_as_recorded() {
        let claim = |expected, ours| Claim::new("figure 1", "x", expected, ours, "MB/s");
        let within = Expected::Within { value: 2.0, share: 0.1 };
        assert!(claim(within, 2.19).holds() && claim(within, 1.81).holds() && !claim(within, 2.21).holds());
        assert!(claim(Expected::AtLeast(1.0), 1.0).holds() && !claim(Expected::AtMost(1.0), 1.1).holds());
        let missed = claim(within, 2.0).missed("why");
        assert_eq!((missed.verdict(), missed.is_as_recorded()), ("YES", false));
        assert_eq!(Claim { ours: 9.0, ..missed }.verdict(), "no");
        assert_eq!(claim(within, 9.0).verdict(), "NO");
    }
}
