//! Medians, ratios and tables.
//!
//! The ratio of a row is the median over the rounds of (subject's time / other's time) within the round, not the ratio
//! of two medians: a disturbance of a round slows both.

use super::environment::Environment;
use super::scenario::{Task, Workload};
use super::{Durability, Sample};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The longest time of a task relative to the null file system mounted in the same way.
const NULL_LIMIT: f64 = 1.3;

/// The subject and what it is compared with, by name of target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Roles {
    /// The subject; absent if a run only compares other file systems.
    pub subject: Option<String>,
    /// The null file system: memory behind the same transport.
    pub null: Option<String>,
    /// The file systems to compare with; the limits apply to the first.
    pub against: Vec<String>,
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
}

/// Subject's time over another target's, round by round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// The other target.
    pub to: String,
    /// Below 1: the subject is faster.
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
    /// One for each target that ran it.
    pub times: Vec<Time>,
    /// The subject against every other target.
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
    /// Interleaved rounds.
    pub rounds: u32,
    /// Sizes of the tasks.
    pub workload: Workload,
    /// The tasks.
    pub rows: Vec<Row>,
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
        roles: Roles,
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
            .map(|(task, durability)| row(task, durability, &roles, &workload, &samples))
            .collect();
        Self { environment, roles, rounds, workload, rows, figures: Vec::new(), samples }
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
                    "{} ({:?}): {:.2} x {}, goal {:.2}",
                    row.title,
                    row.durability,
                    r.ratio.median,
                    r.to,
                    r.limit.unwrap_or_default()
                )
                .to_lowercase()
            })
        });
        let figures =
            self.figures.iter().filter(|f| f.reached() == Some(false)).map(|f| {
                format!("{}: {:.2}, goal {:.2}", f.title, f.value.median, f.limit.unwrap_or_default())
            });
        rows.chain(figures).collect()
    }

    /// The report as Markdown; its tables also read well as plain text.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", self.environment)?;
        writeln!(
            out,
            "\n{} interleaved rounds; medians in milliseconds; ratios are medians of the ratios within a round \
             (smallest to largest in brackets). *buffered*: until the last call returned. *durable*: including the \
             fsync or the sync of the whole file system. *cold*: caches dropped, remounted where possible. *warm*: from \
             the caches.\n",
            self.rounds
        )?;
        if !self.rows.is_empty() {
            out.push_str(&super::table::markdown(&self.row_header(), &self.row_cells()));
        }
        if !self.figures.is_empty() {
            out.push('\n');
            out.push_str(&super::table::markdown(&FIGURE_HEADER, &self.figure_cells()));
        }
        let missed = self.missed();
        if !missed.is_empty() {
            writeln!(out, "\nGoals not reached in this run:\n")?;
            for line in missed {
                writeln!(out, "- {line}")?;
            }
        }
        Ok(())
    }

    fn columns(&self) -> impl Iterator<Item = &String> {
        self.roles.against.iter().chain(&self.roles.subject).chain(&self.roles.null)
    }

    fn row_header(&self) -> Vec<String> {
        let mut header = vec!["task".to_owned(), "time is".to_owned()];
        header.extend(self.columns().cloned());
        if let Some(subject) = &self.roles.subject {
            let others = self.roles.against.iter().chain(&self.roles.null);
            header.extend(others.flat_map(|other| [format!("{subject} / {other}"), "goal".to_owned()]));
        }
        header
    }

    fn row_cells(&self) -> Vec<Vec<String>> {
        self.rows
            .iter()
            .map(|row| {
                let mut cells = vec![row.title.clone(), format!("{:?}", row.durability).to_lowercase()];
                cells.extend(self.columns().map(|name| {
                    row.times
                        .iter()
                        .find(|t| &t.target == name)
                        .map_or_else(|| "-".to_owned(), |t| format!("{:.1}", t.ms.median))
                }));
                if self.roles.subject.is_some() {
                    for other in self.roles.against.iter().chain(&self.roles.null) {
                        cells.extend(ratio_cells(row.ratios.iter().find(|r| &r.to == other)));
                    }
                }
                cells
            })
            .collect()
    }

    fn figure_cells(&self) -> Vec<Vec<String>> {
        self.figures
            .iter()
            .map(|f| {
                let goal = f.limit.map_or_else(String::new, |limit| {
                    let sign = if f.at_least { ">=" } else { "<=" };
                    format!("{sign} {limit:.2}, {}", verdict(f.reached()))
                });
                vec![f.title.clone(), spread(&f.value), goal, f.detail.clone()]
            })
            .collect()
    }
}

const FIGURE_HEADER: [&str; 4] = ["figure", "value", "goal", "from"];

fn ratio_cells(ratio: Option<&Ratio>) -> [String; 2] {
    let Some(r) = ratio else { return ["-".to_owned(), String::new()] };
    let goal = r.limit.map_or_else(String::new, |limit| format!("<= {limit:.2}, {}", verdict(r.reached())));
    [spread(&r.ratio), goal]
}

fn verdict(reached: Option<bool>) -> &'static str {
    match reached {
        Some(true) => "reached",
        Some(false) => "**missed**",
        None => "",
    }
}

fn spread(s: &Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", s.median, s.min, s.max)
}

fn row(task: Task, durability: Durability, roles: &Roles, workload: &Workload, samples: &[Sample]) -> Row {
    let of_row = || samples.iter().filter(move |s| (s.task, s.durability) == (task, durability));
    let mut names: Vec<&str> = Vec::new();
    for sample in of_row() {
        if !names.contains(&sample.target.as_str()) {
            names.push(&sample.target);
        }
    }
    let times = names
        .iter()
        .filter_map(|name| {
            let ms: Vec<f64> =
                of_row().filter(|s| s.target == *name).map(|s| s.elapsed_ns as f64 / 1e6).collect();
            Some(Time { target: (*name).to_owned(), ms: Spread::of(&ms)? })
        })
        .collect();
    let ratios = roles.subject.as_ref().map_or_else(Vec::new, |subject| {
        let others = names.iter().filter(|name| *name != subject);
        others
            .filter_map(|other| {
                let ratio = Spread::of(&round_ratios(of_row().collect(), subject, other))?;
                Some(Ratio { to: (*other).to_owned(), ratio, limit: limit(task, durability, other, roles) })
            })
            .collect()
    });
    Row { task, title: task.title(workload), durability, times, ratios }
}

/// The project's goals apply against the first file system compared with, and against the null file system.
fn limit(task: Task, durability: Durability, other: &str, roles: &Roles) -> Option<f64> {
    if roles.null.as_deref() == Some(other) {
        task.is_bound_by_transport(durability).then_some(NULL_LIMIT)
    } else if roles.against.first().map(String::as_str) == Some(other) {
        task.limit(durability)
    } else {
        None
    }
}

fn round_ratios(samples: Vec<&Sample>, subject: &str, other: &str) -> Vec<f64> {
    samples
        .iter()
        .filter(|s| s.target == subject)
        .filter_map(|mine| {
            let theirs = samples.iter().find(|s| s.target == other && s.round == mine.round)?;
            Some(mine.elapsed_ns as f64 / theirs.elapsed_ns.max(1) as f64)
        })
        .collect()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
