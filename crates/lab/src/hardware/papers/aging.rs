//! File System Aging (paper 003), sections 2 and 3: what use does to a file system, and whether a file system that was aged by a workload
//! resembles the one from which the workload was derived ([`crate::hardware::lifetime`]). Figures 1 to 4.

use super::aging_style as style;
use super::figure::{Figure, Table, number};
use super::parts::{highest, percent};
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::age::layout::{Layout, Score};
use crate::error::LabError;
use crate::hardware::StoreKind;
use crate::hardware::claims::{Claim, Expected};
use crate::hardware::lifetime::{History, Life, Policy, Speed};
use crate::plot::{Curve, Drawing, Plot, Scale};
use firnfs::ffs::Variant;

pub(super) const UNITS: [Unit; 3] = [
    Unit { id: "003/fig1", title: USED, jobs: history_and_original, make: used },
    Unit { id: "003/fig2", title: TIME, jobs: original_and_realloc, make: time },
    Unit { id: "003/fig3", title: REAL, jobs: history_and_original, make: real_and_simulated },
];

const USED: &str = "Reading from a used and from an empty file system";
const TIME: &str = "Two ways to allocate blocks, on empty and on aged file systems";
const REAL: &str = "Real against simulated file system (figures 3 and 4)";
pub(super) const CONDITION: &str = "Pentium Pro at 200 MHz, Fujitsu M2694; FFS of 1 GB, blocks of 8 KB, fragments of 1 KB, clusters of 56 KB, \
                                    63 groups; 32 MB a test, 25 files a directory";
pub(super) const INPUTS: &str = "size, groups and days of the file system, how full it is in the end, and about how many operations and bytes its \
                                 aging workload has; what its users do is made up (synthetic)";

const WORKLOAD: &str = "presumably: the workload's short-lived files lie in fewer directories than those of the people from whom it was derived, so it fragments \
                        more than they did, not less; with real people it was the other way round";

fn history_and_original(_: &Size) -> Vec<Job> {
    vec![Job::Life(Policy::Original), Job::History]
}

fn original_and_realloc(_: &Size) -> Vec<Job> {
    vec![Job::Life(Policy::Original), Job::Life(Policy::Realloc), Job::History]
}

/// A figure of this paper.
pub(super) fn figure(
    (id, title): (&'static str, &'static str),
    notes: Vec<String>,
    drawings: Vec<Drawing>,
    tables: Vec<Table>,
    claims: Vec<Claim>,
) -> Figure {
    let (condition, inputs) = (CONDITION.to_owned(), INPUTS);
    let differences = StoreKind::Fast(Variant::M8R0).differences().unwrap_or_default().to_vec();
    Figure { id, title, condition, inputs, differences, notes, drawings, tables, claims }
}

/// What a figure says of the workload.
pub(super) fn workload_note(history: &History) -> String {
    let counts = &history.counts;
    format!(
        "The aging workload has {:.2} million operations and writes {:.1} GB; {} of its {} files live for less than a day, and {} are left \
         in the end. It was derived from {} nightly snapshots of a file system in which {:.2} million operations wrote {:.1} GB.",
        counts.operations() as f64 / 1e6,
        counts.written_bytes as f64 / 1e9,
        counts.short_lived,
        counts.creates,
        counts.left_files,
        history.scores.len(),
        history.real.operations as f64 / 1e6,
        history.real.written_bytes as f64 / 1e9,
    )
}

/// Throughput by size.
pub(super) fn throughput(
    (file, title): (&'static str, &'static str),
    x_scale: Scale,
    curves: Vec<Curve>,
) -> Drawing {
    plot((file, title), ("size of the files, KB", "MB a second"), x_scale, curves)
}

pub(super) fn plot(
    (file, title): (&'static str, &'static str),
    (x, y): (&'static str, &'static str),
    x_scale: Scale,
    curves: Vec<Curve>,
) -> Drawing {
    let x_max = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(1.0, f64::max);
    let y_max = (highest(&curves) * 1.05).max(0.1);
    let (file, title, conditions) = (file.into(), title.into(), CONDITION.into());
    Drawing::Curves(Plot {
        file,
        title,
        conditions,
        x,
        y,
        x_scale,
        y_scale: Scale::Linear,
        x_max,
        y_max,
        curves,
    })
}

/// A value of each size.
pub(super) fn points(
    speeds: &[Speed],
    is_shown: impl Fn(u64) -> bool,
    value: impl Fn(&Speed) -> f64,
) -> Vec<(f64, f64)> {
    speeds.iter().filter(|speed| is_shown(speed.kib)).map(|speed| (speed.kib as f64, value(speed))).collect()
}

