//! USENIX'95 (paper 000), section 5: the Fast File System after months of use, on made-up file systems ([`crate::hardware::fragmented`]).

use super::figure::{Figure, Table, number};
use super::parts::{highest, percent};
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::age::layout::Score;
use crate::error::LabError;
use crate::hardware::StoreKind;
use crate::hardware::claims::{Claim, Expected};
use crate::hardware::fragmented::{Aged, DATES, SERVERS, SIZES_KIB, TENTHS};
use crate::plot::{Curve, Drawing, Plot, Scale, Style};
use firnfs::ffs::Variant;
use std::collections::BTreeMap;

pub(super) const UNITS: [Unit; 1] = [Unit { id: "000/fig8", title: TITLE, jobs, make }];

const TITLE: &str = "FFS after months of use, over an empty one";
const CONDITION: &str =
    "SPARCstation 1, Fujitsu M2694; FFS, blocks of 8 KB, maxcontig 7, rotdelay 0; 25 files a directory";
const INPUTS: &str = "sizes of the file systems and their groups (600 MB at most); their use is made up (synthetic): sizes of files, how \
                      much is replaced between two dates and how, how full they are";
/// What is slower than this share of an empty file system counts as slow (5.5).
const SLOW: f64 = 0.85;

const PAIRS: &str = "the months are made up, and leave fewer pairs of free blocks at the beginnings of groups than real ones did; and \
                     a file of 9 to 15 KB ends in a fragment, which rarely fits behind its only block";

type All<'a> = Vec<(&'static str, &'a Aged)>;

fn jobs(_: &Size) -> Vec<Job> {
    (0..SERVERS.len()).map(Job::Aged).collect()
}

fn make(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let aged = |n: usize| Ok((SERVERS[n].name, runs.aged(n)?));
    let all: All<'_> = (0..SERVERS.len()).map(aged).collect::<Result<_, LabError>>()?;
    let mut drawings: Vec<Drawing> = (0..all.len()).map(|n| by_date(&all, n)).collect();
    drawings.extend([by_size(&all), by_position(&all)]);
    Ok(Figure {
        id: "000/fig8",
        title: TITLE,
        condition: CONDITION.to_owned(),
        inputs: INPUTS,
        differences: StoreKind::Fast(Variant::M8R0).differences().unwrap_or_default().to_vec(),
        notes: vec![
            "The real file system carries out the months. As in the paper, tests run on new volumes without files, in which the \
             fragments are taken that its maps of free blocks call taken."
                .to_owned(),
        ],
        drawings,
        tables: vec![tests_table(&all), position_table(&all)],
        claims: if size.is_paper() { claims(&all) } else { Vec::new() },
    })
}

/// The six graphs of the figure.
const FILES: [(&str, &str); 6] = [
    ("000-fig8-cnews", "Figure 8: cnews (synthetic)"),
    ("000-fig8-glan5", "Figure 8: glan5 (synthetic)"),
    ("000-fig8-staff", "Figure 8: staff (synthetic)"),
    ("000-fig8-usr4", "Figure 8: usr4 (synthetic)"),
    ("000-fig8-usr6", "Figure 8: usr6 (synthetic)"),
    ("000-fig8-white", "Figure 8: white (synthetic)"),
];
const READS: [&str; 3] = ["read 8K", "read 64K", "read 1024K"];
const CREATES: [&str; 3] = ["create 8K", "create 64K", "create 1024K"];

fn by_date(all: &All<'_>, n: usize) -> Drawing {
    let aged = all[n].1;
    let points =
        |value: &dyn Fn(usize) -> f64| (0..DATES).map(|date| ((date + 1) as f64, value(date))).collect();
    let mut curves = Vec::new();
    for (at, style) in [0, 1, 3].into_iter().enumerate() {
        curves.push(Curve::new(READS[at], Style(style), points(&|date| aged.tests[date][at].read)));
    }
    for (at, style) in [2, 4, 5].into_iter().enumerate() {
        curves.push(Curve::new(CREATES[at], Style(style), points(&|date| aged.tests[date][at].create)));
    }
    curves.push(Curve::new("how full", Style(6), points(&|date| aged.full[date])));
    plot(FILES[n], ("date", "share of an empty file system"), (Scale::Whole, DATES as f64), curves)
}

fn plot(
    (file, title): (&'static str, &'static str),
    (x, y): (&'static str, &'static str),
    (x_scale, x_max): (Scale, f64),
    curves: Vec<Curve>,
) -> Drawing {
    let y_max = highest(&curves).max(1.0) * 1.05;
    let (file, title) = (file.into(), title.into());
    Drawing::Curves(Plot {
        file,
        title,
        conditions: CONDITION.into(),
        x,
        y,
        x_scale,
        y_scale: Scale::Linear,
        x_max,
        y_max,
        curves,
    })
}

fn styled<'a>(all: &'a All<'_>) -> impl Iterator<Item = (&'static str, &'a Aged, Style)> {
    all.iter().zip([0, 1, 2, 3, 4, 5]).map(|(&(name, aged), style)| (name, aged, Style(style)))
}

/// Section 5.2: files of few blocks are scattered more than large ones.
fn by_size(all: &All<'_>) -> Drawing {
    let curves = styled(all).map(|(name, aged, style)| {
        let points =
            aged.scores.iter().filter_map(|(bytes, score)| Some((*bytes as f64 / 1024.0, score.value()?)));
        Curve::new(name, style, points.collect())
    });
    let curves: Vec<Curve> = curves.collect();
    let x_max = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(16.0, f64::max);
    let names = ("000-fig8-layout", "Blocks that lie behind the one before, by size of the file (synthetic)");
    plot(
        names,
        ("size of the file, KiB (each point: of half to the whole)", "share of the blocks"),
        (Scale::Log2, x_max),
        curves,
    )
}

