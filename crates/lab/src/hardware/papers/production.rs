//! Sprite LFS (paper 001), section 5.2: tables 2 and 4 and figure 10, from file systems under made-up users
//! ([`crate::hardware::production`]).

use super::figure::{Figure, Table, number};
use super::parts::percent;
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::hardware::production::{BINS, LOADS, Load, Used};
use crate::plot::{Bars, Curve, Drawing, Plot, Scale, Series, Style};
use firnfs::lfs::LogKind;

pub(super) const CLEANING: [Unit; 2] = [
    Unit { id: "001/table2", title: CLEANING_TITLE, jobs: all_jobs, make: table_2 },
    Unit { id: "001/fig10", title: SEGMENTS_TITLE, jobs: user6_job, make: figure_10 },
];
pub(super) const OVERHEADS: [Unit; 1] =
    [Unit { id: "001/table4", title: KINDS_TITLE, jobs: user6_job, make: table_4 }];

const CLEANING_TITLE: &str = "Cleaning of five file systems in use (synthetic)";
const SEGMENTS_TITLE: &str = "How full the segments of /user6 are (synthetic)";
const KINDS_TITLE: &str = "Live data and log of /user6 by kind of block (synthetic)";
const USER6: usize = 0;
const TMP: usize = 3;
const SWAP2: usize = 4;

const INPUTS: &str = "of table 2: size of the disk, mean size of a file, MB written in an hour, share of the disk in use. Made up after the \
                      paper's words: files are written and deleted as wholes, those of a project together; people return to few of the old \
                      projects; most files of /tmp live for minutes, the rest for days; processes overwrite pages of sparse swap files at random";
const DIFFERENCES: [&str; 7] = [
    "the users are synthetic: how long projects and files live, how many files a session writes, and 15 s from one file to the next are assumed, \
     were chosen before the first run and not fitted to its results",
    "segments of 512 KB everywhere; the paper's file systems had 512 KB or 1 MB",
    "the log is written three times over the disk, after two times that do not count; the paper counted four months",
    "the log is firnfs's own: metadata has a log of its own",
    "firnfs decides when cleaning begins and ends: at its low and high marks of some twenty clean segments; Sprite at tens",
    "pointers take 16 bytes, inode records 512 bytes beside their files' blocks; summaries are never live",
    "there is no directory operation log: operations on names are atomic in the log",
];

const HOME: &str = "not found out. Looked at, share of empty ones in /user6: without sources that are saved one at a time 29%, on a quarter of the disk \
                    26%; a longer tail of file sizes (deviation 2.0 instead of 1.6) 29% of a quarter of the disk";
const COST: &str =
    "follows from the share of empty segments and the utilisation of the others in the same row";
const OVERWRITTEN: &str = "in our /swap2 old processes overwrite single pages, and nearly every segment keeps some; if no page is overwritten, 13% are \
                           empty. How much of the paper's traffic overwrote pages is not known";
const OTHERS: &str = "the others' segments are fuller than the paper's, and those of /swap2 emptier";
const FEW_EMPTY: &str = "not found out why a fifth of the segments settles between 0.8 and 0.9; with the age of the segment in cost-benefit, on a quarter of \
                         the disk, it was a fifth too, and fewer were nearly empty";
const INODES: &str = "inodes take 512 bytes each here, 2% of the live data; without them it is 99.8%";
const CHECKPOINTS: &str = "each checkpoint writes changed blocks of both tables, and each partial segment has a summary: see the note for the bytes. On \
                           a quarter of the disk content was 72% of the log and the usage table 8%: fewer blocks of the tables change at a time";

/// Of table 2: segments cleaned, empty ones in percent, mean utilisation of the others, write cost.
const PUBLISHED: [(f64, f64, f64, f64); 5] = [
    (10732.0, 0.69, 0.133, 1.4),
    (22689.0, 0.52, 0.137, 1.6),
    (16975.0, 0.83, 0.122, 1.2),
    (2871.0, 0.78, 0.130, 1.3),
    (4701.0, 0.66, 0.535, 1.6),
];

