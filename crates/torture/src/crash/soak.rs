//! The choice of scenarios for a campaign.
//!
//! [`mixed`] is everything but the sequences of one and two operations, endlessly. A [`Soak`] consists of all of those
//! sequences with the mixture between them. It makes sure that cleaning and repair get their shares: whenever one of them has
//! less than its share of the distinct states, the next scenario is about it.

use super::scenario::{ROUNDS, Scenario};
use super::shape::Shape;
use super::totals::Totals;
use firnfs_sim::seeded;
use rand::RngExt;
use std::collections::VecDeque;

/// Percentage of states cut during cleaning, and during repair: each is at least this part of a soak ...
pub const SHARE_PERCENT: u64 = 10;
/// ... because it is at least this part whenever a scenario begins, and the scenarios under way are few compared with a soak.
const AIM_PERCENT: u64 = 13;

/// Bounded scenarios of the soak between two groups of the mixture.
const BOUNDED_TOGETHER: usize = 200;
/// Coprime to the number of sequences of two operations: each part of the soak has every operation.
const BOUNDED_STRIDE: u64 = 53;

/// Seeds of scenarios that fill up a share, far from those of the mixture.
const SHARE_SEEDS: u64 = 1 << 20;

/// See the module's head.
pub struct Soak {
    bounded: Box<dyn Iterator<Item = Scenario> + Send>,
    groups: Box<dyn Iterator<Item = Vec<Scenario>> + Send>,
    waiting: VecDeque<Scenario>,
    /// Distinct states after which it ends; the mixture continues when the sequences are done.
    states: Option<u64>,
    next_clean: u64,
    next_mend: u64,
}

impl Soak {
    /// Everything once; or this many distinct `states`, or a few more to fill up the shares.
    #[must_use]
    pub fn new(seed: u64, states: Option<u64>) -> Self {
        let bounded = |length: u32| {
            let count = Scenario::ace_count(length);
            (0..count).map(move |place| Scenario::Ace { length, number: place * BOUNDED_STRIDE % count })
        };
        Self {
            bounded: Box::new(bounded(1).chain(bounded(2))),
            groups: Box::new(groups(seed)),
            waiting: VecDeque::new(),
            states,
            next_clean: seed.wrapping_add(SHARE_SEEDS),
            next_mend: seed.wrapping_add(SHARE_SEEDS),
        }
    }

    /// The next scenario, given the totals so far.
    pub fn next(&mut self, totals: &Totals) -> Option<Scenario> {
        let is_enough = self.states.is_some_and(|states| totals.distinct >= states);
        if is_enough && shares(totals).is_ok() {
            return None;
        }
        if self.waiting.is_empty() {
            let bounded: Vec<Scenario> = self.bounded.by_ref().take(BOUNDED_TOGETHER).collect();
            if bounded.is_empty() && self.states.is_none() {
                return None;
            }
            self.waiting.extend(self.groups.next()?);
            self.waiting.extend(bounded);
        }
        let is_short = |part: u64| part * 100 < totals.distinct * AIM_PERCENT;
        if is_short(totals.mended) {
            self.next_mend += 1;
            return Some(Scenario::Mend { seed: self.next_mend });
        }
        if is_short(totals.cleaning) {
            self.next_clean += 1;
            return Some(Scenario::Shaped { shape: Shape::Clean, seed: self.next_clean });
        }
        self.waiting.pop_front()
    }
}

/// Reports a share that a soak promises but missed.
///
/// # Errors
/// The share, as text.
pub fn shares(totals: &Totals) -> Result<(), String> {
    for (part, what) in [(totals.cleaning, "cleaning"), (totals.mended, "repair")] {
        if part * 100 < totals.distinct * SHARE_PERCENT {
            return Err(format!("only {part} of {} states were cut during {what}", totals.distinct));
        }
    }
    Ok(())
}

/// Long histories with their rounds, samples of three operations, directories of many blocks and of many names, open files without
/// names, commits done step by step, files put in order, users with quotas, retained points, automatic points, remains of an earlier mount, a damaged volume under repair, a volume that is cleaned, a mirror whose
/// halves went on apart, and a full volume, endlessly.
pub fn mixed(seed: u64) -> impl Iterator<Item = Scenario> + Send {
    groups(seed).flatten()
}

