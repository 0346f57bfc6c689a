//! File System Aging (paper 003), section 4: the baseline, NoSwitch and SmartFrag, aged by the same workload. Figures 5 to 8, tables 2 and 3.

use super::aging::{at, figure, plot, points, ratio, ratios, score, throughput, within, workload_note};
use super::aging_style as style;
use super::figure::{Figure, Table, number};
use super::parts::percent;
use super::runs::{Job, Runs};
use super::size::Size;
use super::unit::Unit;
use crate::error::LabError;
use crate::hardware::claims::{Claim, Expected};
use crate::hardware::lifetime::{Hot, Life, Policy, SIZES_KIB, SMALL_KIB, Speed};
use crate::plot::{Curve, Drawing, Scale, Style};

pub(super) const UNITS: [Unit; 4] = [
    Unit { id: "003/fig5", title: BASELINE, jobs: baseline_jobs, make: baseline },
    Unit { id: "003/fig6", title: NO_SWITCH, jobs: no_switch_jobs, make: no_switch },
    Unit { id: "003/table3", title: HOT, jobs: no_switch_jobs, make: hot },
    Unit { id: "003/fig7", title: SMART_FRAG, jobs: smart_frag_jobs, make: smart_frag },
];

const BASELINE: &str = "The aged baseline";
const NO_SWITCH: &str = "Indirect blocks in the group of the file: NoSwitch (figure 6, table 2)";
const HOT: &str = "Files that changed in the last 30 days";
const SMART_FRAG: &str = "Fragments behind the last block: SmartFrag (figures 7 and 8)";

const FREE: &str = "the free space that the made-up people leave has more single blocks, and fewer fragments, than theirs had";
const GROUPS: &str = "fewer groups of the made-up file system fill up than of theirs";
const HOT_FILES: &str = "the made-up people's files of the last days are larger, and more: 171 MB in 5,061 files instead of 92 in 3,207";

fn baseline_jobs(_: &Size) -> Vec<Job> {
    vec![Job::Life(Policy::Realloc), Job::History]
}

fn no_switch_jobs(_: &Size) -> Vec<Job> {
    vec![Job::Life(Policy::Realloc), Job::Life(Policy::NoSwitch), Job::History]
}

fn smart_frag_jobs(_: &Size) -> Vec<Job> {
    vec![Job::Life(Policy::Realloc), Job::Life(Policy::SmartFrag), Job::History]
}

fn is_large(kib: u64) -> bool {
    SIZES_KIB.contains(&kib)
}

fn is_small(kib: u64) -> bool {
    SMALL_KIB.contains(&kib)
}

fn read(speed: &Speed) -> f64 {
    speed.read
}

fn write(speed: &Speed) -> f64 {
    speed.write
}

fn score_of(speed: &Speed) -> f64 {
    score(speed.score)
}

fn baseline(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (history, base) = (runs.history()?, runs.life(Policy::Realloc)?);
    let drawings = vec![
        throughput(
            ("003-fig5a", "Figure 5A: throughput, aged baseline (synthetic history)"),
            Scale::Log2,
            vec![
                Curve::new("read, baseline", style::BASELINE, points(&base.aged, is_large, read)),
                Curve::new("write, baseline", style::BASELINE_WRITTEN, points(&base.aged, is_large, write)),
            ],
        ),
        plot(
            ("003-fig5b", "Figure 5B: layout of the files of the test (synthetic history)"),
            ("size of the files, KB", "layout score"),
            Scale::Log2,
            vec![Curve::new("baseline", style::BASELINE, points(&base.aged, is_large, score_of))],
        ),
    ];
    let drop = |value: fn(&Speed) -> f64| 1.0 - ratio(at(&base.aged, 104, value), at(&base.aged, 96, value));
    let claims = vec![
        Claim::new("003 4.1", "score at 96 KB", within(0.98, 0.03), at(&base.aged, 96, score_of), "score"),
        Claim::new("003 4.1", "score at 104 KB", within(0.91, 0.03), at(&base.aged, 104, score_of), "score"),
        Claim::new("003 4.1", "reading: loss from 96 to 104 KB", within(0.33, 0.3), drop(read), "share")
            .missed("the model of the disk loses more by a seek and by what is not read ahead"),
        Claim::new("003 4.1", "writing: the same", within(0.25, 0.3), drop(write), "share").missed(
            "a cluster that is not full is written block by block at the sync (at 96 KB), but as one when an indirect block \
             ends it (at 104 KB); theirs had 64 KB clusters, and wrote the file as it grew",
        ),
    ];
    let claims = if size.is_paper() { claims } else { Vec::new() };
    Ok(figure(("003/fig5", BASELINE), vec![workload_note(history)], drawings, Vec::new(), claims))
}

