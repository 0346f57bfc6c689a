//! The micro benchmark: small tasks, timed on several file systems in interleaved rounds.
//!
//! Every round runs every scenario once on every target. The order of the targets rotates from round to round, so that
//! disturbances of the machine affect all of them alike. It reports medians, and medians of the ratios within a round.
//! *Buffered* is the time until the last call returned; *durable* also includes the sync that makes the data durable; no ratio
//! mixes the two. Reads are verified.
//!
//! [`task`] names the tasks, [`scenario`], `clients` and [`programs`] carry them out, [`target`] and [`mount`] the file systems that they run on, [`report`] the
//! statistics, [`processor`] the times on processors, [`goals`] what they shall reach, [`text`] the tables.
//!
//! - Further rows: `library` (past the mount), `bandwidth` (of one large file; `throttled` limits a device), `fsck`, `recovery`,
//!   `scale` (large directories), `figures` (ratios between tasks).
//! - Tools: `environment` (the machine), `loop_device`, `tool` (other programs), `tree` (the archive to unpack), `stop` (an early
//!   end), `table` (Markdown).

pub mod bandwidth;
mod clients;
pub mod environment;
pub mod figures;
pub mod fsck;
pub mod goals;
pub mod library;
pub(crate) mod loop_device;
pub mod mount;
pub mod processor;
pub mod programs;
pub mod recovery;
pub mod report;
pub mod scale;
pub mod scenario;
pub mod stop;
pub mod table;
pub mod target;
pub mod task;
pub mod text;
mod throttled;
pub mod tool;
pub mod tree;

use crate::LabError;
use environment::Environment;
use library::Library;
use processor::Taken;
use report::{Column, Report, Roles};
use serde::{Deserialize, Serialize};
use stop::Stop;
use target::Target;
use task::{Scenario, Task, Workload};

/// The meaning of a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Until the last call returned; the data may be in memory only.
    Buffered,
    /// Including the sync or fsync that makes the data survive a power cut.
    Durable,
    /// A read with caches dropped.
    Cold,
    /// A read of data in the caches.
    Warm,
}

/// One timed run of one task on one target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The task.
    pub task: Task,
    /// What the time includes.
    pub durability: Durability,
    /// Name of the target.
    pub target: String,
    /// Round, from 0.
    pub round: u32,
    /// Elapsed time, and processor times.
    #[serde(flatten)]
    pub taken: Taken,
}

/// What to run.
pub struct Plan {
    /// The file systems; their names are unique.
    pub targets: Vec<Box<dyn Target>>,
    /// The subject and what it is compared with.
    pub roles: Roles,
    /// The sizes of the tasks.
    pub workload: Workload,
    /// Number of rounds, at least 1.
    pub rounds: u32,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// The rows that bypass the mount, if wanted.
    pub library: Option<Library>,
    /// The share of devices' bandwidth, if wanted.
    pub bandwidth: Option<bandwidth::Bandwidth>,
    /// How a directory's size affects the cost of a create, on the subject, if wanted.
    pub scale: Option<scale::Scale>,
    /// The time of the file system check, if wanted.
    pub fsck: Option<fsck::Fsck>,
    /// The time of recovery, if wanted.
    pub recovery: Option<recovery::Recovery>,
    /// Ends the run early.
    pub stop: Stop,
}

/// The progress of a run, for a progress bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Steps done.
    pub done: u64,
    /// Total number of steps.
    pub total: u64,
    /// The current step.
    pub what: String,
}

/// Runs the plan and reports.
///
/// # Errors
/// The first error ends the run: an incomplete benchmark compares nothing. `Interrupted` if it was asked to stop.
pub fn run(plan: &mut Plan, progress: &mut dyn FnMut(&Step)) -> Result<Report, LabError> {
    let environment = Environment::observe();
    let has_program = |s: &Scenario| s.program().is_none_or(programs::is_there);
    let (scenarios, left_out): (Vec<Scenario>, Vec<Scenario>) =
        plan.scenarios.iter().partition(|s| has_program(s));
    let total = u64::from(plan.rounds) * scenarios.len() as u64 * plan.targets.len() as u64;
    let samples = rounds(plan, &scenarios, total, progress)?;
    let mut last = |what: String| progress(&Step { done: total, total, what });
    let measured = figures_of_their_own(plan, &mut last)?;
    last("done".to_owned());
    let columns = plan.targets.iter().map(|target| Column::of(target.as_ref())).collect();
    let (roles, workload) = (plan.roles.clone(), plan.workload.clone());
    let mut report = Report::new(environment, (roles, columns), plan.rounds, workload, samples);
    let word = |s: &Scenario| s.program().map(|program| format!("{}: no {program} here", s.title()));
    report.left_out = left_out.iter().filter_map(word).collect();
    report.figures.extend(figures::from_samples(&report.roles, &report.workload, &report.samples));
    report.figures.extend(measured);
    Ok(report)
}

/// Every scenario on every target, and what bypasses the mounts, in each round.
fn rounds(
    plan: &mut Plan,
    scenarios: &[Scenario],
    total: u64,
    progress: &mut dyn FnMut(&Step),
) -> Result<Vec<Sample>, LabError> {
    let tasks = scenario::Prepared::new(&plan.workload, scenarios, &plan.stop)?;
    let mut samples = Vec::new();
    let mut done = 0;
    for round in 0..plan.rounds {
        let in_round = |what: String| format!("round {}: {what}", round + 1);
        for &scenario in scenarios {
            for turn in 0..plan.targets.len() {
                let index = (turn + round as usize) % plan.targets.len();
                let target = turn_of(&mut plan.targets, index)?;
                let what = in_round(format!("{} on {}", scenario.title(), target.name()));
                progress(&Step { done, total, what });
                tasks.run(scenario, target, round, &mut samples)?;
                done += 1;
            }
        }
        if let Some(library) = &plan.library {
            progress(&Step { done, total, what: in_round("the library".to_owned()) });
            library.round(&plan.workload, round, &mut samples, &plan.stop)?;
        }
        if let Some(bandwidth) = &plan.bandwidth {
            progress(&Step { done, total, what: in_round("bandwidth".to_owned()) });
            bandwidth.round(round, &mut samples, &plan.stop)?;
        }
    }
    Ok(samples)
}

/// The figures that have rounds of their own.
fn figures_of_their_own(
    plan: &mut Plan,
    progress: &mut dyn FnMut(String),
) -> Result<Vec<report::Figure>, LabError> {
    let mut figures = Vec::new();
    let subject = plan.roles.subject.as_ref();
    let index = plan.targets.iter().position(|target| Some(target.name()) == subject.map(String::as_str));
    if let (Some(scale), Some(index)) = (&plan.scale, index) {
        let target = turn_of(&mut plan.targets, index)?;
        progress(format!("filling a directory on {}", target.name()));
        figures.extend(scale.measure(target, &plan.stop)?);
    }
    if let Some(fsck) = &plan.fsck {
        progress(format!("checking {} files", fsck.files));
        figures.push(fsck.measure(&plan.stop)?);
    }
    if let Some(recovery) = &plan.recovery {
        progress(format!("recovering {} files", recovery.files));
        figures.push(recovery.measure(&plan.stop)?);
    }
    Ok(figures)
}

/// Makes one target ready; the others give up what it may need.
fn turn_of(targets: &mut [Box<dyn Target>], index: usize) -> Result<&mut dyn Target, LabError> {
    for (other, target) in targets.iter_mut().enumerate() {
        if other != index {
            target.end_turn()?;
        }
    }
    let target = targets[index].as_mut();
    target.begin_turn()?;
    Ok(target)
}
