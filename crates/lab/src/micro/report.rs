//! Medians and ratios; [`text`](super::text) makes tables of them.
//!
//! The ratio of a row is the median over the rounds of (subject's time / other's time) within the round, not the ratio
//! of two medians: a disturbance of a round slows both.

use super::environment::Environment;
use super::goals;
use super::target::Target;
use super::task::{Task, Workload};
use super::{Durability, Sample};
use serde::{Deserialize, Serialize};

/// The subject and what it is compared with, by name of target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Roles {
    /// The subject; absent if a run only compares other file systems.
    pub subject: Option<String>,
    /// The subject's image mounted with other options.
    pub variants: Vec<String>,
    /// The null file system: memory behind the same transport.
    pub null: Option<String>,
    /// The file systems to compare with; goals refer to the first, a few to `null`.
    pub against: Vec<String>,
}

impl Roles {
    /// All targets, in the order of the tables.
    pub(super) fn targets(&self) -> impl Iterator<Item = &String> {
        self.against.iter().chain(&self.subject).chain(&self.variants).chain(&self.null)
    }

    /// Whose time is divided by whose, in the order of the tables.
    pub(super) fn comparisons(&self) -> Vec<(&String, &String)> {
        let (first, others) = (self.against.first(), self.against.iter().skip(1).chain(&self.null));
        let all = self.subject.iter().chain(&self.variants);
        let to_first = all.flat_map(|of| first.map(|to| (of, to)));
        let of_subject = others.flat_map(|to| self.subject.as_ref().map(|of| (of, to)));
        to_first.chain(of_subject).collect()
    }
}

/// A target, as it was served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Name of the target.
    pub target: String,
    /// How requests came from the kernel: `/dev/fuse` or `io_uring`, as its daemon said; null without a daemon.
    pub transport: Option<String>,
    /// Whether the kernel collected writes for its daemon.
    pub writeback: bool,
}

impl Column {
    /// Describes a target that has been mounted.
    #[must_use]
    pub fn of(target: &dyn Target) -> Self {
        let served = target.served();
        Self {
            target: target.name().to_owned(),
            transport: served.map(|served| served.transport.clone()),
            writeback: served.is_some_and(|served| served.writeback),
        }
    }
}

/// Median and spread of a set of numbers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The median (mean of the middle two).
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of at least one number.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }
}

/// Time of one target in one row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Time {
    /// Name of the target.
    pub target: String,
    /// Milliseconds.
    pub ms: Spread,
    /// Median processor time of the benchmark and of the programs that it started, in milliseconds.
    pub client_ms: f64,
    /// Median processor time of the daemon, in milliseconds; null without a daemon.
    pub daemon_ms: Option<f64>,
}

/// One target's time over another's, round by round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// The subject or a variant.
    pub of: String,
    /// The other target.
    pub to: String,
    /// Below 1: `of` is faster.
    pub ratio: Spread,
    /// The goal, if there is one: at most this.
    pub limit: Option<f64>,
}

impl Ratio {
    /// Whether the goal is reached; `None` without a goal.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        self.limit.map(|limit| self.ratio.median <= limit)
    }
}

/// One task with one meaning of "done".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The task.
    pub task: Task,
    /// What it does, for people.
    pub title: String,
    /// What the times include.
    pub durability: Durability,
    /// Its number of operations: files, calls on the large file, crates, transactions.
    pub operations: u64,
    /// One for each target that ran it.
    pub times: Vec<Time>,
    /// The subject against all that it is compared with, and each variant against the first.
    pub ratios: Vec<Ratio>,
}

/// A single figure with its own goal, such as a share of raw bandwidth.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub title: String,
    /// Its value over the rounds.
    pub value: Spread,
    /// The goal: `value.median` at most (or, if `at_least`, at least) this.
    pub limit: Option<f64>,
    /// Direction of the goal.
    pub at_least: bool,
    /// The numbers from which it was computed.
    pub detail: String,
}

impl Figure {
    /// Whether the goal is reached; `None` without a goal.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        self.limit.map(
            |limit| {
                if self.at_least { self.value.median >= limit } else { self.value.median <= limit }
            },
        )
    }
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub environment: Environment,
    /// The roles.
    pub roles: Roles,
    /// How the targets were served.
    pub columns: Vec<Column>,
    /// Interleaved rounds.
    pub rounds: u32,
    /// Sizes of the tasks.
    pub workload: Workload,
    /// The tasks.
    pub rows: Vec<Row>,
    /// Scenarios that need a program that is missing, one line each.
    pub left_out: Vec<String>,
    /// Figures besides the tasks.
    pub figures: Vec<Figure>,
    /// Every single time.
    pub samples: Vec<Sample>,
}