/// A policy that is compared with the baseline: its name, and its styles for reading and writing.
#[derive(Clone, Copy)]
struct Changed {
    name: &'static str,
    styles: [Style; 2],
}

const OF_NO_SWITCH: Changed =
    Changed { name: "NoSwitch", styles: [style::NO_SWITCH, style::NO_SWITCH_WRITTEN] };
const OF_SMART_FRAG: Changed =
    Changed { name: "SmartFrag", styles: [style::SMART_FRAG, style::SMART_FRAG_WRITTEN] };

/// Reading and writing of two policies.
fn compared(
    (file, title): (&'static str, &'static str),
    (changed, x_scale): (Changed, Scale),
    is_shown: fn(u64) -> bool,
    (ours, base): (&[Speed], &[Speed]),
) -> Drawing {
    let curve = |label: String, style, speeds: &[Speed], value: fn(&Speed) -> f64| {
        Curve::new(label, style, points(speeds, is_shown, value))
    };
    let Changed { name, styles } = changed;
    let curves = vec![
        curve(format!("read, {name}"), styles[0], ours, read),
        curve("read, baseline".to_owned(), style::BASELINE, base, read),
        curve(format!("write, {name}"), styles[1], ours, write),
        curve("write, baseline".to_owned(), style::BASELINE_WRITTEN, base, write),
    ];
    throughput((file, title), x_scale, curves)
}

fn no_switch(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (base, ours) = (runs.life(Policy::Realloc)?, runs.life(Policy::NoSwitch)?);
    let drawing = |names, both| compared(names, (OF_NO_SWITCH, Scale::Log2), is_large, both);
    let drawings = vec![
        drawing(("003-fig6a", "Figure 6A: empty file systems"), (&ours.empty, &base.empty)),
        drawing(("003-fig6b", "Figure 6B: aged file systems (synthetic history)"), (&ours.aged, &base.aged)),
    ];
    let claims = if size.is_paper() { no_switch_claims(base, ours) } else { Vec::new() };
    Ok(figure(("003/fig6", NO_SWITCH), Vec::new(), drawings, vec![split_table(base, ours)], claims))
}

/// Split files: the share of all, and of these the shares within one group and within ten.
fn splits(life: &Life) -> (u64, [f64; 3]) {
    let Some(splits) = &life.layout.splits else { return (0, [0.0; 3]) };
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let files = splits.files();
    let of = |groups| share(splits.within(groups), files);
    (files, [share(files, life.layout.files), of(1), of(10)])
}

fn split_table(base: &Life, ours: &Life) -> Table {
    let header = ["", "baseline", "paper", "NoSwitch", "paper"];
    let mut table = Table::new("Table 2: split files", &header);
    let ((files, shares), (our_files, our_shares)) = (splits(base), splits(ours));
    let mut row = |values: [String; 5]| table.rows.push(values.to_vec());
    let name = |text: &str| text.to_owned();
    row([name("split files"), files.to_string(), name("4312"), our_files.to_string(), name("9155")]);
    let rows = [
        ("of all files", "13%", "27%"),
        ("of these, one group apart", "58%", "37%"),
        ("at most ten groups apart", "95%", "67%"),
    ];
    for (n, (what, paper, paper_ours)) in rows.into_iter().enumerate() {
        row([name(what), percent(shares[n]), name(paper), percent(our_shares[n]), name(paper_ours)]);
    }
    table
}