fn all_jobs(_: &Size) -> Vec<Job> {
    (0..LOADS.len()).map(Job::Production).collect()
}

fn user6_job(_: &Size) -> Vec<Job> {
    vec![Job::Production(USER6)]
}

fn figure(id: &'static str, title: &'static str, condition: String) -> Figure {
    Figure {
        id,
        title,
        condition,
        inputs: INPUTS,
        differences: DIFFERENCES.to_vec(),
        notes: Vec::new(),
        drawings: Vec::new(),
        tables: Vec::new(),
        claims: Vec::new(),
    }
}

const RULES: &str = "real log with Sprite's rules: cost-benefit by the youngest block, age sort, commit and checkpoint every 30 s";

fn condition(used: &Used) -> String {
    format!(
        "synthetic users of /user6, seed 1, {:.0} hours on {} segments of {} KB; {RULES}",
        used.hours,
        used.disk_bytes / used.segment_bytes.max(1),
        used.segment_bytes >> 10
    )
}

const MIB: f64 = 1024.0 * 1024.0;

fn table_2(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let all = (0..LOADS.len()).map(|n| runs.production(n)).collect::<Result<Vec<_>, LabError>>()?;
    let mut figure =
        figure("001/table2", CLEANING_TITLE, format!("synthetic users, seed 1; {RULES}; DSP 3501"));
    figure.tables = vec![cleaning_table(&all), loads_table(&all), beside_table(&all)];
    figure.drawings = vec![cost_bars(&all), share_bars(&all)];
    figure.notes = vec![
        "Write cost is the paper's formula, from the empty ones and the utilisation of the others. Bytes a new byte: all that was written \
         to the log and read by the cleaner, for each byte that was not moved. Empty, no metadata: the least that the share can be if \
         segments of metadata are left out."
            .to_owned(),
    ];
    if size.is_paper() {
        figure.claims = cleaning_claims(&all);
    }
    Ok(figure)
}

fn loads_table(all: &[&Used]) -> Table {
    let header =
        ["file system", "disk MB", "ours", "mean file KB", "ours", "MB an hour", "ours", "in use", "ours"];
    let mut table = Table::new("The load: the paper's values are inputs", &header);
    for (load, used) in LOADS.iter().zip(all) {
        let mb_per_hour = used.user_bytes as f64 / MIB / used.hours.max(1e-9);
        let values = [
            number(load.disk_mb as f64),
            number(used.disk_bytes as f64 / MIB),
            number(load.file_kb),
            number(used.file_bytes / 1024.0),
            number(load.mb_per_hour),
            number(mb_per_hour),
            percent(load.in_use),
            percent(used.in_use),
        ];
        table.rows.push(std::iter::once(load.name.to_owned()).chain(values).collect());
    }
    table
}

fn cleaning_table(all: &[&Used]) -> Table {
    let header = ["file system", "value", "paper", "ours", "deviation"];
    let mut table = Table::new("Segments cleaned, and what it cost", &header);
    for ((load, used), published) in LOADS.iter().zip(all).zip(PUBLISHED) {
        let rows = [
            ("empty, percent", published.1 * 100.0, used.empty_share() * 100.0),
            ("utilisation of the others", published.2, used.utilisation()),
            ("write cost", published.3, used.write_cost()),
        ];
        for (what, paper, ours) in rows {
            let deviation = format!("{:+.0}%", (ours / paper - 1.0) * 100.0);
            let cells = [load.name.to_owned(), what.to_owned(), number(paper), number(ours), deviation];
            table.rows.push(cells.to_vec());
        }
    }
    table
}

