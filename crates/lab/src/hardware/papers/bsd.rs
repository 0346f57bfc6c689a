//! BSD-LFS (paper 004), section 5.2.1: raw write and read bandwidth by the size of the transfer.

use super::figure::{Figure, Table, number};
use super::parts;
use super::runs::{Job, Runs};
use super::scheme::{Host, RAW, Scheme};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::bandwidth::{self, Point};
use crate::hardware::claims::{Claim, Expected};
use crate::plot::{Bars, Curve, Drawing, Plot, Scale, Series};

/// The figures of this file.
pub(super) const UNITS: [Unit; 4] = [
    Unit { id: "004/fig9", title: "Write bandwidth by transfer size", jobs, make: figure_9 },
    Unit {
        id: "004/fig10",
        title: "Writing half a megabyte: write and fsync",
        jobs: jobs_10,
        make: figure_10,
    },
    Unit {
        id: "004/fig11",
        title: "What a rotational delay of 4 ms leaves of FFS's bandwidth",
        jobs: jobs_11,
        make: figure_11,
    },
    Unit { id: "004/fig12", title: "Read bandwidth by transfer size", jobs, make: figure_12 },
];

const SCHEMES: [Scheme; 4] = [Scheme::Lfs, Scheme::Modern, Scheme::Efs, Scheme::Ffs];
const INPUTS: &str = "rotdelay of 4 ms: three blocks of gap; memory bandwidth of 12 MB/s; the program that reaches the threshold of 800 KB writes \
                      the log; path of a block (000 section 4)";
const EMPTY: &str = "an empty disk without a cleaner, as in the paper's raw tests";

fn sizes_kib() -> [u64; 9] {
    bandwidth::SIZES.map(|bytes| bytes >> 10)
}

fn jobs(_: &Size) -> Vec<Job> {
    SCHEMES.into_iter().flat_map(|scheme| sizes_kib().map(|kib| Job::Point(scheme, kib))).collect()
}

fn condition(size: &Size) -> String {
    format!("{}; each size {} times; {EMPTY}", Host::Hp.title(), size.scale.runs)
}

/// A value over the size of the transfer, for each file system.
fn curves(runs: &Runs, of: fn(&Point) -> f64, raw: fn(&Point) -> f64) -> Result<Vec<Curve>, LabError> {
    let curve = |name: &'static str, style, scheme, of: fn(&Point) -> f64| {
        let point = |kib| Ok((kib as f64, of(runs.point(scheme, kib)?)));
        Ok(Curve::new(name, style, sizes_kib().into_iter().map(point).collect::<Result<_, LabError>>()?))
    };
    let mut curves = vec![curve("RAW", RAW, Scheme::Lfs, raw)?];
    for scheme in SCHEMES {
        curves.push(curve(scheme.name(Host::Hp), scheme.style(Host::Hp), scheme, of)?);
    }
    Ok(curves)
}

fn table(title: &str, curves: &[Curve]) -> Table {
    let names: Vec<&str> =
        std::iter::once("KB").chain(curves.iter().map(|curve| curve.label.as_ref())).collect();
    let mut table = Table::new(title, &names);
    for (n, kib) in sizes_kib().into_iter().enumerate() {
        let values = curves.iter().map(|curve| number(curve.points[n].1));
        table.rows.push(std::iter::once(kib.to_string()).chain(values).collect());
    }
    table
}

fn plot(file: &'static str, title: &'static str, size: &Size, curves: Vec<Curve>) -> Drawing {
    Drawing::Curves(Plot {
        file: file.into(),
        title: title.into(),
        conditions: condition(size).into(),
        x: "kilobytes",
        y: "MB/s",
        x_scale: Scale::Log2,
        y_scale: Scale::Linear,
        x_max: 4096.0,
        y_max: parts::highest(&curves) * 1.1,
        curves,
    })
}

fn figure_9(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut curves = curves(runs, |point| point.lfs_write_mb_per_s, |point| point.raw_write_mb_per_s)?;
    let table = table("MB/s written", &curves);
    curves.push(
        Curve::new("FFS: the paper's text", Scheme::Ffs.style(Host::Hp), vec![(4096.0, 0.5)]).published(),
    );
    let mut claims = parts::rows(runs, size, |row| row.claim.place == "004 fig 9");
    let ffs = runs.point(Scheme::Ffs, 4096)?.lfs_write_mb_per_s;
    let share = "FFS writes, 4 MB, of the bus's 1.6 MB/s (31%)";
    claims.push(Claim::new("004 fig 9", share, within(0.31, 0.1), ffs / 1.6, "share").of_input());
    if size.is_paper() {
        claims.extend(of_simulation(runs, |claim| matches!(claim.place, "figure 9" | "5.2.1"))?);
    }
    Ok(Figure {
        id: "004/fig9",
        title: "Write bandwidth by transfer size",
        condition: condition(size),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: vec!["The curves of the paper are lost in the copy at hand; its text is compared.".to_owned()],
        drawings: vec![plot("004-fig9", "Figure 9: write bandwidth", size, curves)],
        tables: vec![table],
        claims,
    })
}

