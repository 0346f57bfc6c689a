//! The report as Markdown: tables of medians, of ratios with the goals, of processor times, of figures; the missed goals.

use super::report::{Column, Figure, Ratio, Report, Row, Spread};
use super::table::markdown;
use std::fmt::Write;

impl Report {
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
            "\n{} interleaved rounds. *buffered*: until the last call returned. *durable*: including the fsync or the \
             sync of the whole file system. *cold*: caches dropped, remounted where possible. *warm*: from the caches.",
            self.rounds
        )?;
        self.write_columns(out)?;
        if !self.rows.is_empty() {
            writeln!(out, "\nMedians, in milliseconds:\n")?;
            out.push_str(&markdown(
                &self.time_header(),
                &self.rows.iter().map(|r| self.times(r)).collect::<Vec<_>>(),
            ));
        }
        let comparisons = self.roles.comparisons();
        if !self.rows.is_empty() && !comparisons.is_empty() {
            writeln!(
                out,
                "\nRatios: medians of the ratios within a round, smallest to largest in brackets. In bold: the goal is \
                 missed.\n"
            )?;
            let rows: Vec<_> = self.rows.iter().map(|row| self.ratios(row)).collect();
            out.push_str(&markdown(&self.ratio_header(), &rows));
        }
        if !self.rows.is_empty() {
            writeln!(
                out,
                "\nProcessor time of an operation (a file, a call on the large file, a crate, a transaction), in microseconds, medians: the \
                 benchmark and the programs that it starts, + the daemon. What kernel threads do (journal, write-back, loop \
                 device) belongs to no process and is not counted.\n"
            )?;
            let rows: Vec<_> = self.rows.iter().map(|row| self.processor_times(row)).collect();
            out.push_str(&markdown(&self.time_header(), &rows));
        }
        if !self.figures.is_empty() {
            out.push('\n');
            out.push_str(&markdown(&FIGURE_HEADER, &self.figures.iter().map(figure).collect::<Vec<_>>()));
        }
        if !self.left_out.is_empty() {
            writeln!(out, "\nLeft out: {}.", self.left_out.join("; "))?;
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

    /// Says how each column with a daemon was served.
    fn write_columns(&self, out: &mut String) -> std::fmt::Result {
        let served: Vec<String> = self.columns.iter().filter_map(served).collect();
        if served.is_empty() { Ok(()) } else { writeln!(out, "\nServed through: {}.", served.join("; ")) }
    }

    fn time_header(&self) -> Vec<String> {
        let fixed = ["task", "time is"].map(str::to_owned).into_iter();
        fixed.chain(self.roles.targets().cloned()).collect()
    }

    fn times(&self, row: &Row) -> Vec<String> {
        let time = |name: &String| {
            let time = row.times.iter().find(|t| &t.target == name);
            time.map_or_else(|| "-".to_owned(), |t| format!("{:.1}", t.ms.median))
        };
        names(row).into_iter().chain(self.roles.targets().map(time)).collect()
    }

    fn processor_times(&self, row: &Row) -> Vec<String> {
        let each = |ms: f64| format!("{:.1}", ms * 1000.0 / row.operations.max(1) as f64);
        let time = |name: &String| {
            let time = row.times.iter().find(|t| &t.target == name);
            time.map_or_else(
                || "-".to_owned(),
                |t| match t.daemon_ms {
                    Some(daemon_ms) => format!("{} + {}", each(t.client_ms), each(daemon_ms)),
                    None => each(t.client_ms),
                },
            )
        };
        names(row).into_iter().chain(self.roles.targets().map(time)).collect()
    }

    fn ratio_header(&self) -> Vec<String> {
        let fixed = ["task", "time is"].map(str::to_owned).into_iter();
        let ratios = self.roles.comparisons().into_iter().map(|(of, to)| format!("{of} / {to}"));
        fixed.chain(ratios).chain(["goal".to_owned()]).collect()
    }

    fn ratios(&self, row: &Row) -> Vec<String> {
        let find = |(of, to): (&String, &String)| row.ratios.iter().find(|r| (&r.of, &r.to) == (of, to));
        let cells =
            self.roles.comparisons().into_iter().map(|pair| find(pair).map_or_else(|| "-".to_owned(), ratio));
        names(row).into_iter().chain(cells).chain([goals(&row.ratios)]).collect()
    }
}

fn served(column: &Column) -> Option<String> {
    let transport = column.transport.as_ref()?;
    let writeback = if column.writeback { ", with the kernel's write-back cache" } else { "" };
    Some(format!("{} {transport}{writeback}", column.target))
}

fn names(row: &Row) -> [String; 2] {
    [row.title.clone(), format!("{:?}", row.durability).to_lowercase()]
}

fn ratio(r: &Ratio) -> String {
    if r.reached() == Some(false) { format!("**{}**", spread(&r.ratio)) } else { spread(&r.ratio) }
}

/// The goal of the row, and those of columns with goals of their own, or relative to another file system than the first.
fn goals(ratios: &[Ratio]) -> String {
    let mut shown: Vec<(f64, String)> = Vec::new();
    for r in ratios {
        let Some(limit) = r.limit else { continue };
        if ratios.first().is_some_and(|first| first.to != r.to) {
            shown.push((limit, format!("{} / {} <= {limit:.2}", r.of, r.to)));
        } else if shown.is_empty() {
            shown.push((limit, format!("<= {limit:.2}")));
        } else if shown.iter().all(|(known, _)| *known != limit) {
            shown.push((limit, format!("{} <= {limit:.2}", r.of)));
        }
    }
    shown.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

const FIGURE_HEADER: [&str; 4] = ["figure", "value", "goal", "from"];

fn figure(f: &Figure) -> Vec<String> {
    let goal = f.limit.map_or_else(String::new, |limit| {
        let sign = if f.at_least { ">=" } else { "<=" };
        let verdict = if f.reached() == Some(false) { "**missed**" } else { "reached" };
        format!("{sign} {limit:.2}, {verdict}")
    });
    vec![f.title.clone(), spread(&f.value), goal, f.detail.clone()]
}

fn spread(s: &Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", s.median, s.min, s.max)
}
