//! The tables and figures of Blackwell, Harris and Seltzer, *Heuristic Cleaning Algorithms in Log-Structured File Systems*, USENIX 1995
//! (002), from synthetic traces with the counts of the paper's servers, replayed on the real log ([`crate::trace`]).
//!
//! What depends on the gaps between bursts is marked as an input: these gaps are ours, not the paper's.

use super::figure::{Figure, Table, number};
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::{Curve, Drawing, Plot, Scale, Style};
use crate::trace::{Histogram, Model, Replayed, SERVERS, Server};

pub(super) const UNITS: [Unit; 5] = [
    Unit { id: "002/table2", title: "The traces", jobs, make: table_2 },
    Unit { id: "002/fig2", title: "Idle intervals of the disk (figures 2 to 4)", jobs, make: idle },
    Unit { id: "002/table3", title: "Interference, and cleaning on demand", jobs, make: table_3 },
    Unit {
        id: "002/fig5",
        title: "Data written between chances to clean (figures 5 to 7)",
        jobs,
        make: dirty,
    },
    Unit { id: "002/fig8", title: "Queueing delays (figures 8 to 10)", jobs, make: delays },
];

const CONDITION: &str = "synthetic traces with the counts of Attic, Cellar and Maytag (table 2), seed 1, a tenth of the days and of the files (--short: a \
                         fiftieth), on the real log; DSP 3501; 90% of the space for files in use; cleaner of 1995, after 2 s of idle disk";
const DIFFERENCES: [&str; 6] = [
    "the traces are synthetic: gaps between bursts, their lengths and the sizes of files are assumed",
    "the log is firnfs's own: inodes are written beside their files, pointers take 16 bytes, checkpoints free segments",
    "utilisation is that of df: a tenth of the segments is never shown to users",
    "an idle pass of the cleaner first writes the users' changes, also those in non-volatile memory; these writes count as the cleaner's",
    "of 10 MB of cache 4 are for file data and 6 for metadata",
    "figures 8 and 9 have exchanged captions in the paper; here async is async",
];

const CLOSE: &str = "the requests of a synthetic burst follow each other after some 10 ms, whether earlier ones are answered or not, and a read \
                     from disk takes longer";

const GAPS: &str = "the gaps between bursts are assumed, and the same in both models";
const BURSTS: &str =
    "the bursts of our Maytag are assumed to be so long that they fill the disk's queue for seconds";

/// Published for a server: P(>= 4 s | >= 2 s) async and sync, interference sync and async, share cleaned on demand.
const PUBLISHED: [[f64; 5]; 3] =
    [[0.96, 0.96, 0.069, 0.067, 0.0], [0.97, 0.98, 0.057, 0.072, 0.0], [0.98, 0.86, 0.039, 0.022, 0.033]];
/// Gigabytes read from the cache, from disk, and written by users.
const VOLUMES: [[f64; 3]; 3] = [[20.3, 7.1, 3.4], [8.9, 1.1, 1.5], [36.6, 3.4, 5.5]];

/// The most that was written between two chances to clean, async and sync.
const MOST_MIB: [f64; 2] = [350.0, 420.0];

/// The part of the paper's days and files that is replayed. All of them would take most of an hour.
pub(super) fn part(size: &Size) -> f64 {
    if size.is_paper() { 0.1 } else { 0.02 }
}

fn jobs(_: &Size) -> Vec<Job> {
    SERVERS.iter().flat_map(|server| Model::ALL.map(|model| Job::Trace(server.name, model))).collect()
}

fn is_maytag_sync(server: &Server, model: Model) -> bool {
    server.name == "maytag" && model == Model::Sync
}

/// All servers with their results under a model.
fn all(runs: &Runs, model: Model) -> Result<Vec<(&'static Server, &Replayed)>, LabError> {
    SERVERS.iter().map(|server| Ok((server, runs.trace(server.name, model)?))).collect()
}

fn figure(id: &'static str, title: &'static str, inputs: &'static str) -> Figure {
    Figure {
        id,
        title,
        condition: CONDITION.to_owned(),
        inputs,
        differences: DIFFERENCES.to_vec(),
        notes: Vec::new(),
        drawings: Vec::new(),
        tables: Vec::new(),
        claims: Vec::new(),
    }
}