fn beside_table(all: &[&Used]) -> Table {
    let header = [
        "file system",
        "cleaned: paper",
        "ours",
        "hours",
        "bytes a new byte",
        "empty, no metadata",
        "disk busy",
    ];
    let mut table = Table::new("Beside it (the paper counted four months, some 2900 hours)", &header);
    for ((load, used), published) in LOADS.iter().zip(all).zip(PUBLISHED) {
        table.rows.push(vec![
            load.name.to_owned(),
            number(published.0),
            number(used.cleaned()),
            number(used.hours),
            number(used.bytes_a_new_byte()),
            percent(used.empty_without_metadata()),
            format!("{:.1}%", used.disk_busy * 100.0),
        ]);
    }
    table
}

fn bars(file: &'static str, title: &'static str, y: &'static str, series: Vec<Series>) -> Drawing {
    Drawing::Bars(Bars {
        file: file.into(),
        title: title.into(),
        conditions: "synthetic users; a grey line is the paper's value".into(),
        y,
        groups: LOADS.iter().map(|load| load.name.to_owned()).collect(),
        series,
    })
}

fn cost_bars(all: &[&Used]) -> Drawing {
    let cost = Series::new("write cost", Style(4), all.iter().map(|used| used.write_cost()).collect())
        .beside(PUBLISHED.iter().map(|published| Some(published.3)).collect());
    bars("001-table2-cost", "Table 2: write cost (synthetic)", "write cost", vec![cost])
}

fn share_bars(all: &[&Used]) -> Drawing {
    let empty = all.iter().map(|used| used.empty_share()).collect();
    let empty = Series::new("cleaned segments that were empty", Style(2), empty)
        .beside(PUBLISHED.iter().map(|published| Some(published.1)).collect());
    let others = all.iter().map(|used| used.utilisation()).collect();
    let others = Series::new("mean utilisation of the others", Style(3), others)
        .beside(PUBLISHED.iter().map(|published| Some(published.2)).collect());
    bars("001-table2-segments", "Table 2: segments cleaned (synthetic)", "share", vec![empty, others])
}

fn cleaning_claims(all: &[&Used]) -> Vec<Claim> {
    let place = "001 table 2";
    let mut claims = Vec::new();
    for (n, ((load, used), published)) in LOADS.iter().zip(all).zip(PUBLISHED).enumerate() {
        let Load { name, in_use, .. } = load;
        let what =
            format!("{name}: cleaned segments that were empty (more than half; {})", percent(published.1));
        let empty = Claim::new(place, &what, Expected::AtLeast(0.5), used.empty_share(), "share");
        claims.push(match n {
            SWAP2 => empty.missed(OVERWRITTEN),
            0 | 1 => empty.missed(HOME),
            _ => empty,
        });
        let what = format!("{name}: write cost");
        let expected = Expected::Within { value: published.3, share: 0.15 };
        let cost = Claim::new(place, &what, expected, used.write_cost(), "ratio");
        claims.push(if n == TMP { cost } else { cost.missed(COST) });
        if n != TMP {
            let what = format!("{name}: utilisation of the others over that of the disk (far less)");
            let most = if n == SWAP2 { 0.9 } else { 0.5 };
            let ours = used.utilisation() / in_use;
            claims.push(Claim::new(place, &what, Expected::AtMost(most), ours, "ratio"));
        }
    }
    let most = all[..SWAP2].iter().map(|used| used.utilisation()).fold(0.0, f64::max);
    let what =
        "/swap2: utilisation of the segments that were not empty, over the highest of the others (3.9)";
    let ours = all[SWAP2].utilisation() / most.max(1e-9);
    claims.push(Claim::new(place, what, Expected::AtLeast(2.0), ours, "ratio").missed(OTHERS));
    claims
}

/// Parts of the distribution in a point of the figure.
const BINS_OF_A_POINT: usize = 2;

/// The distribution as the figure shows it. The abscissa of a point is its middle.
fn points(shares: &[f64]) -> Vec<(f64, f64)> {
    let width = BINS_OF_A_POINT as f64 / BINS as f64;
    let sums = shares.chunks(BINS_OF_A_POINT).map(|part| part.iter().sum());
    sums.enumerate().map(|(n, share)| ((n as f64 + 0.5) * width, share)).collect()
}

