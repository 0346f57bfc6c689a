//! The report in Markdown: claims first, then the figures and their numbers.

use super::Plot;
use super::claims::Claim;
use crate::micro::table;

pub(super) fn markdown(plots: &[Plot], claims: &[Claim]) -> String {
    let mut text =
        format!("# Figures of Sprite LFS, by simulation\n\n{CONDITIONS}\n## Published and ours\n\n");
    let header = ["place", "what", "published", "ours", "deviation", "holds"];
    let rows: Vec<Vec<String>> = claims
        .iter()
        .map(|claim| {
            vec![
                claim.place.to_owned(),
                claim.what.to_owned(),
                claim.published.clone(),
                claim.ours.clone(),
                claim.deviation.map_or("-".to_owned(), |d| format!("{:+.1}%", d * 100.0)),
                if claim.place.starts_with('(') {
                    "-"
                } else if claim.holds {
                    "yes"
                } else {
                    "NO"
                }
                .to_owned(),
            ]
        })
        .collect();
    text += &table::markdown(&header, &rows);
    for plot in plots {
        text += &format!("\n## {}\n\n![{}]({}.svg)\n\n{}", plot.title, plot.title, plot.file, numbers(plot));
    }
    text
}

const CONDITIONS: &str = "\
Write cost is what is read and written for each new block (section 3.4); empty segments are reused without being read. 2000
segments of 256 blocks; the disk is written until no segment is clean, then 4 are cleaned at a time; histograms are taken
when cleaning starts. Hot-and-cold: 10% of the files get 90% of the writes. Means of a steady state, known to 1%. A value holds
within 2% (utilisations of 3.5: 0.02), those of the thesis within 10%; where hot segments lie in figure 6 is read off a drawing, and
ours is somewhat higher, since hot segments are taken for their age as much as for being empty.

The paper does not say how large its disk was and how many segments it cleaned at a time; the last figure shows what that
does. Sorted by age, a large batch separates hot from cold by itself, so greedy cleaning loses less and, from some point
on, gains by locality. The published costs at 95% belong to large batches: here 27 of 1000 segments of 128 blocks. They
are those of the *segment's* age and a benefit of (1-u) * age / u; the formula of the text, with the age of the youngest
block, stands below them for comparison.
";

/// The values of all curves that share their abscissas; of histograms only what is in the picture.
fn numbers(plot: &Plot) -> String {
    let few: Vec<_> = plot.curves.iter().filter(|curve| (3..20).contains(&curve.points.len())).collect();
    let Some(first) = few.first() else { return String::new() };
    let header: Vec<&str> = std::iter::once(plot.x).chain(few.iter().map(|curve| curve.label)).collect();
    let row = |i: usize| {
        let values = few.iter().map(|curve| format!("{:.2}", curve.points[i].1));
        std::iter::once(format!("{}", first.points[i].0)).chain(values).collect()
    };
    let rows: Vec<Vec<String>> = (0..first.points.len()).map(row).collect();
    table::markdown(&header, &rows)
}