fn table_2(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut figure =
        figure("002/table2", "The traces", "all counts of requests, days, sizes of the file systems");
    let header = ["server", "value", "paper", "ours"];
    let mut table = Table::new(
        "Table 2, the part of it that is replayed: counts are inputs, volumes of data are results",
        &header,
    );
    let part = part(size);
    for ((server, replayed), volumes) in all(runs, Model::Async)?.into_iter().zip(VOLUMES) {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let rows = [
            ("requests, millions (input)", part * server.requests / 1e6, replayed.records as f64 / 1e6),
            ("days (input)", part * server.days, replayed.span_s / 86_400.0),
            ("creates matched, percent", 99.0, {
                replayed.creates_matched as f64 / replayed.creates_asked.max(1) as f64 * 100.0
            }),
            ("read from cache, GB (paper: metadata too)", part * volumes[0], gb(replayed.cache_hit_bytes)),
            ("read from disk, GB", part * volumes[1], gb(replayed.disk.user_read_bytes)),
            ("users' writes to disk, GB", part * volumes[2], gb(replayed.disk.user_written_bytes)),
            ("space in use, percent (input)", 90.0, replayed.utilisation * 100.0),
        ];
        for (what, paper, ours) in rows {
            table.rows.push(vec![server.title.to_owned(), what.to_owned(), number(paper), number(ours)]);
        }
        if size.is_paper() {
            let what = format!("{}: requests", server.title);
            let expected = Expected::Within { value: part * server.requests / 1e6, share: 0.1 };
            let ours = replayed.records as f64 / 1e6;
            figure.claims.push(Claim::new("002 table 2", &what, expected, ours, "millions").of_input());
        }
    }
    figure.tables.push(table);
    Ok(figure)
}

