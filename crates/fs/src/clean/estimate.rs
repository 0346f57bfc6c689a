//! How fast blocks die, estimated from the segments themselves, and which victim follows from it.
//!
//! Why cost-benefit works. Let the blocks of a segment die at rate r each, so that u = exp(-r t), and let dead space have a
//! price p per byte and unit of time. Moving u for 1-u gained, again and again, costs least if every segment is cleaned
//! when (1-u)/u + ln u = r/p: the best victim is the one with the largest ((1-u)/u + ln u) / r. To within 10% (for u from
//! 0.05 to 1) that is (1-u)^2 / (u (1+u)) / r. A segment that has lost 1-u in its age, with (1+u)/2 alive on average, shows
//! a rate of 2 (1-u) / (1+u) / age; with that the rule is (1-u) * age / u, cost-benefit by segment age.
//!
//! One segment's own losses are a noisy estimate. Segments of one log resemble each other, so the log's rate is the better
//! guess while a segment has lost little. The estimate sums deaths and block-time lived over the log, and mixes each
//! segment's own in, as an empirical Bayes estimate with a gamma prior does.

use super::candidate::{Candidate, Terms};
use super::placement::MAX_OPEN_LOGS;

/// Death rates of the logs, and the weight they have against a segment's own.
pub(super) struct DeathRates {
    /// What each log adds to the block-time that a segment lived: the weight over the log's rate.
    prior_lived: [f64; MAX_OPEN_LOGS],
    /// The deaths that it adds, in segments' worth.
    prior_deaths: f64,
}

impl DeathRates {
    #[inline]
    pub fn of(candidates: impl Iterator<Item = Candidate>, terms: &Terms, weight: f64) -> Self {
        let mut deaths = [0.0; MAX_OPEN_LOGS];
        let mut lived = [0.0; MAX_OPEN_LOGS];
        for candidate in candidates {
            let log = index(&candidate);
            let (own_deaths, own_lived) = history(&candidate, terms);
            deaths[log] += own_deaths;
            lived[log] += own_lived;
        }
        // In a log without deaths every segment keeps its own, very low, rate.
        let prior_lived = std::array::from_fn(|log| weight * lived[log] / f64::max(deaths[log], TINY));
        Self { prior_lived, prior_deaths: weight }
    }

    /// The score; it is large for segments that should be cleaned now rather than later.
    #[inline]
    pub fn score(&self, candidate: &Candidate, terms: &Terms) -> f64 {
        let u = terms.utilisation(candidate);
        let (deaths, lived) = history(candidate, terms);
        let lived = lived + self.prior_lived[index(candidate)];
        let deaths = (deaths + self.prior_deaths).max(TINY);
        (1.0 - u) * (1.0 - u) * lived / (u.max(TINY) * (1.0 + u) * deaths)
    }
}

/// Keeps quotients finite.
const TINY: f64 = 1e-9;

/// Blocks lost, and block-time lived, both as shares of a segment.
#[inline]
fn history(candidate: &Candidate, terms: &Terms) -> (f64, f64) {
    let u = terms.utilisation(candidate);
    (1.0 - u, terms.age(candidate.written) * (1.0 + u) / 2.0)
}

#[inline]
fn index(candidate: &Candidate) -> usize {
    usize::from(candidate.log).min(MAX_OPEN_LOGS - 1)
}
