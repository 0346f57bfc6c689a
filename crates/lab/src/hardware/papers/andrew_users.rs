//! BSD-LFS's figures 13 and 14: the Andrew benchmark with several users at a time.

use super::figure::{Figure, Table, number};
use super::parts::{self, highest, percent};
use super::runs::{Job, Runs};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::tree::Together;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::{Curve, Drawing, Plot, Scale};

pub(super) const UNITS: [Unit; 2] = [
    Unit { id: "004/fig13", title: "The Andrew benchmark, multi-user", jobs, make: figure_13 },
    Unit { id: "004/fig14", title: "The Andrew benchmark, multi-user (blow-up)", jobs, make: figure_14 },
];

/// Memory for files: the least that the log can do with. The paper's is not published.
pub(super) const CACHE_BYTES: u64 = 4 << 20;
const SCHEMES: [Scheme; 4] = [Scheme::Ffs, Scheme::Efs, Scheme::Lfs, Scheme::Modern];
/// The paper's, and one more: a tree takes 0.4 MB, so ten of them fill the memory; the paper's was full with four.
const USERS: [u32; 7] = [1, 2, 3, 4, 5, 6, 12];
/// The most users whose trees fit, among those of the paper, and the fewest whose trees do not.
const FIT: usize = 5;
const EXCEED: usize = 6;

const INPUTS: &str = "the times of table 6: programs compute and wait so long that one user takes the paper's time on our log. What several users, and FFS \
                      and EFS, take comes out";
const SAVED: &str = "the work of the processor for a user stays the same here, so that others fill all of its idle time, 27% on the log; the paper's machine \
                     became busier, and hardly faster";
const HIDDEN: &str =
    "while one user reads, others compute: here the processor is the limit, and reads are hidden behind it";
const SEEKS: &str = "FFS and EFS seek for each synchronous write, the log hardly writes; reads, of which the paper speaks, are few with all";

const ELSEWHERE: &str = "the 41% of the fifth phase in which the paper's processor is idle are waits for a disk of the system, with the compiler and its \
                         temporary files; it serves one program at a time";
const MEMORY: &str =
    "memory for files is assumed: 3.2 MB; the compiler's own memory does not grow with the number of users";

fn jobs(_: &Size) -> Vec<Job> {
    let of = |scheme| USERS.map(|users| Job::AndrewTogether(scheme, users));
    SCHEMES.into_iter().flat_map(of).collect()
}

/// The results of a scheme by number of users.
type Degrees = [Together; USERS.len()];

fn all(runs: &Runs) -> Result<Vec<(Scheme, Degrees)>, LabError> {
    let of = |scheme| {
        let mut degrees = Degrees::default();
        for (degree, users) in degrees.iter_mut().zip(USERS) {
            *degree = *runs.andrew_together(scheme, users)?;
        }
        Ok((scheme, degrees))
    };
    SCHEMES.into_iter().map(of).collect()
}

/// The share of a single user's time that the best degree saves.
fn gain(degrees: &Degrees) -> f64 {
    let least = degrees.iter().map(|degree| degree.seconds).fold(f64::INFINITY, f64::min);
    1.0 - least / degrees[0].seconds
}

fn curves(all: &[(Scheme, Degrees)], from: f64) -> Vec<Curve> {
    let of = |(scheme, degrees): &(Scheme, Degrees)| {
        let points = USERS.into_iter().zip(degrees).map(|(users, at)| (users.into(), at.seconds - from));
        Curve::new(scheme.name(Host::Hp), scheme.style(Host::Hp), points.collect())
    };
    all.iter().map(of).collect()
}

fn figure(id: &'static str, title: &'static str, size: &Size) -> Figure {
    let (volume_bytes, passes) = size.andrew();
    Figure {
        id,
        title,
        condition: format!(
            "{}; disk of {} MB, 80% full; {passes} passes of each user; virtual time",
            Host::Hp.title(),
            volume_bytes >> 20
        ),
        inputs: INPUTS,
        differences: [&[ELSEWHERE, MEMORY], &parts::differences()[..]].concat(),
        notes: Vec::new(),
        drawings: Vec::new(),
        tables: Vec::new(),
        claims: Vec::new(),
    }
}

fn plot(file: &'static str, title: String, y: &'static str, curves: Vec<Curve>) -> Drawing {
    Drawing::Curves(Plot {
        file: file.into(),
        title: title.into(),
        conditions: format!("{}; disk 80% full", Host::Hp.title()).into(),
        x: "users at a time",
        y,
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        x_max: 12.5,
        y_max: highest(&curves) * 1.1,
        curves,
    })
}