fn within(value: f64, share: f64) -> Expected {
    Expected::Within { value, share }
}

/// The claims of `firn sim paper bandwidth`, with the paper's number before the place.
fn of_simulation(runs: &Runs, is_shown: impl Fn(&Claim) -> bool) -> Result<Vec<Claim>, LabError> {
    let point = |kib| runs.point(Scheme::Lfs, kib).copied();
    let points = sizes_kib().into_iter().map(point).collect::<Result<Vec<Point>, LabError>>()?;
    // The gap of raw requests follows from the machine alone: no measurement could make that claim fail.
    let is_measured = |claim: &Claim| !(claim.place == "5.2.1" && claim.is_of_input());
    let claims = bandwidth::claims(&Scheme::Lfs.setup(Host::Hp)?, &points).into_iter();
    let claims = claims.filter(|claim| is_measured(claim) && is_shown(claim));
    let place = |place| match place {
        "figure 9" => "004 fig 9",
        "figure 10" => "004 fig 10",
        "figure 12" => "004 fig 12",
        _ => "004 5.2.1",
    };
    Ok(claims.map(|claim| Claim { place: place(claim.place), ..claim }).collect())
}

fn jobs_10(_: &Size) -> Vec<Job> {
    [Scheme::Lfs, Scheme::Efs].map(|scheme| Job::Point(scheme, 512)).to_vec()
}

fn figure_10(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let schemes = [Scheme::Lfs, Scheme::Efs];
    let mut points = Vec::new();
    for scheme in schemes {
        points.push(runs.point(scheme, 512)?);
    }
    let series = |(scheme, point): (Scheme, &Point)| {
        let ms = vec![point.lfs_write_ms, point.lfs_fsync_ms];
        Series::new(scheme.name(Host::Hp), scheme.style(Host::Hp), ms)
    };
    let bars = Drawing::Bars(Bars {
        file: "004-fig10".into(),
        title: "Figure 10: half a megabyte written".into(),
        conditions: condition(size).into(),
        y: "milliseconds",
        groups: ["until all is written to the file", "fsync"].map(str::to_owned).to_vec(),
        series: schemes.into_iter().zip(points).map(series).collect(),
    });
    Ok(Figure {
        id: "004/fig10",
        title: "Writing half a megabyte: write and fsync",
        condition: condition(size),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: Vec::new(),
        drawings: vec![bars],
        tables: Vec::new(),
        claims: parts::rows(runs, size, |row| row.claim.place == "004 fig 10"),
    })
}

fn jobs_11(_: &Size) -> Vec<Job> {
    vec![Job::Point(Scheme::Ffs, 4096)]
}

/// The paper's arithmetic, and what our FFS reads and writes.
fn figure_11(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let ffs = runs.point(Scheme::Ffs, 4096)?;
    let quarter = 2.2 / 4.0;
    let mut table = Table::new("MB/s", &["what", "paper", "ours"]);
    let rows = [
        ("a quarter of the disk's 2.2 MB/s", quarter, quarter),
        ("FFS, 4 MB written", 0.5, ffs.lfs_write_mb_per_s),
    ];
    for (what, paper, ours) in rows {
        table.rows.push(vec![what.to_owned(), number(paper), number(ours)]);
    }
    let bound = "FFS reads, 4 MB: at most a quarter of the disk's bandwidth";
    let claims = vec![
        Claim::new("004 fig 11", bound, Expected::AtMost(quarter), ffs.lfs_read_mb_per_s, "MB/s").of_input(),
    ];
    Ok(Figure {
        id: "004/fig11",
        title: "What a rotational delay of 4 ms leaves of FFS's bandwidth",
        condition: condition(size),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: vec!["A track has nine blocks of 4 KB and takes 15 ms; the next block of a file lies after three others.".to_owned()],
        drawings: Vec::new(),
        tables: vec![table],
        claims,
    })
}

fn figure_12(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let curves = curves(runs, |point| point.lfs_read_mb_per_s, |point| point.raw_read_mb_per_s)?;
    let mut claims = parts::rows(runs, size, |row| row.claim.place == "004 fig 12");
    if size.is_paper() {
        claims.extend(of_simulation(runs, |claim| claim.place == "figure 12")?);
    }
    Ok(Figure {
        id: "004/fig12",
        title: "Read bandwidth by transfer size",
        condition: condition(size),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: Vec::new(),
        tables: vec![table("MB/s read", &curves)],
        drawings: vec![plot("004-fig12", "Figure 12: read bandwidth", size, curves)],
        claims,
    })
}
