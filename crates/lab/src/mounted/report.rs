//! Medians of the times, ratios within rounds against the first directory, and a chart of the ratios.

use super::{Measured, Plan, Workload};
use crate::micro::environment::Environment;
use crate::micro::table;
use crate::plot::{Bars, Drawing, Series, Style};
use serde::Serialize;

/// A phase on a directory, in one round.
pub(super) struct Sample {
    pub workload: Workload,
    pub target: usize,
    pub round: u32,
    pub measured: Measured,
}

/// The result on one directory.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// Median of the times, in milliseconds.
    pub median_ms: f64,
    /// Operations a second, of the median.
    pub operations_per_s: f64,
    /// Median over the rounds of the first directory's time over this one's: above 1, this one is faster.
    pub times_as_fast: f64,
    /// The times of all rounds, in milliseconds.
    pub all_ms: Vec<f64>,
}

/// A phase of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: Workload,
    /// The phase.
    pub phase: String,
    /// Operations of the phase: files, units, transactions.
    pub operations: u64,
    /// The directories, in order.
    pub values: Vec<Value>,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub environment: Environment,
    /// Names of the directories.
    pub targets: Vec<String>,
    /// Rounds.
    pub rounds: u32,
    /// What all amounts were divided by.
    pub shrink: u64,
    /// The phases.
    pub rows: Vec<Row>,
}

pub(super) fn of(environment: Environment, targets: Vec<String>, plan: &Plan, samples: &[Sample]) -> Report {
    let mut rows: Vec<Row> = Vec::new();
    for sample in samples {
        let is_known =
            rows.iter().any(|row| row.workload == sample.workload && row.phase == sample.measured.phase);
        if !is_known {
            rows.push(row(samples, sample, targets.len()));
        }
    }
    Report { environment, targets, rounds: plan.rounds, shrink: plan.shrink, rows }
}

fn row(samples: &[Sample], first: &Sample, targets: usize) -> Row {
    let (workload, phase) = (first.workload, &first.measured.phase);
    let times = |target: usize| {
        let own = samples.iter().filter(|sample| {
            sample.workload == workload && sample.measured.phase == *phase && sample.target == target
        });
        let mut own: Vec<&Sample> = own.collect();
        own.sort_by_key(|sample| sample.round);
        own.into_iter().map(|sample| sample.measured.elapsed_ns as f64 / 1e6).collect::<Vec<f64>>()
    };
    let base = times(0);
    let value = |target| {
        let all_ms: Vec<f64> = times(target);
        let median_ms = median(&all_ms);
        Value {
            median_ms,
            operations_per_s: first.measured.operations as f64 / median_ms * 1e3,
            times_as_fast: median(&base.iter().zip(&all_ms).map(|(base, ms)| base / ms).collect::<Vec<_>>()),
            all_ms,
        }
    };
    let values = (0..targets).map(value).collect();
    Row { workload, phase: phase.clone(), operations: first.measured.operations, values }
}

/// The middle value, or the mean of the two in the middle; not a number if there is none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

impl Row {
    /// The smallest and the largest value of the rounds on a directory: operations a second, or how many times as fast as on the
    /// first one.
    fn spread(&self, directory: usize, in_rates: bool) -> (f64, f64) {
        let times = self.values[0].all_ms.iter().zip(&self.values[directory].all_ms);
        let of_round = |(base, ms): (&f64, &f64)| {
            if in_rates { self.operations as f64 / ms * 1e3 } else { base / ms }
        };
        let least_most = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
        times.map(of_round).fold((f64::INFINITY, 0.0), least_most)
    }
}

impl Report {
    /// A table of the rates, with the ratios to the first directory.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut header = vec!["workload", "phase"];
        header.extend(self.targets.iter().map(String::as_str));
        let cell = |n: usize, value: &Value| {
            let rate = rate(value.operations_per_s);
            if n == 0 { format!("{rate}/s") } else { format!("{rate}/s {:.2}x", value.times_as_fast) }
        };
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let cells = row.values.iter().enumerate().map(|(n, value)| cell(n, value));
                [row.workload.name().to_owned(), row.phase.clone()].into_iter().chain(cells).collect()
            })
            .collect();
        let mut text = table::markdown(&header, &rows);
        text += &format!("\n{}", self.rounds_words());
        if self.targets.len() > 1 {
            text += &format!("; x: how many times as fast as {}, median of the rounds", self.targets[0]);
        }
        text += ".\n";
        if self.shrink > 1 {
            text += &format!("All amounts were divided by {}.\n", self.shrink);
        }
        text
    }

    fn rounds_words(&self) -> String {
        match self.rounds {
            1 => "One round".to_owned(),
            rounds => format!("Medians of {rounds} rounds"),
        }
    }

    /// How many times as fast each directory is as the first one; rates for a single directory.
    #[must_use]
    pub fn drawings(&self) -> Vec<Drawing> {
        let mut workloads: Vec<Workload> = self.rows.iter().map(|row| row.workload).collect();
        workloads.dedup();
        workloads.into_iter().map(|workload| self.drawing(workload)).collect()
    }

    fn drawing(&self, workload: Workload) -> Drawing {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.workload == workload).collect();
        let is_single = self.targets.len() == 1;
        let of = |value: &Value| if is_single { value.operations_per_s } else { value.times_as_fast };
        let series = |(n, name): (usize, &String)| {
            let values = rows.iter().map(|row| of(&row.values[n])).collect();
            let series = Series::new(name.clone(), Style(n as u8), values);
            let spread = rows.iter().map(|row| row.spread(n, is_single)).collect();
            if self.rounds > 1 { series.with_spread(spread) } else { series }
        };
        // Many phases have no room for their names; the report and the CSV have them.
        let group = |(n, row): (usize, &&Row)| {
            if rows.len() > 6 { (n + 1).to_string() } else { row.phase.clone() }
        };
        let phases: Vec<String> =
            rows.iter().enumerate().map(|(n, row)| format!("{}: {}", n + 1, row.phase)).collect();
        let names = if rows.len() > 6 { format!("; {}", phases.join(", ")) } else { String::new() };
        let environment = self.environment.to_string();
        Drawing::Bars(Bars {
            file: format!("bench-{}", workload.name()).into(),
            title: workload.name().into(),
            conditions: format!("{}{names}; {}", self.rounds_words(), environment.trim_end_matches('.'))
                .into(),
            y: if is_single { "operations a second" } else { "times as fast as the first" },
            groups: rows.iter().enumerate().map(group).collect(),
            series: self.targets.iter().enumerate().map(series).collect(),
        })
    }
}

fn rate(operations_per_s: f64) -> String {
    match operations_per_s {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_not_the_ratio_of_the_medians() {
        let sample = |target, round, ms: u64| Sample {
            workload: Workload::Tpcb,
            target,
            round,
            measured: Measured { phase: "t".to_owned(), operations: 100, elapsed_ns: ms * 1_000_000 },
        };
        let times = [(10, 5), (100, 20), (20, 40)];
        let samples: Vec<Sample> = (0..)
            .zip(times)
            .flat_map(|(round, (first, second))| [sample(0, round, first), sample(1, round, second)])
            .collect();
        let row = row(&samples, &samples[0], 2);
        assert_eq!((row.values[0].median_ms, row.values[1].median_ms), (20.0, 20.0));
        assert_eq!((row.values[0].times_as_fast, row.values[1].times_as_fast), (1.0, 2.0));
        assert_eq!(row.values[1].operations_per_s, 5000.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!((row.spread(1, false), row.spread(1, true)), ((0.5, 5.0), (2500.0, 20000.0)));
    }
}
