//! Beyond the papers: reading a file again after random writes and idle time, and both file systems on a solid-state disk.

use super::figure::{Figure, Table, number};
use super::parts::{self, bars, series};
use super::runs::{Job, Runs};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::sprite::{large_bars, large_table, small_bars, small_table};
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::plot::Style;

pub(super) const UNITS: [Unit; 2] = [
    Unit {
        id: "beyond/reread",
        title: "Reading in order after random writes and idle time",
        jobs: jobs_reread,
        make: reread,
    },
    Unit { id: "beyond/ssd", title: "LFS and FFS on a solid-state disk", jobs: jobs_ssd, make: ssd },
];

const DISKS: [&str; 3] = ["wren4", "dsp3105", "hp97560"];

fn jobs_reread(_: &Size) -> Vec<Job> {
    DISKS.map(Job::Reread).to_vec()
}

fn reread(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let header = ["disk", "in order", "after random writes", "after 5 min. idle", "share"];
    let mut table = Table::new("MB/s read in order", &header);
    let (mut claims, mut all) = (Vec::new(), [[0.0; 3]; 3]);
    for (n, disk) in DISKS.into_iter().enumerate() {
        let row = runs.reread(disk)?;
        let bytes = if size.is_paper() { 64u64 << 20 } else { 8 << 20 };
        let speed = |ms: f64| bytes as f64 / 1e3 / ms;
        let (first, scattered, coalesced) =
            (speed(row.first.ms), speed(row.scattered.ms), speed(row.coalesced.ms));
        for (series, value) in all.iter_mut().zip([first, scattered, coalesced]) {
            series[n] = value;
        }
        let cells = [first, scattered, coalesced, coalesced / first].map(number);
        table.rows.push(std::iter::once(disk.to_owned()).chain(cells).collect());
        if size.is_paper() {
            let what = format!("{disk}: read in order after coalescing, over the first time");
            claims.push(Claim::new("beyond", &what, Expected::AtLeast(0.9), coalesced / first, "ratio"));
        }
    }
    let labels = [
        "as written in order",
        "after random writes (Sprite 9: it seeks)",
        "after five minutes of idle time",
    ];
    let styles = [4, 8, 9];
    let series = (0..3).map(|n| series(labels[n], Style(styles[n]), all[n])).collect();
    Ok(Figure {
        id: "beyond/reread",
        title: "Reading in order after random writes and idle time",
        condition: "64 MB in pieces of 8 KB, all overwritten in random order; the log with its defaults; computing takes no time".to_owned(),
        inputs: "the goal, 90% of the first time, is ours, not a paper's",
        differences: Vec::new(),
        notes: Vec::new(),
        drawings: vec![bars(
            "beyond-reread",
            "Reading a file in order",
            "after random writes, and after idle time has put its blocks in order",
            "MB/s",
            &DISKS,
            series,
        )],
        tables: vec![table],
        claims,
    })
}

const COPY: &str = "both wait for the processor, and the log copies each byte once more, into the segment";
const SCATTERED: &str =
    "the processor limits both; after random writes the log reads two bytes for each that the program wants";

const ON_SSD: [Scheme; 3] = [Scheme::Lfs, Scheme::Modern, Scheme::M8R0];

fn jobs_ssd(_: &Size) -> Vec<Job> {
    ON_SSD
        .into_iter()
        .flat_map(|scheme| [Job::Small(Host::Ssd, scheme), Job::Large(Host::Ssd, scheme)])
        .collect()
}

fn ssd(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for scheme in ON_SSD {
        small.push((scheme, *runs.small(Host::Ssd, scheme)?));
        large.push((scheme, *runs.large(Host::Ssd, scheme)?));
    }
    let mut claims = Vec::new();
    if size.is_paper() {
        let (log, fast) = (&small[1].1, &small[2].1);
        let ratio = |what, over: f64, under: f64| {
            Claim::new("beyond", what, Expected::AtLeast(1.0), over / under, "ratio")
        };
        claims = vec![
            ratio(
                "small files created, LFS (modern) over FFS",
                log.create.files_per_s,
                fast.create.files_per_s,
            ),
            ratio(
                "small files deleted, LFS (modern) over FFS",
                log.delete.files_per_s,
                fast.delete.files_per_s,
            ),
            ratio("small files read, LFS (modern) over FFS", log.read.files_per_s, fast.read.files_per_s),
        ];
        let (log, fast) = (&large[1].1, &large[2].1);
        claims.push(
            ratio("written in order, LFS (modern) over FFS", log.write.kb_per_s, fast.write.kb_per_s)
                .missed(COPY),
        );
        let random = "written at random, LFS (modern) over FFS";
        claims.push(ratio(random, log.write_random.kb_per_s, fast.write_random.kb_per_s).missed(COPY));
        claims.push(
            ratio("reread in order, LFS (modern) over FFS", log.reread.kb_per_s, fast.reread.kb_per_s)
                .missed(SCATTERED),
        );
    }
    let title = Host::Ssd.title();
    Ok(Figure {
        id: "beyond/ssd",
        title: "LFS and FFS on a solid-state disk",
        condition: format!("{title}; {} files of 1 KB; a file of {} bytes", size.on(Host::Ssd).small_files, size.on(Host::Ssd).large_bytes),
        inputs: "round values for the disk; a flush takes time there",
        differences: parts::differences(),
        notes: vec!["Without seeks the order of blocks hardly matters; what is left are flushes, bytes, and the processor's work.".to_owned()],
        drawings: vec![
            small_bars("beyond-ssd-small", "Small files a second on a solid-state disk", title.to_owned(), &small, Host::Ssd),
            large_bars("beyond-ssd-large", "A large file on a solid-state disk", title.to_owned(), &large, Host::Ssd),
        ],
        tables: vec![small_table(&small, Host::Ssd), large_table(&large, Host::Ssd)],
        claims,
    })
}