fn figure_10(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let used = runs.production(USER6)?;
    let mut figure = figure("001/fig10", SEGMENTS_TITLE, condition(used));
    let curves = vec![
        Curve::new("mean of 16 looks", Style(2), points(&used.segments)),
        Curve::new("at the end", Style(3), points(&used.segments_at_end)),
    ];
    let y_max = super::parts::highest(&curves) * 1.1;
    figure.drawings = vec![Drawing::Curves(Plot {
        file: "001-fig10".into(),
        title: "Figure 10: segments of /user6 by their utilisation (synthetic)".into(),
        conditions: condition(used).into(),
        x: "utilisation of the segment (each point: a 32nd)",
        y: "share of the segments",
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        x_max: 1.0,
        y_max,
        curves,
    })];
    let tenths = tenths(&used.segments);
    let mut table = Table::new("Segments by tenths of utilisation", &["utilisation", "mean", "at the end"]);
    let at_end = self::tenths(&used.segments_at_end);
    for (n, (mean, end)) in tenths.iter().zip(&at_end).enumerate() {
        let range = format!("{:.1} to {:.1}", n as f64 / 10.0, (n + 1) as f64 / 10.0);
        table.rows.push(vec![range, percent(*mean), percent(*end)]);
    }
    figure.tables = vec![table];
    figure.notes = vec![
        "The paper's curve is lost in our copy; its text says that \"large numbers\" of segments are full, and of segments are empty. Clean \
         segments count as empty."
            .to_owned(),
    ];
    if size.is_paper() {
        figure.claims = bimodal_claims(&tenths);
    }
    Ok(figure)
}

/// The distribution by tenths; a part belongs to the tenth of its middle.
fn tenths(shares: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; 10];
    for (bin, share) in shares.iter().enumerate() {
        sums[(2 * bin + 1) * 10 / (2 * BINS)] += share;
    }
    sums
}

fn bimodal_claims(tenths: &[f64]) -> Vec<Claim> {
    let (lowest, highest) = (tenths[0], tenths[tenths.len() - 1]);
    let between = tenths[1..tenths.len() - 1].iter().copied().fold(0.0, f64::max).max(1e-9);
    let claim = |what, expected, ours, unit| Claim::new("001 fig 10", what, expected, ours, unit);
    let least = Expected::AtLeast(1.0);
    vec![
        claim(
            "segments less than a tenth full, over the most in a tenth between",
            least,
            lowest / between,
            "ratio",
        )
        .missed(FEW_EMPTY),
        claim("segments more than nine tenths full, over the same", least, highest / between, "ratio"),
        claim(
            "segments in the lowest and the highest tenth (most)",
            Expected::AtLeast(0.5),
            lowest + highest,
            "share",
        ),
    ]
}

/// A kind of block in table 4: its name, live and log in percent in the paper, and in ours.
struct Kind {
    name: &'static str,
    published: (f64, f64),
    ours: (f64, f64),
}

fn kinds(used: &Used) -> Vec<Kind> {
    let (live, log) = (&used.live, &used.log);
    let of = |kinds: &[LogKind]| kinds.iter().map(|kind| live.of(*kind)).sum::<u64>() as f64;
    let rows = [
        (
            "data blocks, directories too",
            (98.0, 85.2),
            of(&[LogKind::File, LogKind::Directory, LogKind::Attributes]),
            log.log_file_bytes + log.log_directory_bytes + log.log_attributes_bytes,
        ),
        ("indirect blocks", (1.0, 1.6), of(&[LogKind::Indirect]), log.log_indirect_bytes),
        ("inodes", (0.2, 2.7), of(&[LogKind::Inode]), log.log_inode_bytes),
        ("inode map", (0.2, 7.8), of(&[LogKind::InodeMap]), log.log_inode_map_bytes),
        ("segment usage table", (0.0, 2.1), of(&[LogKind::UsageTable]), log.log_usage_table_bytes),
        ("summaries", (0.6, 0.5), 0.0, log.log_summary_bytes),
    ];
    let all_live = (live.sum() as f64).max(1.0);
    let all_log = (rows.iter().map(|row| row.3 as f64).sum::<f64>()).max(1.0);
    let share = |(name, published, live, log): (&'static str, (f64, f64), f64, u64)| Kind {
        name,
        published,
        ours: (live / all_live, log as f64 / all_log),
    };
    rows.into_iter().map(share).collect()
}

