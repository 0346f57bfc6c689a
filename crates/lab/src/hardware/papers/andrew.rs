//! BSD-LFS's table 6: the Andrew benchmark, single-user.

use super::figure::{Figure, Table, number};
use super::parts::{self, bars};
use super::runs::{Job, Runs};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::tree::{Mean, OF_LFS};
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::Series;

pub(super) const UNITS: [Unit; 1] =
    [Unit { id: "004/table6", title: "The Andrew benchmark, single-user", jobs, make: table_6 }];

const SCHEMES: [Scheme; 4] = [Scheme::Ffs, Scheme::Efs, Scheme::Lfs, Scheme::Modern];
const PHASES: [&str; 5] = ["1 directories", "2 copy", "3 stat", "4 read", "5 compile"];
/// Seconds of table 6.
const OF_FFS: [f64; 5] = [2.10, 7.90, 6.30, 9.00, 44.80];
const OF_EFS: [f64; 5] = [2.10, 7.90, 6.70, 9.10, 44.40];

fn jobs(_: &Size) -> Vec<Job> {
    SCHEMES.map(Job::Andrew).to_vec()
}

fn published(scheme: Scheme) -> Option<[f64; 5]> {
    match scheme {
        Scheme::Ffs => Some(OF_FFS),
        Scheme::Efs => Some(OF_EFS),
        Scheme::Lfs => Some(OF_LFS),
        _ => None,
    }
}

fn table_6(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let mut all: Vec<(Scheme, [Mean; 5])> = Vec::new();
    for scheme in SCHEMES {
        all.push((scheme, *runs.andrew(scheme)?));
    }
    let header = ["file system", "phase", "paper s", "ours s", "reads", "writes", "KB"];
    let mut table = Table::new("Seconds, requests and KB written, means of the passes", &header);
    for (scheme, means) in &all {
        for (n, phase) in PHASES.into_iter().enumerate() {
            let Mean { seconds, reads, writes, write_bytes } = means[n];
            let paper = published(*scheme).map_or("-".to_owned(), |all| number(all[n]));
            table.rows.push(vec![
                scheme.name(Host::Hp).to_owned(),
                phase.to_owned(),
                paper,
                number(seconds),
                number(reads),
                number(writes),
                number(write_bytes / 1e3),
            ]);
        }
    }
    let series = all.iter().map(|(scheme, means)| {
        let seconds = means.iter().map(|mean| mean.seconds).collect();
        Series::new(scheme.name(Host::Hp), scheme.style(Host::Hp), seconds)
            .beside(published(*scheme).map_or(Vec::new(), |all| all.map(Some).to_vec()))
    });
    let drawing = bars(
        "004-table6",
        "Table 6: seconds of each phase",
        format!("{}; disk 80% full", Host::Hp.title()),
        "seconds",
        &PHASES,
        series.collect(),
    );
    let [ffs, efs, lfs] = [all[0].1, all[1].1, all[2].1];
    Ok(Figure {
        id: "004/table6",
        title: "The Andrew benchmark, single-user",
        condition: format!(
            "{}; disk of 512 MB, 80% full; 20 directories, 70 files of 200 KB in all, 17 compiled",
            Host::Hp.title()
        ),
        inputs: "the times of the paper's LFS: in each phase our programs work so long that our log takes as long; so only what FFS and EFS take \
                 beyond it, and the requests, are results",
        differences: [
            &["in ten passes the log is not full once, so the cleaner has nothing to do; the paper's LFSC takes the same time within 1%"],
            &parts::differences()[..],
        ]
        .concat(),
        notes: Vec::new(),
        drawings: vec![drawing],
        tables: vec![table],
        claims: if size.is_paper() { claims(&ffs, &efs, &lfs) } else { Vec::new() },
    })
}

const MKDIR: &str = "our FFS makes a directory with three synchronous writes, the paper's with five";
const INODES: &str = "our FFS knows from the bitmap that an inode is free, and has the block of inodes in memory; 4.4BSD reads it at every create";
const DELAYED: &str = "delayed writes of the phases before, half a minute old by then, fall into this one and are counted with it";

fn claims(ffs: &[Mean; 5], efs: &[Mean; 5], lfs: &[Mean; 5]) -> Vec<Claim> {
    let within = |value, share| Expected::Within { value, share };
    let value = |what, expected, ours, unit| Claim::new("004 table 6", what, expected, ours, unit);
    let total = |all: &[Mean; 5]| all.iter().map(|mean| mean.seconds).sum::<f64>();
    vec![
        value("total, LFS over FFS (9% better)", within(0.91, 0.05), total(lfs) / total(ffs), "ratio"),
        value("total, EFS over FFS (comparable)", within(1.0, 0.03), total(efs) / total(ffs), "ratio"),
        value("phase 1, FFS", within(2.10, 0.3), ffs[0].seconds, "s").missed(MKDIR),
        value("phase 1, FFS: writes (100, all synchronous)", within(100.0, 0.3), ffs[0].writes, "requests")
            .missed(MKDIR),
        value(
            "phase 2, LFS over FFS (37% better)",
            within(0.63, 0.15),
            lfs[1].seconds / ffs[1].seconds,
            "ratio",
        ),
        value("phase 2, FFS: requests (263)", within(263.0, 0.3), ffs[1].reads + ffs[1].writes, "requests"),
        value(
            "phase 2, LFS: writes (none: all in the cache)",
            Expected::AtMost(0.0),
            lfs[1].writes,
            "requests",
        ),
        value(
            "phases 3 and 4, FFS over LFS (virtually no difference)",
            within(1.0, 0.05),
            (ffs[2].seconds + ffs[3].seconds) / (lfs[2].seconds + lfs[3].seconds),
            "ratio",
        ),
        value(
            "phase 5, FFS over LFS (3-5% slower)",
            within(1.04, 0.03),
            ffs[4].seconds / lfs[4].seconds,
            "ratio",
        ),
        value("phase 5, FFS: reads (46)", within(46.0, 0.3), ffs[4].reads, "requests").missed(INODES),
        value("phase 5, FFS: writes (48)", within(48.0, 0.3), ffs[4].writes, "requests").missed(DELAYED),
        value("phase 5, LFS: reads (a single one)", Expected::AtMost(1.0), lfs[4].reads, "requests"),
    ]
}
