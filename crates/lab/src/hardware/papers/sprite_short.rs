//! Sprite LFS (paper 001): figure 1, the writes of two new files, and table 3, recovery after a crash.

use super::figure::{Figure, Table, number};
use super::parts::{self, bars, series};
use super::runs::{Job, Runs};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::{Curve, Drawing, Plot, Scale, Style};

pub(super) const FIRST: [Unit; 1] = [Unit {
    id: "001/fig1",
    title: "Two new files in two directories: writes and seeks",
    jobs: jobs_1,
    make: figure_1,
}];
pub(super) const RECOVERY: [Unit; 1] =
    [Unit { id: "001/table3", title: "Recovery after a crash", jobs: jobs_3, make: table_3 }];

const SCHEMES: [Scheme; 3] = [Scheme::Lfs, Scheme::Modern, Scheme::Ffs];

fn jobs_1(_: &Size) -> Vec<Job> {
    SCHEMES.map(|scheme| Job::TwoFiles(Host::Sprite, scheme)).to_vec()
}

fn figure_1(runs: &Runs, _: &Size) -> Result<Figure, LabError> {
    let mut table =
        Table::new("The disk's work", &["file system", "writes", "KB written", "seeks", "commands"]);
    let mut all = Vec::new();
    let mut work_of = Vec::new();
    for scheme in SCHEMES {
        let work = *runs.work(Host::Sprite, scheme)?;
        let kb = work.asked.write_bytes as f64 / 1e3;
        let name = scheme.name(Host::Sprite);
        all.push(series(name, scheme.style(Host::Sprite), [work.asked.writes as f64, kb, work.seeks as f64]));
        let counts = [work.asked.writes, work.seeks, work.commands].map(|count| count.to_string());
        let [writes, seeks, commands] = counts;
        table.rows.push(vec![name.to_owned(), writes, number(kb), seeks, commands]);
        work_of.push(work);
    }
    let value = |what, expected, ours: u64| Claim::new("001 fig 1", what, expected, ours as f64, "writes");
    let claims = vec![
        value("LFS: writes (one large write)", Expected::AtMost(1.0), work_of[0].asked.writes),
        value("FFS: writes (ten; m)", Expected::Within { value: 10.0, share: 0.3 }, work_of[2].asked.writes),
    ];
    Ok(Figure {
        id: "001/fig1",
        title: "Two new files in two directories: writes and seeks",
        condition: format!(
            "{}; dir1/file1 and dir2/file2 of one block each, then a sync",
            Host::Sprite.title()
        ),
        inputs: "none",
        differences: parts::differences(),
        notes: Vec::new(),
        drawings: vec![bars(
            "001-fig1",
            "Figure 1: two new files, until they are durable",
            Host::Sprite.title(),
            "count, or KB",
            &["writes", "KB written", "seeks"],
            all,
        )],
        tables: vec![table],
        claims,
    })
}

const FILE_KIB: [u64; 3] = [1, 10, 100];

fn data_mib(size: &Size) -> &'static [u64] {
    if size.is_paper() { &[1, 10, 50] } else { &[1, 5] }
}

fn jobs_3(size: &Size) -> Vec<Job> {
    let all = FILE_KIB.into_iter();
    all.flat_map(|kib| data_mib(size).iter().map(move |&mib| Job::Recovery(kib, mib))).collect()
}

/// Seconds of table 3, by size of file and data recovered.
const PUBLISHED: [[&str; 3]; 3] = [["1", "21", "132"], ["<1", "3", "17"], ["<1", "1", "8"]];

fn table_3(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let header = ["file size", "data", "paper", "ours", "after unmount"];
    let mut table = Table::new("Seconds", &header);
    let (mut curves, mut last) = (Vec::new(), Vec::new());
    for (n, (kib, style)) in FILE_KIB.into_iter().zip([2, 3, 4].map(Style)).enumerate() {
        let mut points = Vec::new();
        for (m, &mib) in data_mib(size).iter().enumerate() {
            let (crashed, clean) = runs.recovery(kib, mib)?;
            points.push((mib as f64, crashed));
            let paper = if size.is_paper() { PUBLISHED[n][m] } else { "-" };
            let cells =
                [format!("{kib} KB"), format!("{mib} MB"), paper.to_owned(), number(crashed), number(clean)];
            table.rows.push(cells.to_vec());
        }
        last.push(points.last().map_or(f64::NAN, |point| point.1));
        curves.push(Curve::new(format!("files of {kib} KB"), style, points));
        if size.is_paper() {
            // Less than a second is no point.
            let published = PUBLISHED[n].map(|seconds| seconds.parse().ok());
            let points = data_mib(size).iter().zip(published);
            let points = points.filter_map(|(&mib, seconds)| Some((mib as f64, seconds?))).collect();
            curves.push(Curve::new(format!("files of {kib} KB: the paper"), style, points).published());
        }
    }
    let ours = curves.iter().filter(|curve| curve.look == crate::plot::Look::Marked);
    let highest = ours.flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max);
    let mut claims = Vec::new();
    if size.is_paper() {
        let place = "001 table 3";
        let of =
            |what, expected, over: f64, under: f64| Claim::new(place, what, expected, over / under, "ratio");
        let files = "50 MB: files of 1 KB over 100 KB (132 over 8 s; follows the number of files)";
        claims.push(
            of(files, Expected::Within { value: 16.5, share: 0.5 }, last[0], last[2]).missed(PROCESSOR),
        );
        let more = "50 MB: files of 1 KB over 10 KB (longer)";
        claims.push(of(more, Expected::AtLeast(1.1), last[0], last[1]));
        let (ten, fifty) = (runs.recovery(1, 10)?.0, runs.recovery(1, 50)?.0);
        let linear = "files of 1 KB: 50 MB over 10 MB (132 over 21 s)";
        claims
            .push(of(linear, Expected::Within { value: 132.0 / 21.0, share: 0.3 }, fifty, ten).missed(FIXED));
    }
    Ok(Figure {
        id: "001/table3",
        title: "Recovery after a crash",
        condition: format!(
            "{}; no checkpoint after mkfs; all written and synced, then a crash",
            Host::Sprite.title()
        ),
        inputs: "no checkpoints, as in the paper",
        differences: [
            &["the directories are written too; in the paper their changes were only in the directory log"],
            &[PROCESSOR],
            &parts::differences()[..],
        ]
        .concat(),
        notes: Vec::new(),
        drawings: vec![Drawing::Curves(Plot {
            file: "001-table3".into(),
            title: "Table 3: seconds of recovery, by the data recovered".into(),
            conditions: match size.is_paper() {
                true => {
                    format!(
                        "{}; the paper's values beyond the axis are marked at its edge",
                        Host::Sprite.title()
                    )
                }
                false => format!("{}; the paper recovered other amounts", Host::Sprite.title()),
            }
            .into(),
            x: "MB recovered",
            y: "seconds",
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            x_max: data_mib(size).last().map_or(1.0, |&mib| mib as f64 * 1.05),
            y_max: highest * 1.5,
            curves,
        })],
        tables: vec![table],
        claims,
    })
}

const FIXED: &str = "some 9 s of each recovery do not depend on the data; without them the ratio is 5";
const PROCESSOR: &str = "only the disk's time and its commands are charged: what a Sun-4 computes for each file recovered is not in the papers";