/// What [`mixed`] has, in groups with one of almost everything.
fn groups(seed: u64) -> impl Iterator<Item = Vec<Scenario>> + Send {
    let mut rng = seeded(seed, "campaign");
    (0..).map(move |group: u64| {
        let long = (0..ROUNDS).map(|round| Scenario::Long { seed: seed.wrapping_add(group), round });
        let sample = |_| Scenario::Ace { length: 3, number: rng.random_range(0..Scenario::ace_count(3)) };
        let samples: Vec<Scenario> = (0..12).map(sample).collect();
        let seed = seed.wrapping_add(group);
        let of_shape = |shape| Scenario::Shaped { shape, seed };
        let stale = (0..4).map(|part| Scenario::Stale { seed: seed.wrapping_mul(4) + part, round: 1 });
        let split = (0..2).map(|part| Scenario::Split { seed: seed.wrapping_mul(2) + part });
        let of_points = |part| Scenario::Shaped { shape: Shape::Points, seed: seed.wrapping_mul(4) + part };
        let points = (0..4).map(of_points);
        let mut scenarios: Vec<Scenario> =
            stale.chain(split).chain(long).chain(samples).chain(points).collect();
        scenarios.extend(
            [
                Shape::Clean,
                Shape::Stepped,
                Shape::Wide,
                Shape::Open,
                Shape::Scattered,
                Shape::Quotas,
                Shape::Retained,
            ]
            .map(of_shape),
        );
        scenarios.extend([Scenario::Mend { seed }, Scenario::Full { seed }]);
        if group % 8 == 1 {
            scenarios.push(of_shape(Shape::Tight));
        }
        if group % 4 == 2 {
            scenarios.push(of_shape(Shape::Crowded));
        }
        scenarios
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all(soak: &mut Soak) -> Vec<Scenario> {
        std::iter::from_fn(|| soak.next(&Totals::default())).collect()
    }

    #[test]
    fn a_soak_has_every_bounded_scenario_once_and_everything_else_from_the_beginning() {
        let scenarios = all(&mut Soak::new(7, None));
        let bounded = |scenario: &&Scenario| matches!(scenario, Scenario::Ace { length: 1 | 2, .. });
        let bounded: Vec<&Scenario> = scenarios.iter().filter(bounded).collect();
        assert_eq!(bounded.len() as u64, Scenario::ace_count(1) + Scenario::ace_count(2));
        assert_eq!(bounded.iter().collect::<BTreeSet<_>>().len(), bounded.len());

        let early: BTreeSet<&str> = scenarios[..700].iter().map(Scenario::family).collect();
        let families = [
            "ace",
            "clean",
            "crowded",
            "full",
            "long",
            "mend",
            "open",
            "points",
            "quotas",
            "retained",
            "scattered",
            "split",
            "stale",
            "stepped",
            "tight",
            "wide",
        ];
        assert_eq!(early, BTreeSet::from(families));
    }

    #[test]
    fn a_kind_short_of_its_share_comes_next() {
        let mut soak = Soak::new(1, Some(1000));
        let even = Totals { distinct: 999, mended: 130, cleaning: 130, ..Totals::default() };
        assert!(matches!(soak.next(&even), Some(Scenario::Stale { .. })));
        let next = soak.next(&Totals { mended: 128, ..even });
        assert!(matches!(next, Some(Scenario::Mend { .. })), "{next:?}");
        let next = soak.next(&Totals { cleaning: 128, ..even });
        assert!(matches!(next, Some(Scenario::Shaped { shape: Shape::Clean, .. })), "{next:?}");
        assert!(shares(&even).is_ok());
        let short = Totals { distinct: 1000, mended: 99, ..even };
        assert!(shares(&short).is_err());
        assert!(
            matches!(soak.next(&short), Some(Scenario::Mend { .. })),
            "it does not end before its shares are kept"
        );
        assert_eq!(soak.next(&Totals { distinct: 1000, ..even }), None);
    }
}