/// The value of one size; 0 if it was not measured.
pub(super) fn at(speeds: &[Speed], kib: u64, value: impl Fn(&Speed) -> f64) -> f64 {
    speeds.iter().find(|speed| speed.kib == kib).map_or(0.0, value)
}

pub(super) fn ratio(value: f64, to: f64) -> f64 {
    value / to.max(1e-9)
}

pub(super) fn score(score: Score) -> f64 {
    score.value().unwrap_or(0.0)
}

pub(super) fn within(value: f64, share: f64) -> Expected {
    Expected::Within { value, share }
}

/// The ratios of one value of two file systems, over all sizes that both have.
pub(super) fn ratios(over: &[Speed], under: &[Speed], value: impl Fn(&Speed) -> f64) -> Vec<f64> {
    let pair = |speed: &Speed| {
        let other = under.iter().find(|other| other.kib == speed.kib)?;
        Some(ratio(value(speed), value(other)))
    };
    over.iter().filter_map(pair).collect()
}

fn read(speed: &Speed) -> f64 {
    speed.read
}

fn used(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (history, original) = (runs.history()?, runs.life(Policy::Original)?);
    let all = |_| true;
    let curves = vec![
        Curve::new("empty", style::ORIGINAL, points(&original.empty, all, read)),
        Curve::new("used", style::REAL, points(&history.speeds, all, read)),
    ];
    let least = ratios(&history.speeds, &original.empty, read).into_iter().fold(1.0, f64::min);
    let claims = vec![
        Claim::new(
            "003 2.1",
            "reading: the most that a used file system loses",
            within(0.77, 0.15),
            1.0 - least,
            "share",
        )
        .missed("ours is 66% full instead of 75%; what else differs is not found out"),
    ];
    let notes = vec![
        format!(
            "The used file system is the one whose users are made up, after its months: {} full (the paper's: 75%).",
            percent(history.full)
        ),
        workload_note(history),
    ];
    let drawing = throughput(("003-fig1", "Figure 1: reading (synthetic history)"), Scale::Log2, curves);
    let claims = if size.is_paper() { claims } else { Vec::new() };
    Ok(figure(("003/fig1", USED), notes, vec![drawing], Vec::new(), claims))
}

fn time(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (original, realloc) = (runs.life(Policy::Original)?, runs.life(Policy::Realloc)?);
    let large = |kib: u64| crate::hardware::lifetime::SIZES_KIB.contains(&kib);
    let drawing = |file, title, original: &[Speed], realloc: &[Speed]| {
        let curves = vec![
            Curve::new("realloc", style::BASELINE, points(realloc, large, read)),
            Curve::new("original", style::ORIGINAL, points(original, large, read)),
        ];
        throughput((file, title), Scale::Log2, curves)
    };
    let drawings = vec![
        drawing("003-fig2a", "Figure 2A: reading, empty file systems", &original.empty, &realloc.empty),
        drawing(
            "003-fig2b",
            "Figure 2B: reading, aged file systems (synthetic history)",
            &original.aged,
            &realloc.aged,
        ),
    ];
    let empty = ratios(&original.empty, &realloc.empty, read);
    let apart = empty.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let best = ratios(&realloc.aged, &original.aged, read).into_iter().fold(0.0, f64::max);
    let over_empty = ratios(&realloc.aged, &realloc.empty, read);
    let aged_over_empty = over_empty.iter().sum::<f64>() / over_empty.len().max(1) as f64;
    let claims = vec![
        Claim::new(
            "003 fig 2",
            "empty: original over realloc, the largest difference from 1",
            Expected::AtMost(0.1),
            apart,
            "share",
        ),
        Claim::new(
            "003 fig 2",
            "aged: realloc over original, at most (\"up to fifty percent\")",
            within(1.5, 0.15),
            best,
            "ratio",
        )
        .missed(
            "in ours, files that are allocated block by block keep more of their order; why is not found out",
        ),
        Claim::new(
            "003 fig 2",
            "realloc: aged over empty, mean of the sizes (both perform worse)",
            Expected::AtMost(1.0),
            aged_over_empty,
            "ratio",
        ),
    ];
    let claims = if size.is_paper() { claims } else { Vec::new() };
    Ok(figure(("003/fig2", TIME), Vec::new(), drawings, vec![ends(original, realloc)], claims))
}

fn ends(original: &Life, realloc: &Life) -> Table {
    let mut table = Table::new("The file systems in the end", &["", "original", "realloc"]);
    let mut row = |name: &str, value: &dyn Fn(&Life) -> String| {
        table.rows.push(vec![name.to_owned(), value(original), value(realloc)]);
    };
    row("full", &|life| percent(life.full));
    row("files", &|life| life.layout.files.to_string());
    row("layout score", &|life| number(score(life.layout.all.score)));
    row("operations without room", &|life| life.refused.to_string());
    table
}

