//! The report of a comparison: one page of HTML that needs nothing else, with a table and drawings.

use super::{Aged, Report, Stage};
use crate::error::LabError;
use crate::plot::{Bars, Curve, Drawing, Origin, Plot, Scale, Series, Style, escaped, page_of};
use std::fmt::Write;

const MIB: f64 = (1 << 20) as f64;
/// Space above the highest point of a curve.
const HEADROOM: f64 = 1.1;

/// What one column of the table says of a file system.
struct Column {
    title: &'static str,
    meaning: &'static str,
    text: fn(&Aged) -> String,
}

const COLUMNS: [Column; 9] = [
    Column {
        title: "reading, aged over new",
        meaning: "time to read the whole tree cold at the end of its life, over that of a copy on a new file system of the same kind: 1 is not aged",
        text: |aged| aged.stages.last().map_or_else(none, |stage| format!("{:.2}", stage.ratio())),
    },
    Column {
        title: "aged MB/s",
        meaning: "rate of that reading, in 2^20 bytes a second",
        text: |aged| aged.stages.last().map_or_else(none, |stage| rate(stage, stage.aged_ms)),
    },
    Column {
        title: "new MB/s",
        meaning: "the same of the copy",
        text: |aged| aged.stages.last().map_or_else(none, |stage| rate(stage, stage.fresh_ms)),
    },
    Column {
        title: "layout",
        meaning: "share of blocks that lie right behind the one before in their file, at the end, and in the copy",
        text: |aged| format!("{}, {}", share(aged.layout_score), share(aged.fresh_layout_score)),
    },
    Column {
        title: "written to disk",
        meaning: "bytes that reached the disk in the whole life, for each byte that the workload wrote; less than 1 where files died before they were synced",
        text: |aged| format!("{:.2}", aged.amplification()),
    },
    Column {
        title: "upkeep",
        meaning: "of a log: bytes written to it because of cleaning and coalescing, metadata included, for each other byte that was written to it",
        text: |aged| {
            aged.logged.map_or_else(none, |logged| {
                let upkeep_bytes = logged.log_bytes.saturating_sub(logged.new_bytes);
                format!("{:.2}", upkeep_bytes as f64 / logged.new_bytes.max(1) as f64)
            })
        },
    },
    Column {
        title: "p99 us young, old",
        meaning: "99% of the operations of the first and of the last stage took no longer, in microseconds (buffered)",
        text: |aged| ends(aged, |stage| stage.pace.p99_ms * 1e3),
    },
    Column {
        title: "ops/s young, old",
        meaning: "operations a second in the first and in the last stage, with the syncs (durable)",
        text: |aged| ends(aged, per_s),
    },
    Column {
        title: "left out",
        meaning: "operations for which there was no room",
        text: |aged| aged.refused_operations.to_string(),
    },
];

fn none() -> String {
    "-".to_owned()
}

fn rate(stage: &Stage, ms: f64) -> String {
    format!("{:.0}", stage.tree_bytes as f64 / MIB / (ms / 1e3).max(1e-9))
}

fn share(score: Option<f64>) -> String {
    score.map_or_else(none, |score| format!("{score:.2}"))
}

fn ends(aged: &Aged, value: impl Fn(&Stage) -> f64) -> String {
    match (aged.stages.first(), aged.stages.last()) {
        (Some(first), Some(last)) => format!("{:.0}, {:.0}", value(first), value(last)),
        _ => none(),
    }
}

fn thousands_per_s(stage: &Stage) -> f64 {
    per_s(stage) / 1e3
}

fn per_s(stage: &Stage) -> f64 {
    stage.pace.file_operations as f64 / (stage.pace.elapsed_ms / 1e3).max(1e-9)
}