/// A plot with a curve for each server.
fn plot(
    file: &'static str,
    title: &'static str,
    (x, y, y_scale): (&'static str, &'static str, Scale),
    mut curves: Curves,
) -> Drawing {
    // A server without values is a point on the axis.
    let empty = curves.iter_mut().filter(|(_, points)| points.is_empty());
    empty.for_each(|(_, points)| points.push((1.0, 0.0)));
    let ends = curves.iter().flat_map(|(_, points)| points);
    let (x_max, y_max) = ends.fold((2.0_f64, 0.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let curves = curves
        .into_iter()
        .zip([0, 1, 3])
        .map(|((name, points), style)| Curve::new(name, Style(style), points));
    Drawing::Curves(Plot {
        file: file.into(),
        title: title.into(),
        conditions: CONDITION.into(),
        x,
        y,
        x_scale: Scale::Log2,
        y_scale,
        x_max,
        y_max: if y_max > 0.0 { y_max * 1.05 } else { 1.0 },
        curves: curves.collect(),
    })
}

/// A curve of each server: its name, and the points.
type Curves = Vec<(&'static str, Vec<(f64, f64)>)>;
type Pick = fn(&Replayed) -> &Histogram;

/// How many values lie in each doubling.
fn counts(runs: &Runs, model: Model, (pick, from): (Pick, f64)) -> Result<Curves, LabError> {
    let of = |(server, replayed): (&'static Server, &Replayed)| {
        let points = pick(replayed).doublings(from).into_iter().map(|(at, count)| (at, count as f64));
        (server.title, points.collect())
    };
    Ok(all(runs, model)?.into_iter().map(of).collect())
}

/// The share of values below each.
fn shares(runs: &Runs, model: Model, (pick, from): (Pick, f64)) -> Result<Curves, LabError> {
    let of = |(server, replayed): (&'static Server, &Replayed)| {
        let values = pick(replayed);
        // Below the first value lie all that the curve leaves out.
        let (least, all) = (values.count() - values.at_least(from), values.count().max(1) as f64);
        let rest = (all - least as f64) / all;
        let points =
            values.cumulative(from).into_iter().map(|(at, share)| (at, least as f64 / all + share * rest));
        (server.title, std::iter::once((from, least as f64 / all)).chain(points).collect())
    };
    Ok(all(runs, model)?.into_iter().map(of).collect())
}

fn idle(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut figure = figure(
        "002/fig2",
        "Idle intervals of the disk (figures 2 to 4)",
        "gaps between bursts are assumed: the distributions follow from them and are no reproduction",
    );
    let axes = ("seconds (each point: up to twice as long)", "intervals", Scale::Log2);
    let pick: (Pick, f64) = (|replayed| &replayed.disk.idle_s, 1.0);
    let cumulative = ("seconds", "share of the intervals of 1 s or more", Scale::Linear);
    let long = |model| -> Result<Curves, LabError> {
        let of = |(server, replayed): (&'static Server, &Replayed)| {
            (server.title, replayed.disk.idle_s.cumulative(1.0))
        };
        Ok(all(runs, model)?.into_iter().map(of).collect())
    };
    figure.drawings = vec![
        plot("002-fig2", "Idle intervals, async (synthetic)", axes, counts(runs, Model::Async, pick)?),
        plot("002-fig3", "Idle intervals, sync (synthetic)", axes, counts(runs, Model::Sync, pick)?),
        plot(
            "002-fig4-async",
            "Cumulative idle intervals, async (synthetic)",
            cumulative,
            long(Model::Async)?,
        ),
        plot("002-fig4-sync", "Cumulative idle intervals, sync (synthetic)", cumulative, long(Model::Sync)?),
    ];
    let mut table =
        Table::new("P(idle >= 4 s | idle >= 2 s)", &["server", "model", "paper", "ours", "intervals"]);
    for (at, model) in Model::ALL.into_iter().enumerate() {
        for ((server, replayed), published) in all(runs, model)?.into_iter().zip(PUBLISHED) {
            let ours = replayed.four_after_two().unwrap_or(0.0);
            let intervals = replayed.disk.idle_s.at_least(2.0);
            let cells = [number(published[at]), number(ours), intervals.to_string()];
            let row = [server.title.to_owned(), model.name().to_owned()].into_iter().chain(cells);
            table.rows.push(row.collect());
            if size.is_paper() {
                let what = format!("{}, {}: P(idle >= 4 s | idle >= 2 s)", server.title, model.name());
                let expected = Expected::Within { value: published[at], share: 0.1 };
                let claim = Claim::new("002 5.1", &what, expected, ours, "share").of_input();
                figure.claims.push(if is_maytag_sync(server, model) { claim.missed(GAPS) } else { claim });
            }
        }
    }
    figure.tables.push(table);
    Ok(figure)
}

fn table_3(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut figure = figure(
        "002/table3",
        "Interference, and cleaning on demand",
        "counts and gaps of the synthetic traces; the work of log, cleaner and disk is a result",
    );
    let header = ["server", "model", "interference", "ours", "on demand", "ours", "cleaned"];
    let mut table = Table::new(
        "Cleaner requests that users' requests meet; share of segments cleaned on demand",
        &header,
    );
    for (at, model) in [(3, Model::Async), (2, Model::Sync)] {
        for ((server, replayed), published) in all(runs, model)?.into_iter().zip(PUBLISHED) {
            let (interference, on_demand) = (replayed.interference(), replayed.on_demand_share());
            table.rows.push(vec![
                server.title.to_owned(),
                model.name().to_owned(),
                number(published[at]),
                number(interference),
                number(published[4]),
                number(on_demand),
                replayed.segments_cleaned.to_string(),
            ]);
            if size.is_paper() {
                let what = |what: &str| format!("{}, {}: {what}", server.title, model.name());
                let met = Claim::new(
                    "002 table 3",
                    &what("interference"),
                    Expected::AtMost(0.072),
                    interference,
                    "requests",
                );
                let share = Claim::new(
                    "002 5.1",
                    &what("cleaned on demand"),
                    Expected::AtMost(published[4]),
                    on_demand,
                    "share",
                );
                figure.claims.extend([met, share]);
            }
        }
    }
    figure.tables.push(table);
    Ok(figure)
}

fn dirty(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut figure = figure(
        "002/fig5",
        "Data written between chances to clean (figures 5 to 7)",
        "gaps and lengths of bursts are assumed; the paper's statement on bursts was no input",
    );
    let axes = ("MiB (each point: up to twice as much)", "intervals", Scale::Log2);
    let pick: (Pick, f64) = (|replayed| &replayed.disk.dirty_mib, 1.0);
    let cumulative = ("MiB", "share of all intervals", Scale::Linear);
    figure.drawings = vec![
        plot(
            "002-fig5",
            "Written between chances to clean, async (synthetic)",
            axes,
            counts(runs, Model::Async, pick)?,
        ),
        plot(
            "002-fig6",
            "Written between chances to clean, sync (synthetic)",
            axes,
            counts(runs, Model::Sync, pick)?,
        ),
        plot(
            "002-fig7-async",
            "Cumulative, async (synthetic)",
            cumulative,
            shares(runs, Model::Async, pick)?,
        ),
        plot("002-fig7-sync", "Cumulative, sync (synthetic)", cumulative, shares(runs, Model::Sync, pick)?),
    ];
    let header = ["server", "model", "below 1 MiB", "below 4 MiB", "most, MiB", "intervals"];
    let mut table = Table::new(
        "Paper: 96% below 1 MB, 99% below 4 MB, at most 350 MB (async) and 420 MB (sync)",
        &header,
    );
    for (model, most_mib) in Model::ALL.into_iter().zip(MOST_MIB) {
        for (server, replayed) in all(runs, model)? {
            let written = &replayed.disk.dirty_mib;
            let (one, four) = (written.share_below(1.0), written.share_below(4.0));
            let cells = [number(one), number(four), number(written.max()), written.count().to_string()];
            let row = [server.title.to_owned(), model.name().to_owned()].into_iter().chain(cells);
            table.rows.push(row.collect());
            if size.is_paper() {
                let what = |what: &str| format!("{}, {}: {what}", server.title, model.name());
                let claim = |text: &str, expected, ours, unit| {
                    Claim::new("002 5.2", &what(text), expected, ours, unit)
                };
                let small = [
                    claim("intervals with less than 1 MB", Expected::AtLeast(0.96), one, "share"),
                    claim("intervals with less than 4 MB", Expected::AtLeast(0.99), four, "share"),
                ];
                let is_known = server.name == "maytag";
                figure.claims.extend(small.map(|claim| if is_known { claim.missed(BURSTS) } else { claim }));
                let most = Expected::AtMost(most_mib);
                figure.claims.push(claim("most written in an interval", most, written.max(), "MB"));
            }
        }
    }
    figure.tables.push(table);
    Ok(figure)
}

fn delays(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut figure = figure(
        "002/fig8",
        "Queueing delays (figures 8 to 10)",
        "times between the requests of a burst are assumed",
    );
    let axes = ("milliseconds (each point: up to twice as long)", "requests", Scale::Log2);
    let pick: (Pick, f64) = (|replayed| &replayed.disk.delay_ms, 1.0);
    let cumulative = ("milliseconds", "share of all requests", Scale::Linear);
    figure.drawings = vec![
        plot("002-fig8", "Queueing delays, async (synthetic)", axes, counts(runs, Model::Async, pick)?),
        plot("002-fig9", "Queueing delays, sync (synthetic)", axes, counts(runs, Model::Sync, pick)?),
        plot(
            "002-fig10-async",
            "Cumulative delays, async (synthetic)",
            cumulative,
            shares(runs, Model::Async, pick)?,
        ),
        plot(
            "002-fig10-sync",
            "Cumulative delays, sync (synthetic)",
            cumulative,
            shares(runs, Model::Sync, pick)?,
        ),
    ];
    let header = ["server", "model", "not delayed", "mean, ms", "longest, ms", "requests"];
    let mut table = Table::new("Paper: more than 70% are not delayed", &header);
    for model in Model::ALL {
        for (server, replayed) in all(runs, model)? {
            let delay = &replayed.disk.delay_ms;
            let none = delay.zeros() as f64 / delay.count().max(1) as f64;
            let cells = [number(none), number(delay.mean()), number(delay.max()), delay.count().to_string()];
            let row = [server.title.to_owned(), model.name().to_owned()].into_iter().chain(cells);
            table.rows.push(row.collect());
            if size.is_paper() {
                let what = format!("{}, {}: requests without delay", server.title, model.name());
                let claim = Claim::new("002 fig 10", &what, Expected::AtLeast(0.7), none, "share");
                figure.claims.push(claim.missed(CLOSE));
                if model == Model::Sync {
                    let waits = runs.trace(server.name, Model::Async)?.disk.delay_ms.mean();
                    let what = format!("{}: mean delay, sync over async", server.title);
                    let ratio = delay.mean() / waits;
                    figure.claims.push(Claim::new("002 5.3", &what, Expected::AtLeast(1.0), ratio, "ratio"));
                }
            }
        }
    }
    figure.tables.push(table);
    Ok(figure)
}
