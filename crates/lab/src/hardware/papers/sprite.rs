//! Sprite LFS (paper 001), section 5: small files and a large file, against SunOS.

use super::figure::{Figure, Table, number};
use super::parts::{self, bars, series};
use super::runs::{Job, Runs};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::hardware::small_files::{Rate, Rates};
use crate::hardware::{large_file, small_files};
use crate::plot::{Curve, Drawing, Plot, Scale};

/// The figures of this file.
pub(super) const UNITS: [Unit; 2] = [
    Unit {
        id: "001/fig8",
        title: "Small files: create, read, delete, and a faster processor",
        jobs: jobs_8,
        make: figure_8,
    },
    Unit { id: "001/fig9", title: "A large file, in order and at random", jobs: jobs_9, make: figure_9 },
];

const SCHEMES: [Scheme; 3] = [Scheme::Lfs, Scheme::Modern, Scheme::Ffs];
const FASTER: [u32; 2] = [2, 4];
const INPUTS: &str = "gap of one block between SunOS's blocks (deduced in 000 section 2); processes of their own write the log; path of a block \
                      (000 section 4); 10,000 files of 1 KB, 100 in a directory; a file of 100 MB in units of 8 KB";

fn jobs_8(_: &Size) -> Vec<Job> {
    let small = SCHEMES.map(|scheme| Job::Small(Host::Sprite, scheme));
    let faster =
        SCHEMES.into_iter().flat_map(|scheme| FASTER.map(|times| Job::Faster(Host::Sprite, scheme, times)));
    small.into_iter().chain(faster).collect()
}

fn figure_8(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let rates = |scheme| runs.small(Host::Sprite, scheme).copied();
    let faster = |scheme| -> Result<Vec<(f64, f64)>, LabError> {
        let mut points = vec![(1.0, rates(scheme)?.create.files_per_s)];
        for times in FASTER {
            points.push((f64::from(times), runs.rate(Job::Faster(Host::Sprite, scheme, times))?));
        }
        Ok(points)
    };
    let mut claims = parts::rows(runs, size, |row| row.claim.place == "001 fig 8");
    if size.is_paper() {
        let figure = small_files::Figure { rates: rates(Scheme::Lfs)?, faster: faster(Scheme::Lfs)? };
        let own = small_files::claims(&figure).into_iter();
        claims.extend(own.map(|claim| Claim { place: "001 fig 8", ..claim }));
    }
    let mut curves = Vec::new();
    for scheme in SCHEMES {
        curves.push(Curve::new(scheme.name(Host::Sprite), scheme.style(Host::Sprite), faster(scheme)?));
    }
    let condition = format!("{}; {} files of 1 KB", Host::Sprite.title(), size.scale.small_files);
    let part_b = Drawing::Curves(Plot {
        file: "001-fig8b".into(),
        title: "Figure 8(b): files created a second on faster processors".into(),
        conditions: condition.clone().into(),
        x: "processor, times as fast as the Sun-4/260",
        y: "files a second",
        x_scale: Scale::Log2,
        y_scale: Scale::Linear,
        x_max: 4.0,
        y_max: parts::highest(&curves) * 1.1,
        curves,
    });
    let measured = SCHEMES.map(|scheme| rates(scheme).map(|rates| (scheme, rates)));
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Figure {
        id: "001/fig8",
        title: "Small files: create, read, delete, and a faster processor",
        condition: condition.clone(),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: vec![
            "The heights of the paper's bars are lost in the copy at hand; the ratios come from its text."
                .to_owned(),
        ],
        drawings: vec![
            small_bars("001-fig8a", "Figure 8(a): small files a second", condition, &measured, Host::Sprite),
            part_b,
        ],
        tables: vec![small_table(&measured, Host::Sprite)],
        claims,
    })
}

/// Bars of create, read and delete for each file system.
pub(super) fn small_bars(
    file: &'static str,
    title: &'static str,
    conditions: String,
    measured: &[(Scheme, Rates)],
    host: Host,
) -> Drawing {
    let of = |(scheme, rates): &(Scheme, Rates)| {
        series(
            scheme.name(host),
            scheme.style(host),
            [rates.create, rates.read, rates.delete].map(|rate| rate.files_per_s),
        )
    };
    bars(
        file,
        title,
        conditions,
        "files a second",
        &["create", "read", "delete"],
        measured.iter().map(of).collect(),
    )
}

