//! The report in Markdown: claims first, then the figures and their numbers.

use super::claims::{Claim, Verdict};
use super::condition::{self, COLUMNS, Condition};
use super::published;
use crate::micro::table;
use crate::plot::Plot;

/// A claim and its verdict.
pub(super) type Judged = (Claim, Verdict);

pub(super) fn markdown<'a>(
    plots: &[Plot],
    paper: &[Judged],
    independent: &[Judged],
    unsteady: impl Iterator<Item = &'a Condition>,
) -> String {
    let mut text = format!("# Figures of Sprite LFS, by simulation\n\n{HEAD}");
    text += &format!("\n## Published and measured\n\n{}", claims(paper));
    text += &format!("\n## Other simulators of the same model\n\n{INDEPENDENT}\n{}", claims(independent));
    let unsteady: Vec<String> = unsteady.map(|c| condition::words(&[*c], "").join(", ")).collect();
    text += "\n## Runs that were not steady\n\n";
    text += &match unsteady.as_slice() {
        [] => "None.\n".to_owned(),
        runs => runs.iter().map(|run| format!("- {run}\n")).collect(),
    };
    for plot in plots {
        text += &format!("\n## {}\n\n![{}]({}.svg)\n\n", plot.title, plot.title, plot.file);
        text += &format!("{}.\n\n{}", plot.conditions, numbers(plot));
    }
    text
}

fn claims(judged: &[Judged]) -> String {
    let header: Vec<&str> = ["place", "what"]
        .into_iter()
        .chain(COLUMNS)
        .chain(["expected", "measured", "95% interval", "tolerance", "holds"])
        .collect();
    let mut misses: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for (claim, verdict) in judged {
        let note = claim.known_miss.map(|why| {
            misses.iter().position(|known| *known == why).unwrap_or_else(|| {
                misses.push(why);
                misses.len() - 1
            }) + 1
        });
        rows.push(row(claim, verdict, note));
    }
    let mut text = table::markdown(&header, &rows);
    for (n, why) in (1..).zip(misses) {
        text += &format!("\n({n}) Known: {why}.\n");
    }
    text
}

fn row(claim: &Claim, verdict: &Verdict, note: Option<usize>) -> Vec<String> {
    let (expected, tolerance) = published::words(claim.expected);
    let between = if claim.conditions.len() == 2 { " over " } else { ", " };
    let mut cells = vec![claim.place.to_owned(), claim.what.to_owned()];
    cells.extend(condition::words(&claim.conditions, between));
    cells.extend([
        expected,
        format!("{:.3}", verdict.measured.mean),
        format!("± {:.3}", verdict.measured.half_width),
        tolerance,
        holds(verdict, note),
    ]);
    cells
}

fn holds(verdict: &Verdict, note: Option<usize>) -> String {
    match (verdict.holds, verdict.is_steady, note) {
        (true, _, None) => "yes".to_owned(),
        (true, _, Some(note)) => format!("YES, but ({note})"),
        (false, false, _) => "NO: not steady".to_owned(),
        (false, true, Some(note)) => format!("no ({note})"),
        (false, true, None) => "NO".to_owned(),
    }
}

const HEAD: &str = "\
Write cost is what is read and written for each new block (section 3.4); segments that become empty by themselves are reused
without being read. Segments have 256 blocks, and there is one log. 10/90: 10% of the files get 90% of the writes.

The paper does not say how large its disk was, how many segments it cleaned at a time, and what the threshold was at which it
stopped; all three change costs. So every row says under which conditions it was measured. *Until n are clean*: the disk is
written until no segment is clean, then batch after batch is cleaned until n whole segments are. One at a time is then some
1/(1-u) victims in a row, which sorts. *Single pass*: one batch is cleaned, and survivors share segments with new blocks.
*Segment age* is (1-u) * age / u, age since the segment was written; *youngest block* is (1-u) * age / (1+u), as section 3.5
prints it. Values are means of a steady state. A row holds if its runs were steady and the whole interval is within the
tolerance. A row in capitals is not as it was when this was written.
";

const INDEPENDENT: &str = "\
Costs that two simulators, written from the same description by others, give for the same conditions. At 95% they do not say theirs:
the rows have those under which the thesis's values come out.
";

/// The values of all curves that share their abscissas; of histograms only the visible part.
fn numbers(plot: &Plot) -> String {
    let few: Vec<_> = plot.curves.iter().filter(|curve| (3..20).contains(&curve.points.len())).collect();
    let Some(first) = few.first() else { return String::new() };
    let header: Vec<&str> =
        std::iter::once(plot.x).chain(few.iter().map(|curve| curve.label.as_ref())).collect();
    let row = |i: usize| {
        let values = few.iter().map(|curve| format!("{:.2}", curve.points[i].1));
        std::iter::once(format!("{}", first.points[i].0)).chain(values).collect()
    };
    let rows: Vec<Vec<String>> = (0..first.points.len()).map(row).collect();
    table::markdown(&header, &rows)
}