fn table_4(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let used = runs.production(USER6)?;
    let kinds = kinds(used);
    let mut figure = figure("001/table4", KINDS_TITLE, condition(used));
    let header = ["kind", "live: paper", "ours", "log: paper", "ours"];
    let mut table = Table::new("Percent of the live data, and of what was written to the log", &header);
    for kind in &kinds {
        let values = [kind.published.0, kind.ours.0 * 100.0, kind.published.1, kind.ours.1 * 100.0];
        let cells = values.map(|value| format!("{value:.1}"));
        table.rows.push(std::iter::once(kind.name.to_owned()).chain(cells).collect());
    }
    let none = ["directory operation log", "0.0", "none", "0.1", "none"];
    table.rows.push(none.map(str::to_owned).to_vec());
    figure.tables = vec![table];
    let series = |label: &'static str, style, of: fn(&Kind) -> (f64, f64)| {
        Series::new(label, Style(style), kinds.iter().map(|kind| of(kind).1).collect())
            .beside(kinds.iter().map(|kind| Some(of(kind).0)).collect())
    };
    figure.drawings = vec![Drawing::Bars(Bars {
        file: "001-table4".into(),
        title: "Table 4: live data and log of /user6 by kind of block (synthetic)".into(),
        conditions: "synthetic users; a grey line is the paper's value".into(),
        y: "percent",
        groups: ["data", "indirect", "inodes", "inode map", "usage table", "summaries"]
            .map(str::to_owned)
            .to_vec(),
        series: vec![
            series("of the live data", 2, |kind| (kind.published.0, kind.ours.0 * 100.0)),
            series("of the log", 3, |kind| (kind.published.1, kind.ours.1 * 100.0)),
        ],
    })];
    figure.notes = vec![
        "How much metadata is written depends on how many of the 30 s intervals have changes, and so on the assumed 15 s from one file of a \
         session to the next."
            .to_owned(),
        checkpoint_note(used),
    ];
    if size.is_paper() {
        figure.claims = kind_claims(&kinds);
    }
    Ok(figure)
}

fn checkpoint_note(used: &Used) -> String {
    let log = &used.log;
    let kb = |bytes: u64| number(bytes as f64 / 1024.0 / log.checkpoints.max(1) as f64);
    format!(
        "There were {} checkpoints. For each of them users wrote {} KB, and the log {} KB of inode map, {} KB of usage table and {} KB of summaries \
         and padding.",
        log.checkpoints,
        kb(used.user_bytes),
        kb(log.log_inode_map_bytes),
        kb(log.log_usage_table_bytes),
        kb(log.log_summary_bytes)
    )
}

fn kind_claims(kinds: &[Kind]) -> Vec<Claim> {
    let claim = |what, expected, ours| Claim::new("001 table 4", what, expected, ours, "share");
    let within = |value, share| Expected::Within { value, share };
    let [data, indirect, inodes, map, usage] = [0, 1, 2, 3, 4].map(|n| kinds[n].ours);
    vec![
        claim("live data that is content of files and directories (98.0%)", Expected::AtLeast(0.95), data.0),
        claim("that, and indirect blocks (more than 99%)", Expected::AtLeast(0.99), data.0 + indirect.0)
            .missed(INODES),
        claim("log: content of files and directories", within(0.852, 0.05), data.1).missed(CHECKPOINTS),
        claim(
            "log: inodes, inode map and segment usage table (about 13%)",
            within(0.126, 0.3),
            inodes.1 + map.1 + usage.1,
        )
        .missed(CHECKPOINTS),
        claim("log: inode map (more than 7%)", Expected::AtLeast(0.07), map.1),
    ]
}
