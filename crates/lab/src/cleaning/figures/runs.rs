//! The simulations behind the figures and claims, and their results by condition.

use super::claims::Claim;
use super::condition::Condition;
use crate::cleaning::batch;
use crate::cleaning::simulate::Outcome;
use crate::error::LabError;
use crate::plot::{Curve, Style};

/// Utilisations of the curves.
pub(super) const UTILISATIONS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// Numbers of segments cleaned at a time, for the plots over them.
pub(super) const AT_A_TIME: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 96];

/// Greedy cleaning of uniform writes.
pub(super) const UNIFORM: Style = Style(0);
/// Greedy cleaning of hot-and-cold writes.
pub(super) const GREEDY: Style = Style(1);
/// Cost-benefit by the age of the segment, hot-and-cold.
pub(super) const SEGMENT_AGE: Style = Style(2);
/// Cost-benefit by the age of the youngest block, hot-and-cold.
pub(super) const YOUNGEST: Style = Style(3);

/// All segments equally full.
pub(super) const NO_VARIANCE: Style = Style(4);
/// The Fast File System, as the paper gives its cost.
pub(super) const FFS_TODAY: Style = Style(5);
pub(super) const FFS_IMPROVED: Style = Style(6);
/// Greedy cleaning of writes that are hotter.
const HOTTER: Style = Style(7);
/// Cost-benefit without sorting by age.
const UNSORTED: Style = Style(8);

/// A line over the number of segments cleaned at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batched {
    pub name: &'static str,
    condition: Condition,
    style: Style,
}

pub(super) const BATCHED: [Batched; 5] = [
    Batched { name: "greedy, uniform", condition: Condition::PAPER, style: UNIFORM },
    Batched { name: "greedy, 10/90, age sort", condition: Condition::HOT_COLD, style: GREEDY },
    Batched {
        name: "greedy, 5/95, age sort",
        condition: Condition::HOT_COLD.of("hot-cold:5/95"),
        style: HOTTER,
    },
    Batched {
        name: "segment age, 10/90, age sort",
        condition: Condition::HOT_COLD.by("cost-benefit"),
        style: SEGMENT_AGE,
    },
    Batched {
        name: "segment age, 10/90, unsorted",
        condition: Condition::HOT_COLD.by("cost-benefit").unsorted(),
        style: UNSORTED,
    },
];

/// All simulations, each once.
pub(super) fn plan(claims: &[Claim]) -> Vec<Condition> {
    let hot = Condition::HOT_COLD;
    let curves = [Condition::PAPER, hot, hot.by("cost-benefit"), hot.by("cost-benefit-youngest")];
    let curves = curves.into_iter().flat_map(|curve| UTILISATIONS.map(|u| curve.at(u)));
    let batched = BATCHED.iter().flat_map(|line| {
        AT_A_TIME.into_iter().flat_map(|n| [line.condition.until_clean(n), line.condition.single_pass(n)])
    });
    let claimed = claims.iter().flat_map(|claim| claim.conditions.iter().copied());
    let mut plan = Vec::new();
    for condition in curves.chain(batched).chain(claimed) {
        if !plan.contains(&condition) {
            plan.push(condition);
        }
    }
    plan
}

/// The outcomes of all simulations.
pub(super) struct Results(Vec<(Condition, Outcome)>);

impl Results {
    pub fn simulate(
        plan: Vec<Condition>,
        threads: usize,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Self, LabError> {
        let setups = plan.iter().map(Condition::setup).collect::<Result<Vec<_>, _>>()?;
        let outcomes = batch::run(&setups, threads, progress)?;
        Ok(Self(plan.into_iter().zip(outcomes).collect()))
    }

    /// The outcome under a condition, which must be in the plan.
    pub fn of(&self, condition: &Condition) -> &Outcome {
        let found = self.0.iter().find(|(planned, _)| planned == condition);
        &found.expect("claims and plots use only runs in the plan").1
    }

    /// Runs that were not steady, or not precise enough, within the limit.
    pub fn unsteady(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter().filter(|(_, outcome)| !outcome.is_steady).map(|(condition, _)| condition)
    }

    /// Write cost over utilisation.
    pub fn curve(&self, label: &'static str, style: Style, condition: Condition) -> Curve {
        let cost = |u: f64| self.of(&condition.at(u)).write_cost;
        Curve::new(label, style, UTILISATIONS.map(|u| (u, cost(u).mean)).to_vec())
            .with_half_widths(UTILISATIONS.map(|u| cost(u).half_width).to_vec())
    }

    /// Write cost over the number of segments cleaned at a time.
    pub fn by_batch(&self, line: &Batched, regime: fn(Condition, u32) -> Condition) -> Curve {
        let cost = |n| self.of(&regime(line.condition, n)).write_cost;
        Curve::new(line.name, line.style, AT_A_TIME.map(|n| (f64::from(n), cost(n).mean)).to_vec())
            .with_half_widths(AT_A_TIME.map(|n| cost(n).half_width).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_schemes_share_a_style() {
        let mut styles: Vec<u8> = BATCHED.iter().map(|line| line.style.0).collect();
        styles.extend([YOUNGEST, NO_VARIANCE, FFS_TODAY, FFS_IMPROVED].map(|style| style.0));
        styles.sort_unstable();
        let all = styles.len();
        styles.dedup();
        assert_eq!(styles.len(), all);
    }
}