impl Report {
    /// Computes rows from samples.
    #[must_use]
    pub fn new(
        environment: Environment,
        (roles, columns): (Roles, Vec<Column>),
        rounds: u32,
        workload: Workload,
        samples: Vec<Sample>,
    ) -> Self {
        let timed = samples.iter().filter(|s| !s.task.is_part_of_figure());
        let mut keys: Vec<(Task, Durability)> = timed.map(|s| (s.task, s.durability)).collect();
        keys.sort_unstable();
        keys.dedup();
        let rows = keys
            .into_iter()
            .map(|(task, durability)| row((task, durability), (&roles, &columns), &workload, &samples))
            .collect();
        Self {
            environment,
            roles,
            columns,
            rounds,
            workload,
            rows,
            left_out: Vec::new(),
            figures: Vec::new(),
            samples,
        }
    }

    /// Median time of a target in a row, in milliseconds.
    #[must_use]
    pub fn median_ms(&self, task: Task, durability: Durability, target: &str) -> Option<f64> {
        let row = self.rows.iter().find(|r| (r.task, r.durability) == (task, durability))?;
        row.times.iter().find(|t| t.target == target).map(|t| t.ms.median)
    }

    /// Missed goals, one line each.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let rows = self.rows.iter().flat_map(|row| {
            row.ratios.iter().filter(|r| r.reached() == Some(false)).map(move |r| {
                format!(
                    "{} ({}): {} {:.2} x {}, goal {:.2}",
                    row.title,
                    format!("{:?}", row.durability).to_lowercase(),
                    r.of,
                    r.ratio.median,
                    r.to,
                    r.limit.unwrap_or_default()
                )
            })
        });
        let figures =
            self.figures.iter().filter(|f| f.reached() == Some(false)).map(|f| {
                format!("{}: {:.2}, goal {:.2}", f.title, f.value.median, f.limit.unwrap_or_default())
            });
        rows.chain(figures).collect()
    }
}

fn row(
    (task, durability): (Task, Durability),
    (roles, columns): (&Roles, &[Column]),
    workload: &Workload,
    samples: &[Sample],
) -> Row {
    let of_row: Vec<&Sample> =
        samples.iter().filter(|s| (s.task, s.durability) == (task, durability)).collect();
    let mut names: Vec<&str> = Vec::new();
    for sample in &of_row {
        if !names.contains(&sample.target.as_str()) {
            names.push(&sample.target);
        }
    }
    let time = |name: &&str| {
        let taken = || of_row.iter().filter(|s| s.target == *name).map(|s| s.taken);
        let spread = |ns: Vec<u64>| Spread::of(&ns.iter().map(|&ns| ns as f64 / 1e6).collect::<Vec<_>>());
        Some(Time {
            target: (*name).to_owned(),
            ms: spread(taken().map(|t| t.elapsed_ns).collect())?,
            client_ms: spread(taken().map(|t| t.client_ns).collect())?.median,
            daemon_ms: spread(taken().filter_map(|t| t.daemon_ns).collect()).map(|s| s.median),
        })
    };
    let ratio = |(of, to): (&String, &String)| {
        Some(Ratio {
            of: of.clone(),
            to: to.clone(),
            ratio: Spread::of(&round_ratios(&of_row, of, to))?,
            limit: limit((task, durability), (of, to), roles, columns),
        })
    };
    Row {
        task,
        title: task.title(workload),
        durability,
        operations: task.operations(workload),
        times: names.iter().filter_map(time).collect(),
        ratios: roles.comparisons().into_iter().filter_map(ratio).collect(),
    }
}

/// The goals refer to the first file system compared with, and to the null file system; [`goals`] says whom they apply to.
fn limit(
    (task, durability): (Task, Durability),
    (of, to): (&String, &String),
    roles: &Roles,
    columns: &[Column],
) -> Option<f64> {
    if roles.null.as_ref() == Some(to) {
        return goals::of_null(task, durability);
    }
    if roles.against.first() != Some(to) {
        return None;
    }
    let writeback = columns.iter().any(|column| &column.target == of && column.writeback);
    let own = writeback.then(|| goals::with_writeback(task, durability)).flatten();
    let of_subject = || (roles.subject.as_ref() == Some(of)).then(|| goals::of(task, durability)).flatten();
    own.or_else(of_subject)
}

fn round_ratios(samples: &[&Sample], subject: &str, other: &str) -> Vec<f64> {
    samples
        .iter()
        .filter(|s| s.target == subject)
        .filter_map(|mine| {
            let theirs = samples.iter().find(|s| s.target == other && s.round == mine.round)?;
            Some(mine.taken.elapsed_ns as f64 / theirs.taken.elapsed_ns.max(1) as f64)
        })
        .collect()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