impl Report {
    /// Titles of the columns, and a row for each file system.
    #[must_use]
    pub fn table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let titles = std::iter::once("file system").chain(COLUMNS.iter().map(|column| column.title));
        let row = |aged: &Aged| {
            let cells = COLUMNS.iter().map(|column| (column.text)(aged));
            std::iter::once(aged.name.clone()).chain(cells).collect()
        };
        (titles.collect(), self.systems.iter().map(row).collect())
    }

    /// The conditions, in a line.
    #[must_use]
    pub fn conditions(&self) -> String {
        let readings =
            if self.runs == 1 { "1 reading".to_owned() } else { format!("{} readings", self.runs) };
        let environment = self.environment.to_string();
        format!(
            "{} records of {}; disks of {:.1} GiB; synced each {:.0} s of the workload's time; {:.0} s of rest after each of {} stages; {readings}; {}",
            self.records,
            self.origin(),
            self.size_bytes as f64 / MIB / 1024.0,
            self.sync_every_ms / 1e3,
            self.rest_ms / 1e3,
            self.systems.first().map_or(0, |aged| aged.stages.len()),
            environment.trim_end_matches('.')
        )
    }

    /// The seed of the workload, if it was made with one.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        let seed = self.workload_options.iter().find(|(name, _)| name == "seed");
        seed.and_then(|(_, value)| value.parse().ok())
    }

    fn origin(&self) -> &str {
        let from = self.workload_options.iter().find(|(name, _)| name == "from");
        from.map_or("a workload", |(_, value)| value)
    }

    /// The drawings.
    #[must_use]
    pub fn drawings(&self) -> Vec<Drawing> {
        let curves = |value: &dyn Fn(&Stage) -> f64| -> Vec<Curve> {
            let curve = |(nth, aged): (u8, &Aged)| {
                let points = (1u32..).zip(&aged.stages).map(|(at, stage)| (f64::from(at), value(stage)));
                Curve::new(aged.name.clone(), Style(nth), points.collect())
            };
            (0..).zip(&self.systems).map(curve).collect()
        };
        let plot = |file: &'static str, title: &'static str, y, curves: Vec<Curve>| {
            let points = || curves.iter().flat_map(|curve| &curve.points);
            Drawing::Curves(Plot {
                file: file.into(),
                title: title.into(),
                conditions: self.conditions().into(),
                x: "stages of life",
                y,
                x_scale: Scale::Whole,
                y_scale: Scale::Linear,
                x_max: points().map(|point| point.0).fold(1.0, f64::max),
                y_max: points().map(|point| point.1).fold(0.1, f64::max) * HEADROOM,
                curves,
            })
        };
        let disk_bytes =
            |(nth, aged): (u8, &Aged)| Series::new(aged.name.clone(), Style(nth), vec![aged.amplification()]);
        vec![
            plot(
                "reading",
                "Reading the whole tree cold: aged over new",
                "time of the aged tree over that of its copy",
                curves(&Stage::ratio),
            ),
            plot(
                "p99",
                "99% of all operations took no longer (buffered)",
                "milliseconds",
                curves(&|stage| stage.pace.p99_ms),
            ),
            plot(
                "pace",
                "Operations a second, with the syncs (durable)",
                "thousand operations a second",
                curves(&thousands_per_s),
            ),
            Drawing::Bars(Bars {
                file: "written".into(),
                title: "Written to the disk in the whole life".into(),
                conditions: self.conditions().into(),
                y: "bytes for each byte of the workload",
                groups: vec!["the whole life".to_owned()],
                series: (0..).zip(&self.systems).map(disk_bytes).collect(),
            }),
        ]
    }

    /// The page.
    ///
    /// # Errors
    /// A drawing cannot be drawn.
    pub fn html(&self, origin: &Origin) -> Result<String, LabError> {
        const TITLE: &str = "File systems after a life";
        let mut body = format!("<h1>{TITLE}</h1>\n{INTRODUCTION}<p>{}</p>\n", escaped(&self.conditions()));
        let _ = writeln!(body, "<p>Made by <code>{}</code>.</p>", escaped(&origin.command));
        let (titles, rows) = self.table();
        body += &table(&titles, &rows);
        body += "<dl>";
        for column in &COLUMNS {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", column.title, column.meaning);
        }
        body += "</dl>\n";
        for drawing in self.drawings() {
            let svg = drawing.svg(origin)?;
            let svg = svg.find("<svg").map_or("", |at| &svg[at..]);
            let _ = writeln!(body, "<h2>{}</h2>\n<figure>\n{svg}\n</figure>", escaped(drawing.title()));
        }
        body += "<h2>Stages</h2>\n";
        for aged in &self.systems {
            let _ = writeln!(
                body,
                "<details><summary>{}</summary>\n{}</details>",
                escaped(&aged.name),
                stages(aged)
            );
        }
        body += "<h2>What the workload says of itself</h2>\n<dl>";
        for (name, value) in &self.workload_options {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
        }
        body += "</dl>\n";
        Ok(page_of(TITLE, &body))
    }
}

fn stages(aged: &Aged) -> String {
    const TITLES: [&str; 9] =
        ["stage", "files", "MB", "aged ms", "new ms", "ratio", "ops/s", "p99 us", "MB to disk"];
    let row = |(nth, stage): (u32, &Stage)| {
        vec![
            nth.to_string(),
            stage.files.to_string(),
            format!("{:.1}", stage.tree_bytes as f64 / MIB),
            format!("{:.1}", stage.aged_ms),
            format!("{:.1}", stage.fresh_ms),
            format!("{:.2}", stage.ratio()),
            format!("{:.0}", per_s(stage)),
            format!("{:.0}", stage.pace.p99_ms * 1e3),
            format!("{:.1}", stage.pace.disk_bytes as f64 / MIB),
        ]
    };
    let rows: Vec<Vec<String>> = (1..).zip(&aged.stages).map(row).collect();
    table(&TITLES, &rows)
}

fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = "<table><tr>".to_owned();
    for title in titles {
        let _ = write!(out, "<th>{title}</th>");
    }
    for row in rows {
        out += "</tr>\n<tr>";
        for (at, cell) in row.iter().enumerate() {
            let class = if at > 0 { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
        }
    }
    out + "</tr></table>\n"
}

const INTRODUCTION: &str = "<p>Each file system lived through the same operations, on a disk of its own of the same size, behind a loop device with direct \
I/O. After each stage all of it was read once, and it was left alone for a while. Then it was unmounted, the caches were emptied, and the whole tree was read in the order in which its directories list it; and then a copy of the \
tree on a new file system of the same kind. What age costs a reader is the ratio of the two: it compares each file system with itself, whereas rates compare one \
with the other.</p>\n";