fn no_switch_claims(base: &Life, ours: &Life) -> Vec<Claim> {
    let gain = |ours: &[Speed], base: &[Speed]| ratio(at(ours, 104, read), at(base, 104, read));
    let (empty, aged) = (gain(&ours.empty, &base.empty), gain(&ours.aged, &base.aged));
    let ((files, shares), (our_files, our_shares)) = (splits(base), splits(ours));
    let claim = |what, expected, value, unit| Claim::new("003 fig 6", what, expected, value, unit);
    let split = |what, value, ours| Claim::new("003 table 2", what, Expected::AtLeast(value), ours, "ratio");
    vec![
        claim("files of 104 KB, read: NoSwitch over baseline, empty", within(1.87, 0.15), empty, "ratio"),
        claim("the same, aged", within(1.43, 0.15), aged, "ratio"),
        claim(
            "the gain on aged file systems, over that on empty ones",
            Expected::AtMost(1.0),
            ratio(aged - 1.0, empty - 1.0),
            "ratio",
        ),
        split("split files: NoSwitch over baseline", 2.0, ratio(our_files as f64, files as f64))
            .missed(GROUPS),
        Claim::new("003 table 2", "baseline: share of split files", within(0.13, 0.3), shares[0], "share")
            .missed(GROUPS),
        Claim::new("003 table 2", "NoSwitch: the same", within(0.27, 0.3), our_shares[0], "share")
            .missed(GROUPS),
        split(
            "split files one group apart: baseline over NoSwitch, in shares",
            1.0,
            ratio(shares[1], our_shares[1]),
        ),
        split(
            "split files at most ten groups apart: baseline over NoSwitch, in shares",
            1.0,
            ratio(shares[2], our_shares[2]),
        ),
    ]
}

fn hot(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (history, base, ours) =
        (runs.history()?, &runs.life(Policy::Realloc)?.hot, &runs.life(Policy::NoSwitch)?.hot);
    let mut table = Table::new("Table 3", &["", "baseline", "paper", "NoSwitch", "paper"]);
    let mut row = |what: &str, value: &dyn Fn(&Hot) -> String, paper: [&str; 2]| {
        let [first, second] = paper.map(str::to_owned);
        table.rows.push(vec![what.to_owned(), value(base), first, value(ours), second]);
    };
    row("layout score", &|hot| number(score(hot.score)), ["0.928", "0.931"]);
    row("split files", &|hot| hot.split.to_string(), ["327", "594"]);
    row("read, MB a second", &|hot| number(hot.read), ["0.810", "0.835"]);
    row("write, MB a second", &|hot| number(hot.write), ["0.494", "0.495"]);
    row("files", &|hot| hot.files.to_string(), ["3207", ""]);
    row("of all files", &|hot| percent(hot.shares.0), ["9.5%", ""]);
    row("MB", &|hot| number(hot.bytes as f64 / 1e6), ["92.3", ""]);
    row("of all bytes", &|hot| percent(hot.shares.1), ["14.5%", ""]);
    let claim = |what, expected, value, unit| Claim::new("003 table 3", what, expected, value, unit);
    let claims = vec![
        claim("read: NoSwitch over baseline", within(1.03, 0.03), ratio(ours.read, base.read), "ratio"),
        claim("write: the same", within(1.0, 0.02), ratio(ours.write, base.write), "ratio"),
        claim("baseline: read", within(0.81, 0.15), base.read, "MB/s").missed(HOT_FILES),
        claim("baseline: write", within(0.494, 0.15), base.write, "MB/s"),
        claim("baseline: layout score", within(0.928, 0.03), score(base.score), "score").missed(FREE),
        claim(
            "split files: NoSwitch over baseline",
            within(594.0 / 327.0, 0.3),
            ratio(ours.split as f64, base.split as f64),
            "ratio",
        ),
    ];
    let claims = if size.is_paper() { claims } else { Vec::new() };
    Ok(figure(("003/table3", HOT), vec![workload_note(history)], Vec::new(), vec![table], claims))
}