fn real_and_simulated(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (history, simulated) = (runs.history()?, runs.life(Policy::Original)?);
    let days = |scores: &[Score]| -> Vec<(f64, f64)> {
        (1..).zip(scores).map(|(day, &of_day)| (f64::from(day), score(of_day))).collect()
    };
    let by_day = plot(
        ("003-fig3", "Figure 3: layout score of each day (synthetic history)"),
        ("day (a point each, joined as in the paper)", "layout score"),
        Scale::Linear,
        vec![
            Curve::new("simulated", style::ORIGINAL, days(&simulated.scores)).plain(),
            Curve::new("real", style::REAL, days(&history.scores)).plain(),
        ],
    );
    let sizes = |layout: &Layout| -> Vec<(f64, f64)> {
        let classes = layout.by_size.iter().filter(|(bytes, _)| (16 << 10..=16 << 20).contains(*bytes));
        classes.filter_map(|(&bytes, class)| Some((bytes as f64 / 1024.0, class.score.value()?))).collect()
    };
    let by_size = plot(
        ("003-fig4", "Figure 4: layout score by size of the file (synthetic history)"),
        ("size of the file, KB (each point: of half to the whole)", "layout score"),
        Scale::Log2,
        vec![
            Curve::new("simulated", style::ORIGINAL, sizes(&simulated.layout)),
            Curve::new("real", style::REAL, sizes(&history.layout)),
        ],
    );
    let mut table = Table::new("The file systems in the end", &["", "real", "simulated"]);
    let mut row = |name: &str, real: String, ours: String| table.rows.push(vec![name.to_owned(), real, ours]);
    row("full", percent(history.full), percent(simulated.full));
    row("files", history.layout.files.to_string(), simulated.layout.files.to_string());
    let (real_end, end) = (score(history.layout.all.score), score(simulated.layout.all.score));
    row("layout score", number(real_end), number(end));
    let claims = if size.is_paper() { verification(history, simulated) } else { Vec::new() };
    let notes = vec![workload_note(history)];
    Ok(figure(("003/fig3", REAL), notes, vec![by_day, by_size], vec![table], claims))
}

/// The score of all files in a range of sizes, in bytes.
fn pooled(layout: &Layout, sizes: std::ops::RangeInclusive<u64>) -> f64 {
    let classes = layout.by_size.range(sizes);
    score(classes.fold(Score::default(), |sum, (_, class)| sum.with(class.score)))
}

/// Section 3.4.
fn verification(history: &History, simulated: &Life) -> Vec<Claim> {
    let (real, ours) = (score(history.layout.all.score), score(simulated.layout.all.score));
    let apart: Vec<f64> = (history.scores.iter().zip(&simulated.scores))
        .map(|(&real, &ours)| (score(real) - score(ours)).abs())
        .collect();
    let mean = |days: &[f64]| days.iter().sum::<f64>() / days.len().max(1) as f64;
    let (first, second) = apart.split_at(apart.len() / 2);
    let small = |layout: &Layout| pooled(layout, 1..=64 << 10);
    let large = |layout: &Layout| pooled(layout, 256 << 10..=1 << 40);
    vec![
        Claim::new("003 3.4", "layout score of the real file system", within(0.815, 0.05), real, "score"),
        Claim::new("003 3.4", "layout score of the simulated one", within(0.876, 0.05), ours, "score")
            .missed(WORKLOAD),
        Claim::new(
            "003 3.4",
            "simulated less real: the workload does not fragment as much",
            Expected::AtLeast(0.01),
            ours - real,
            "score",
        )
        .missed(WORKLOAD),
        Claim::new(
            "003 fig 3",
            "mean difference in the first half of the days, over that in the second",
            Expected::AtMost(1.0),
            ratio(mean(first), mean(second)),
            "ratio",
        ),
        Claim::new(
            "003 fig 4",
            "files of up to 64 KB: difference of simulated and real",
            Expected::AtMost(0.03),
            (small(&simulated.layout) - small(&history.layout)).abs(),
            "score",
        )
        .missed(WORKLOAD),
        Claim::new(
            "003 fig 4",
            "files of more than 128 KB: simulated less real",
            Expected::AtLeast(0.0),
            large(&simulated.layout) - large(&history.layout),
            "score",
        )
        .missed(WORKLOAD),
        Claim::new(
            "003 fig 4",
            "real: score of files of up to 32 KB, over that of larger ones",
            Expected::AtMost(0.9),
            ratio(pooled(&history.layout, 1..=32 << 10), pooled(&history.layout, 64 << 10..=1 << 40)),
            "ratio",
        ),
    ]
}
