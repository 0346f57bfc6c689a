//! Victim selection.

use super::candidate::{Candidate, Terms};
use super::estimate::DeathRates;

/// A way to choose victims. Ages are those of [`Terms::age`]; u is the live share of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// The emptiest first (Sprite LFS, section 3.4).
    Greedy,
    /// The one written longest ago first, whatever its live bytes.
    Fifo,
    /// The emptiest of `d` random candidates (a fresh draw for each [`Terms::with_turn`]).
    DChoices {
        /// How many are drawn, at least 1.
        d: u32,
    },
    /// The emptiest of the `window` written longest ago.
    WindowedGreedy {
        /// How many, as a share of all candidates, 0 to 1.
        window: f64,
    },
    /// Sprite LFS, section 3.5, as its text says: largest (1-u) * age / (1+u), age of the youngest block.
    CostBenefitYoungest,
    /// Cost-benefit as its published curve needs it: largest (1-u) * age / u, time since the segment was written. The
    /// default: docs/decisions/0201.
    #[default]
    CostBenefit,
    /// Largest (1-u) / u * sqrt(age): age counts for less.
    CostBenefitSqrt,
    /// The emptiest of those of at least that age, or of all if there is none (F2FS's age threshold).
    AgeThreshold {
        /// The threshold, in grains.
        age: f64,
    },
    /// Cost-benefit with an estimate of how fast a segment's blocks die, based on its log: see `estimate.rs`.
    PooledRate {
        /// How much the log's rate counts, in segments' worth of deaths: 0 is `CostBenefit`, infinity is greedy within a log.
        weight: f64,
    },
}

impl Policy {
    /// The candidates to clean, best first; at most `count`. Ties go to the lower segment number.
    pub fn choose<I>(&self, candidates: I, terms: &Terms, count: usize) -> Vec<Candidate>
    where
        I: Iterator<Item = Candidate> + Clone,
    {
        let u = |c: &Candidate| terms.utilisation(c);
        match *self {
            Self::Greedy => best(candidates, count, |c| -f64::from(c.live_bytes)),
            Self::Fifo => best(candidates, count, |c| terms.age(c.written)),
            Self::DChoices { d } => {
                let drawn = best(candidates, d.max(1) as usize, |c| lot(c.segment.0, terms.turn()));
                best(drawn.into_iter(), count, |c| -f64::from(c.live_bytes))
            }
            Self::WindowedGreedy { window } => {
                let all = candidates.clone().count() as f64;
                let oldest =
                    best(candidates, ((all * window).ceil() as usize).max(count), |c| terms.age(c.written));
                best(oldest.into_iter(), count, |c| -f64::from(c.live_bytes))
            }
            Self::CostBenefitYoungest => {
                best(candidates, count, |c| (1.0 - u(c)).max(0.0) * terms.age(c.youngest) / (1.0 + u(c)))
            }
            Self::CostBenefit => best(candidates, count, |c| emptiness(u(c)) * terms.age(c.written)),
            Self::CostBenefitSqrt => {
                best(candidates, count, |c| emptiness(u(c)) * terms.age(c.written).sqrt())
            }
            Self::AgeThreshold { age } => {
                let old = |c: &Candidate| terms.age(c.written) >= age;
                best(candidates, count, |c| f64::from(u8::from(old(c))) * 2.0 - u(c))
            }
            Self::PooledRate { weight } => {
                let rates = DeathRates::of(candidates.clone(), terms, weight);
                best(candidates, count, |c| rates.score(c, terms))
            }
        }
    }
}

/// Free space gained for each block moved.
fn emptiness(u: f64) -> f64 {
    (1.0 - u).max(0.0) / u.max(1e-9)
}

/// The `count` highest scores, highest first.
fn best<I>(candidates: I, count: usize, score: impl Fn(&Candidate) -> f64) -> Vec<Candidate>
where
    I: Iterator<Item = Candidate>,
{
    let before = |a: &(f64, Candidate), b: &(f64, Candidate)| {
        b.0.total_cmp(&a.0).then_with(|| a.1.segment.cmp(&b.1.segment))
    };
    let scored = candidates.map(|c| (score(&c), c));
    if count == 1 {
        return first(scored).into_iter().collect();
    }
    let mut ranked: Vec<_> = scored.collect();
    if count == 0 {
        return Vec::new();
    }
    if count < ranked.len() {
        ranked.select_nth_unstable_by(count - 1, before);
        ranked.truncate(count);
    }
    ranked.sort_unstable_by(before);
    ranked.into_iter().map(|(_, c)| c).collect()
}

/// The highest score: one comparison for each candidate, for callers that clean one segment at a time.
fn first(scored: impl Iterator<Item = (f64, Candidate)>) -> Option<Candidate> {
    let mut highest = f64::NEG_INFINITY;
    let mut found: Option<Candidate> = None;
    for (score, candidate) in scored {
        let ties = || score == highest && found.is_none_or(|f| candidate.segment < f.segment);
        if score > highest || ties() {
            highest = score;
            found = Some(candidate);
        }
    }
    found
}

/// A number in 0..1 that looks random (SplitMix64 of segment and turn): the draw of d-choices, without a generator.
fn lot(segment: u64, turn: u64) -> f64 {
    let mut word = segment.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ turn.wrapping_mul(0xd1b5_4a32_d192_ed03);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    (word >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