fn smart_frag(runs: &Runs, size: &Size) -> Result<Figure, LabError> {
    let (base, ours) = (runs.life(Policy::Realloc)?, runs.life(Policy::SmartFrag)?);
    let drawing = |names, both| compared(names, (OF_SMART_FRAG, Scale::Linear), is_small, both);
    let drawings = vec![
        plot(
            ("003-fig7", "Figure 7: layout of small files, aged (synthetic history)"),
            ("size of the files, KB", "layout score"),
            Scale::Linear,
            vec![
                Curve::new("SmartFrag", style::SMART_FRAG, points(&ours.aged, is_scored, score_of)),
                Curve::new("baseline", style::BASELINE, points(&base.aged, is_scored, score_of)),
            ],
        ),
        drawing(("003-fig8a", "Figure 8A: empty file systems"), (&ours.empty, &base.empty)),
        drawing(("003-fig8b", "Figure 8B: aged file systems (synthetic history)"), (&ours.aged, &base.aged)),
    ];
    let share = |life: &Life| life.free.partial_share().unwrap_or(0.0);
    let mut table = Table::new("Free space in fragments", &["", "of free space", "paper"]);
    for (name, life, paper) in [("baseline", base, "2.5%"), ("SmartFrag", ours, "5%")] {
        let percent = format!("{:.1}%", share(life) * 100.0);
        table.rows.push(vec![name.to_owned(), percent, paper.to_owned()]);
    }
    let claims = if size.is_paper() { smart_frag_claims(base, ours) } else { Vec::new() };
    Ok(figure(("003/fig7", SMART_FRAG), Vec::new(), drawings, vec![table], claims))
}

/// Small files of more than one block.
fn is_scored(kib: u64) -> bool {
    is_small(kib) && kib > 8
}

/// Those that end in a fragment: whole blocks, and files with indirect blocks, do not.
fn ends_in_a_fragment(kib: u64) -> bool {
    is_scored(kib) && !kib.is_multiple_of(8) && kib < 96
}

fn chosen(speeds: &[Speed], is_meant: fn(u64) -> bool) -> Vec<Speed> {
    speeds.iter().filter(|speed| is_meant(speed.kib)).copied().collect()
}

fn smart_frag_claims(base: &Life, ours: &Life) -> Vec<Claim> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let scores =
        |life: &Life, is_meant| mean(&chosen(&life.aged, is_meant).iter().map(score_of).collect::<Vec<_>>());
    let whole: fn(u64) -> bool = |kib| is_scored(kib) && kib.is_multiple_of(8) && kib <= 96;
    let gain = |is_meant| mean(&ratios(&chosen(&ours.aged, is_meant), &base.aged, read));
    let share = |life: &Life| life.free.partial_share().unwrap_or(0.0);
    let claim = |place, what, expected, value, unit| Claim::new(place, what, expected, value, unit);
    vec![
        claim(
            "003 4.2",
            "baseline: second blocks behind the first, files of two blocks",
            within(0.36, 0.15),
            score(base.pairs.0),
            "share",
        )
        .missed(FREE),
        claim(
            "003 4.2",
            "the same, if the second block is whole",
            within(0.87, 0.1),
            score(base.pairs.1),
            "share",
        )
        .missed(FREE),
        claim(
            "003 fig 7",
            "SmartFrag: score of files that end in a fragment",
            Expected::AtLeast(0.9),
            scores(ours, ends_in_a_fragment),
            "score",
        ),
        claim(
            "003 fig 7",
            "the same, over the baseline's",
            Expected::AtLeast(1.1),
            ratio(scores(ours, ends_in_a_fragment), scores(base, ends_in_a_fragment)),
            "ratio",
        ),
        claim(
            "003 fig 7",
            "baseline: score of files of whole blocks",
            Expected::AtLeast(0.95),
            scores(base, whole),
            "score",
        ),
        claim(
            "003 fig 8",
            "read, aged, files that end in a fragment: SmartFrag over baseline",
            Expected::AtLeast(1.02),
            gain(ends_in_a_fragment),
            "ratio",
        ),
        claim("003 fig 8", "the same, files of whole blocks", within(1.0, 0.02), gain(whole), "ratio"),
        claim(
            "003 fig 8",
            "baseline, aged: written at the first size with a full cluster, over 4 KB less (theirs at 64 KB, ours at 56)",
            Expected::AtLeast(1.05),
            ratio(at(&base.aged, 56, write), at(&base.aged, 52, write)),
            "ratio",
        ),
        claim(
            "003 4.2",
            "free space in fragments: SmartFrag over baseline",
            within(2.0, 0.3),
            ratio(share(ours), share(base)),
            "ratio",
        ),
        claim("003 4.2", "baseline: free space in fragments", within(0.025, 0.5), share(base), "share")
            .missed(FREE),
    ]
}