/// Rates and shares of create, read and delete.
pub(super) fn small_table(measured: &[(Scheme, Rates)], host: Host) -> Table {
    let mut table = Table::new(
        "Rates and shares",
        &["file system", "phase", "files/s", "CPU", "disk", "read each", "written"],
    );
    for (scheme, rates) in measured {
        for (phase, rate) in [("create", rates.create), ("read", rates.read), ("delete", rates.delete)] {
            let Rate { files_per_s, cpu_share, disk_share, read_bytes_per_file, written_bytes_per_file } =
                rate;
            table.rows.push(vec![
                scheme.name(host).to_owned(),
                phase.to_owned(),
                number(files_per_s),
                parts::percent(cpu_share),
                parts::percent(disk_share),
                format!("{read_bytes_per_file:.0} B"),
                format!("{written_bytes_per_file:.0} B"),
            ]);
        }
    }
    table
}

fn jobs_9(_: &Size) -> Vec<Job> {
    SCHEMES.map(|scheme| Job::Large(Host::Sprite, scheme)).to_vec()
}

const PHASES: [&str; 5] = ["write", "read", "write at random", "read at random", "reread"];

/// The five phases in KB/s.
pub(super) fn speeds(figure: &large_file::Figure) -> [f64; 5] {
    let large_file::Figure { write, read, write_random, read_random, reread, .. } = figure;
    [write, read, write_random, read_random, reread].map(|speed| speed.kb_per_s)
}

/// Bars of the five phases for each file system.
pub(super) fn large_bars(
    file: &'static str,
    title: &'static str,
    conditions: String,
    measured: &[(Scheme, large_file::Figure)],
    host: Host,
) -> Drawing {
    let of = |(scheme, figure): &(Scheme, large_file::Figure)| {
        series(scheme.name(host), scheme.style(host), speeds(figure))
    };
    let groups = ["write", "read", "random write", "random read", "reread"];
    bars(file, title, conditions, "KB/s", &groups, measured.iter().map(of).collect())
}

/// The phases with the shares of processor and disk.
pub(super) fn large_table(measured: &[(Scheme, large_file::Figure)], host: Host) -> Table {
    let mut table =
        Table::new("Bandwidth and shares", &["file system", "phase", "KB/s", "CPU", "disk", "moved"]);
    for (scheme, figure) in measured {
        let large_file::Figure { write, read, write_random, read_random, reread, .. } = *figure;
        for (phase, speed) in PHASES.into_iter().zip([write, read, write_random, read_random, reread]) {
            table.rows.push(vec![
                scheme.name(host).to_owned(),
                phase.to_owned(),
                number(speed.kb_per_s),
                parts::percent(speed.cpu_share),
                parts::percent(speed.disk_share),
                number(speed.moved),
            ]);
        }
    }
    table
}

fn figure_9(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let of = |scheme| Ok((scheme, *runs.large(Host::Sprite, scheme)?));
    let measured = SCHEMES.into_iter().map(of).collect::<Result<Vec<_>, LabError>>()?;
    let mut claims = parts::rows(runs, size, |row| row.claim.place == "001 fig 9");
    let log = measured[0].1;
    if size.is_paper() {
        let own = large_file::claims(&log).into_iter();
        claims.extend(own.map(|claim| Claim { place: "001 fig 9", ..claim }));
    }
    let cleaned = log.segments_cleaned as f64;
    let none = "segments cleaned while the file was written at random (none)";
    let condition = format!("{}; {} bytes in units of 8 KB", Host::Sprite.title(), size.scale.large_bytes);
    claims.push(Claim::new("001 fig 9", none, Expected::AtMost(0.0), cleaned, "segments"));
    Ok(Figure {
        id: "001/fig9",
        title: "A large file, in order and at random",
        condition: condition.clone(),
        inputs: INPUTS,
        differences: parts::differences(),
        notes: vec![
            "The random passes also move the whole file's size, as in this paper; paper 000 says 100 KB, a slip.".to_owned(),
        ],
        drawings: vec![large_bars("001-fig9", "Figure 9: a large file", condition, &measured, Host::Sprite)],
        tables: vec![large_table(&measured, Host::Sprite)],
        claims,
    })
}
