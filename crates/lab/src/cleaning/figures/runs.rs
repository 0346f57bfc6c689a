//! The simulations behind the figures, and their results by name.
//!
//! Conditions that the paper does not give are ours: 2000 segments of 256 blocks, 4 cleaned at a time. The claims at 95% have
//! a size of their own ([`AT_95`]): how many segments are cleaned at a time decides them.

use super::Curve;
use crate::cleaning::engine::Regime;
use crate::cleaning::simulate::{Outcome, Setup};
use crate::cleaning::{batch, scheme};
use crate::error::LabError;

/// Utilisations of the curves.
const UTILISATIONS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// Segments cleaned at a time, for the plot of it.
pub(super) const AT_A_TIME: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 96];
/// Segments cleaned at a time in the curves.
const USUAL_BATCH: u32 = 4;
/// Segments, blocks of each, and segments cleaned at a time for the claims at 95%.
const AT_95: (u32, u32, u32) = (1000, 128, 27);

/// A line of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    pub name: &'static str,
    workload: &'static str,
    policy: &'static str,
    age_sort: bool,
}

const fn series(name: &'static str, workload: &'static str, policy: &'static str, age_sort: bool) -> Series {
    Series { name, workload, policy, age_sort }
}

/// Lines over utilisation.
const OVER_UTILISATION: [Series; 4] = [
    series("greedy uniform", "uniform", "greedy", false),
    series("greedy hot", "hot-cold", "greedy", true),
    series("cost-benefit", "hot-cold", "cost-benefit", true),
    series("cost-benefit-youngest", "hot-cold", "cost-benefit-youngest", true),
];

/// Lines over the number of segments cleaned at a time.
pub(super) const BATCHED: [Series; 5] = [
    series("greedy, uniform", "uniform", "greedy", false),
    series("greedy, hot-and-cold, age sort", "hot-cold", "greedy", true),
    series("greedy, hot-and-cold 5/95, age sort", "hot-cold:5/95", "greedy", true),
    series("cost-benefit, hot-and-cold, age sort", "hot-cold", "cost-benefit", true),
    series("cost-benefit, hot-and-cold, unsorted", "hot-cold", "cost-benefit", false),
];

/// Points at 95%.
const NEARLY_FULL: [Series; 4] = [
    series("95 sorted", "hot-cold", "cost-benefit", true),
    series("95 unsorted", "hot-cold", "cost-benefit", false),
    series("95 youngest sorted", "hot-cold", "cost-benefit-youngest", true),
    series("95 youngest unsorted", "hot-cold", "cost-benefit-youngest", false),
];

/// One simulation and where its result belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    series: Series,
    utilisation: f64,
    segments: u32,
    segment_blocks: u32,
    at_a_time: u32,
}

/// All simulations.
pub(super) fn plan() -> Vec<Run> {
    let usual = |series, utilisation, at_a_time| Run {
        series,
        utilisation,
        segments: 2000,
        segment_blocks: 256,
        at_a_time,
    };
    let over_utilisation = OVER_UTILISATION
        .iter()
        .flat_map(|&s| UTILISATIONS.map(|utilisation| usual(s, utilisation, USUAL_BATCH)));
    let batched = BATCHED.iter().flat_map(|&s| AT_A_TIME.map(|at_a_time| usual(s, 0.75, at_a_time)));
    let nearly_full = NEARLY_FULL.iter().map(|&series| Run {
        series,
        utilisation: 0.95,
        segments: AT_95.0,
        segment_blocks: AT_95.1,
        at_a_time: AT_95.2,
    });
    over_utilisation.chain(batched).chain(nearly_full).collect()
}

impl Run {
    fn setup(&self) -> Result<Setup, LabError> {
        let wrong = LabError::Setup;
        Ok(Setup {
            workload: self.series.workload.parse::<scheme::NamedWorkload>().map_err(wrong)?,
            policy: self.series.policy.parse().map_err(wrong)?,
            placement: scheme::PlacementName::Real(firnfs::clean::PlacementName::One),
            utilisation: self.utilisation,
            segments: self.segments,
            segment_blocks: self.segment_blocks,
            regime: Regime::sprite(self.at_a_time, self.at_a_time, self.series.age_sort),
            seed: 1,
            precision: 0.01,
            max_volumes: 60.0,
        })
    }
}

/// What came out of all of them.
pub(super) struct Results(Vec<(Run, Outcome)>);

impl Results {
    pub fn simulate(threads: usize, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Self, LabError> {
        let plan = plan();
        let setups = plan.iter().map(Run::setup).collect::<Result<Vec<_>, _>>()?;
        let outcomes = batch::run(&setups, threads, progress)?;
        Ok(Self(plan.into_iter().zip(outcomes).collect()))
    }

    /// The outcome of a series at a utilisation; both must be in the plan.
    pub fn at(&self, name: &str, utilisation: f64) -> &Outcome {
        let found = self.0.iter().find(|(run, _)| run.series.name == name && run.utilisation == utilisation);
        &found.expect("claims and plots ask for what is in the plan").1
    }

    /// The write cost of a series when so many segments are cleaned at a time.
    pub fn cost_in_batches(&self, name: &str, at_a_time: u32) -> f64 {
        let found = self.0.iter().find(|(run, _)| run.series.name == name && run.at_a_time == at_a_time);
        found.expect("claims ask for what is in the plan").1.write_cost.mean
    }

    /// Write cost over utilisation.
    pub fn curve(&self, label: &'static str, name: &str) -> Curve {
        let points = UTILISATIONS.map(|u| (u, self.at(name, u).write_cost.mean));
        Curve { label, points: points.to_vec() }
    }

    /// Write cost over the number of segments cleaned at a time.
    pub fn by_batch(&self, series: &Series) -> Curve {
        let points = AT_A_TIME.map(|n| (f64::from(n), self.cost_in_batches(series.name, n)));
        Curve { label: series.name, points: points.to_vec() }
    }
}