/// Section 5.2: free space lies at the ends of the groups.
fn by_position(all: &All<'_>) -> Drawing {
    let curves = styled(all).map(|(name, aged, style)| {
        let points = (1..).zip(aged.by_position).map(|(tenth, (free, _))| (f64::from(tenth), free));
        Curve::new(name, style, points.collect())
    });
    let names = ("000-fig8-position", "Free blocks by position in their group, on the last date (synthetic)");
    plot(
        names,
        ("tenth of the group", "share of its blocks"),
        (Scale::Linear, TENTHS as f64),
        curves.collect(),
    )
}

fn tests_table(all: &All<'_>) -> Table {
    let header = ["file system", "date", "full", "create 8K", "64K", "1024K", "read 8K", "64K", "1024K"];
    let mut table = Table::new("Files a second, over an empty file system", &header);
    for (name, aged) in all {
        for date in 0..DATES {
            let tests = &aged.tests[date];
            let head = [(*name).to_owned(), (date + 1).to_string(), percent(aged.full[date])];
            let values = tests.iter().map(|test| test.create).chain(tests.iter().map(|test| test.read));
            table.rows.push(head.into_iter().chain(values.map(number)).collect());
        }
    }
    table
}

fn position_table(all: &All<'_>) -> Table {
    let header = ["file system", "first tenth: free", "in clusters", "last tenth: free", "in clusters"];
    let mut table =
        Table::new("Free blocks of the groups on the last date, and those in clusters of 7 or more", &header);
    for (name, aged) in all {
        let (first, last) = (aged.by_position[0], aged.by_position[TENTHS - 1]);
        let values = [first.0, first.1, last.0, last.1].map(percent);
        table.rows.push(std::iter::once((*name).to_owned()).chain(values).collect());
    }
    table
}

/// All tests with files of one size, of the file systems that are meant, on the dates that are meant.
fn tests(all: &All<'_>, at: usize, is_meant: impl Fn(&str, usize) -> bool) -> Vec<f64> {
    let dates =
        all.iter().flat_map(|(name, aged)| (0..DATES).map(move |date| (*name, date, &aged.tests[date][at])));
    dates
        .filter(|(name, date, _)| is_meant(name, *date))
        .flat_map(|(_, _, test)| [test.create, test.read])
        .collect()
}

fn share(values: &[f64], is_counted: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|value| is_counted(**value)).count() as f64 / values.len().max(1) as f64
}

/// The scores of all file systems together.
fn pooled(all: &All<'_>) -> BTreeMap<u64, Score> {
    let mut pooled = BTreeMap::new();
    for (bytes, score) in all.iter().flat_map(|(_, aged)| &aged.scores) {
        let sum: &mut Score = pooled.entry(*bytes).or_default();
        *sum = sum.with(*score);
    }
    pooled
}

fn claims(all: &All<'_>) -> Vec<Claim> {
    let of = |at| tests(all, at, |_, _| true);
    let (small, middle, large) = (tests(all, 0, |name, date| (name, date) != ("cnews", 0)), of(1), of(2));
    let fast = |values: &[f64]| share(values, |value| value >= SLOW);
    let within = |value, share| Expected::Within { value, share };
    let claim = |place, what, expected, ours| Claim::new(place, what, expected, ours, "share");
    let least = [of(0), of(1), of(2)].concat().into_iter().fold(f64::INFINITY, f64::min);
    let software: Vec<f64> =
        (0..SIZES_KIB.len()).flat_map(|at| tests(all, at, |name, _| name == "glan5")).collect();
    let scores = pooled(all);
    let score = |bytes: u64| scores.get(&bytes).and_then(|score| score.value()).unwrap_or(0.0);
    let half = |tenths: std::ops::Range<usize>| {
        all.iter().flat_map(|(_, aged)| &aged.by_position[tenths.clone()]).map(|(free, _)| free).sum::<f64>()
    };
    let ends = half(TENTHS / 2..TENTHS) / half(0..TENTHS / 2).max(1e-9);
    vec![
        claim(
            "000 5.5",
            "files of 1024 KB: tests at 85% or more of an empty file system (46 of 48)",
            within(46.0 / 48.0, 0.05),
            fast(&large),
        ),
        claim("000 5.5", "files of 64 KB: the same (39 of 48)", within(39.0 / 48.0, 0.15), fast(&middle)),
        claim(
            "000 5.5",
            "files of 8 KB, the first date of cnews left out: tests below 85% (1 of 46)",
            Expected::AtMost(1.0 / 46.0),
            1.0 - fast(&small),
        ),
        claim("000 5.4", "the slowest of all tests", within(0.71, 0.15), least),
        claim(
            "000 5.4",
            "glan5: tests at 95% or more (15 of 24)",
            Expected::AtLeast(15.0 / 24.0),
            share(&software, |value| value >= 0.95),
        ),
        claim(
            "000 5.2",
            "files of two blocks: second blocks behind the first",
            within(0.37, 0.15),
            score(16 << 10),
        )
        .missed(PAIRS),
        claim(
            "000 5.2",
            "files of 129 to 256 KB: blocks behind the one before",
            within(0.8, 0.15),
            score(256 << 10),
        ),
        Claim::new(
            "000 5.2",
            "free blocks in the second halves of the groups, over those in the first halves",
            Expected::AtLeast(1.0),
            ends,
            "ratio",
        ),
    ]
}