fn figure_13(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let all = all(runs)?;
    let header = ["file system", "users", "phases s", "all s", "processor", "reads", "writes", "seeks"];
    let mut table = Table::new(
        "Seconds over the number of users, of the five phases and of whole passes, which also remove the tree; processor busy, and requests of the disk \
         for each pass of a user",
        &header,
    );
    for (scheme, degrees) in &all {
        for (users, degree) in USERS.into_iter().zip(degrees) {
            table.rows.push(vec![
                scheme.name(Host::Hp).to_owned(),
                users.to_string(),
                number(degree.seconds),
                number(degree.whole_seconds),
                percent(degree.cpu_share),
                number(degree.reads),
                number(degree.writes),
                number(degree.seeks),
            ]);
        }
    }
    let title = "Figure 13: elapsed seconds per invocation";
    let drawing = plot("004-fig13", title.to_owned(), "seconds", curves(&all, 0.0));
    let [ffs, efs, lfs] = [&all[0].1, &all[1].1, &all[2].1];
    Ok(Figure {
        drawings: vec![drawing],
        tables: vec![table],
        claims: if size.is_paper() { claims_13(ffs, efs, lfs) } else { Vec::new() },
        ..figure("004/fig13", "The Andrew benchmark, multi-user", size)
    })
}

fn figure_14(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let all = all(runs)?;
    let seconds = all.iter().flat_map(|(_, degrees)| degrees).map(|degree| degree.seconds);
    let from = (seconds.fold(f64::INFINITY, f64::min) / 5.0).floor() * 5.0;
    let title = format!("Figure 14: the same, blown up: the ordinate begins at {from} s");
    let drawing = plot("004-fig14", title, "seconds beyond those of the heading", curves(&all, from));
    let [efs, lfs] = [&all[1].1, &all[2].1];
    Ok(Figure {
        drawings: vec![drawing],
        claims: if size.is_paper() { claims_14(efs, lfs) } else { Vec::new() },
        ..figure("004/fig14", "The Andrew benchmark, multi-user (blow-up)", size)
    })
}

fn claims_13(ffs: &Degrees, efs: &Degrees, lfs: &Degrees) -> Vec<Claim> {
    let value = |what, expected, ours, unit| Claim::new("004 fig 13", what, expected, ours, unit);
    let saves = |what, degrees| value(what, Expected::AtMost(0.09), gain(degrees), "share").missed(SAVED);
    vec![
        saves("FFS: what multiprogramming saves at most", ffs),
        saves("EFS: what multiprogramming saves at most", efs),
        saves("LFS: what multiprogramming saves at most", lfs),
        value("it saves more on FFS than on LFS", Expected::AtLeast(1.0), gain(ffs) / gain(lfs), "ratio"),
        value("it saves more on EFS than on LFS", Expected::AtLeast(1.0), gain(efs) / gain(lfs), "ratio"),
    ]
}

fn claims_14(efs: &Degrees, lfs: &Degrees) -> Vec<Claim> {
    let value = |what, expected, ours, unit| Claim::new("004 fig 14", what, expected, ours, unit);
    let at_least = Expected::AtLeast;
    let (fit, exceed) = (|degrees: &Degrees| degrees[FIT], |degrees: &Degrees| degrees[EXCEED]);
    let rise = |degrees: &Degrees| exceed(degrees).seconds / fit(degrees).seconds;
    vec![
        value(
            "6 users, LFS over EFS (comparable)",
            Expected::Within { value: 1.0, share: 0.05 },
            fit(lfs).seconds / fit(efs).seconds,
            "ratio",
        ),
        value(
            "LFS, 12 users over 6 (slower once trees do not fit the cache)",
            at_least(1.0),
            rise(lfs),
            "ratio",
        )
        .missed(HIDDEN),
        value(
            "EFS, 12 users over 6 (slower once trees do not fit the cache)",
            at_least(1.0),
            rise(efs),
            "ratio",
        )
        .missed(HIDDEN),
        value(
            "LFS: reads, 12 users less 6 (more I/O is performed)",
            at_least(1.0),
            exceed(lfs).reads - fit(lfs).reads,
            "requests",
        ),
        value(
            "12 users, seeks: LFS over EFS (LFS performs more)",
            at_least(1.0),
            exceed(lfs).seeks / exceed(efs).seeks,
            "ratio",
        )
        .missed(SEEKS),
    ]
}
