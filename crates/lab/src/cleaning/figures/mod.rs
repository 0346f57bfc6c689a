//! Draws the figures of Sprite LFS (sections 3.4 to 3.6) that came from its cleaning simulator, with this simulator, and
//! compares the results with the paper's claims.
//!
//! `condition` describes a run; `published` has the expected results of each run, `claims` decides whether they hold;
//! `runs` runs them, `report` writes. Caller: `firn sim figures`.

mod claims;
mod condition;
mod published;
mod report;
mod runs;

use crate::cleaning::Histogram;
use crate::error::LabError;
use crate::plot::{self, Corner, Curve, Plot};
use claims::Claim;
use condition::Condition;
use runs::Results;
use std::path::Path;

/// Simulates, draws and writes an SVG file for each figure, and `report.md`. Returns the report's text, and whether exactly
/// those claims fail that are known to.
///
/// # Errors
/// A simulation cannot be set up, or a file cannot be written.
pub fn make(
    directory: &Path,
    threads: usize,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<(String, bool), LabError> {
    // First, so that a missing directory does not waste a minute's work.
    std::fs::create_dir_all(directory).map_err(LabError::io("create", directory))?;
    let results = Results::simulate(plan(), threads, progress)?;
    let plots = plots(&results);
    plot::write_all(directory, &plots)?;
    let judge = |claim: Claim| {
        let outcomes: Vec<_> = claim.conditions.iter().map(|condition| results.of(condition)).collect();
        let verdict = claim.judge(&outcomes);
        (claim, verdict)
    };
    let [paper, independent] = [published::paper(), published::independent()]
        .map(|claims| claims.into_iter().map(judge).collect::<Vec<_>>());
    let text = report::markdown(&plots, &paper, &independent, results.unsteady());
    let path = directory.join("report.md");
    std::fs::write(&path, &text).map_err(LabError::io("write", &path))?;
    let is_as_recorded =
        paper.iter().chain(&independent).all(|(claim, verdict)| claim.is_as_recorded(verdict));
    Ok((text, is_as_recorded))
}

/// How many simulations [`make`] runs.
#[must_use]
pub fn run_count() -> usize {
    plan().len()
}

fn plan() -> Vec<Condition> {
    let mut claims = published::paper();
    claims.extend(published::independent());
    runs::plan(&claims)
}

const UTILISATION: &str = "disk capacity utilisation";
const COST: &str = "write cost";

/// The conditions of the figures that follow the paper's text.
const AS_PAPER: &str =
    "2000 segments of 256 blocks; 4 at a time until 4 are clean; hot-and-cold is 10/90, sorted by age";

fn plots(results: &Results) -> Vec<Plot> {
    let mut plots = cost_plots(results);
    plots.extend(histogram_plots(results));
    plots.sort_by_key(|plot| plot.file);
    let by_batch = |file, title: &'static str, conditions: &'static str, regime| Plot {
        file,
        title: title.into(),
        conditions: conditions.into(),
        x: "segments cleaned at a time",
        y: COST,
        x_max: f64::from(*runs::AT_A_TIME.last().unwrap_or(&1)),
        y_max: 7.0,
        legend: Corner::LowerRight,
        curves: runs::BATCHED.iter().map(|line| results.by_batch(line, regime)).collect(),
    };
    plots.push(by_batch(
        "at-a-time",
        "Write cost by segments cleaned at a time, until as many are clean",
        "2000 segments of 256 blocks, disk 75% full; until as many are clean",
        Condition::until_clean,
    ));
    plots.push(by_batch(
        "at-a-time-single-pass",
        "Write cost by segments cleaned at a time, single pass",
        "2000 segments of 256 blocks, disk 75% full; single pass",
        Condition::single_pass,
    ));
    plots
}

fn cost_plots(results: &Results) -> Vec<Plot> {
    let (uniform, hot) = (Condition::PAPER, Condition::HOT_COLD);
    let plot = |file, title: &'static str, conditions: &'static str, x, mut curves: Vec<Curve>| {
        curves.extend([flat("FFS today", 10.0), flat("FFS improved", 4.0)]);
        let legend = Corner::UpperLeft;
        let (title, conditions) = (title.into(), conditions.into());
        Plot { file, title, conditions, x, y: COST, x_max: 1.0, y_max: 14.0, legend, curves }
    };
    vec![
        plot(
            "figure-3",
            "Figure 3: write cost of a log, by utilisation of the cleaned segments",
            "by definition 2 / (1-u); measured: 2000 segments, uniform writes, greedy, 4 at a time until 4 are clean",
            "fraction alive in segments cleaned",
            vec![no_variance("log-structured"), measured_cost(results, uniform)],
        ),
        plot(
            "figure-4",
            "Figure 4: greedy cleaning",
            AS_PAPER,
            UTILISATION,
            vec![
                no_variance("no variance"),
                results.curve("LFS hot-and-cold", hot),
                results.curve("LFS uniform", uniform),
            ],
        ),
        plot(
            "figure-7",
            "Figure 7: cost-benefit, hot-and-cold",
            AS_PAPER,
            UTILISATION,
            vec![
                no_variance("no variance"),
                results.curve("LFS greedy", hot),
                results.curve("LFS cost-benefit (segment age)", hot.by("cost-benefit")),
                results
                    .curve("LFS cost-benefit (youngest block, as printed)", hot.by("cost-benefit-youngest")),
            ],
        ),
    ]
}

/// Write cost over the utilisation of the cleaned segments.
fn measured_cost(results: &Results, condition: Condition) -> Curve {
    let point = |u: f64| {
        let outcome = results.of(&condition.at(u));
        (outcome.cleaned_utilisation.mean, outcome.write_cost.mean)
    };
    Curve::new("measured", runs::UTILISATIONS.map(point).to_vec())
}

fn histogram_plots(results: &Results) -> Vec<Plot> {
    let (uniform, hot) = (Condition::PAPER, Condition::HOT_COLD);
    let plot = |file, title: &'static str, curves: Vec<Curve>| {
        let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max);
        Plot {
            file,
            title: title.into(),
            conditions: AS_PAPER.into(),
            x: "segment utilisation",
            y: "share of segments",
            x_max: 1.0,
            y_max: highest * 1.05,
            legend: Corner::UpperLeft,
            curves,
        }
    };
    let points =
        |histogram: &Histogram| histogram.bars().iter().map(|bar| (bar.utilisation, bar.share)).collect();
    let at_start =
        |label: &'static str, condition| Curve::new(label, points(&results.of(&condition).at_start));
    let cleaned = |label: &'static str, condition| Curve::new(label, points(&results.of(&condition).victims));
    let forms = |of: &dyn Fn(&'static str, Condition) -> Curve| {
        vec![
            of("cost-benefit (segment age)", hot.by("cost-benefit")),
            of("greedy", hot),
            of("cost-benefit (youngest block, as printed)", hot.by("cost-benefit-youngest")),
        ]
    };
    vec![
        plot(
            "figure-5",
            "Figure 5: segments when cleaning starts, greedy, disk 75% full",
            vec![at_start("hot-and-cold", hot), at_start("uniform", uniform)],
        ),
        plot(
            "figure-6",
            "Figure 6: segments when cleaning starts, hot-and-cold, disk 75% full",
            forms(&at_start),
        ),
        plot(
            "figure-6-cleaned",
            "Beside figure 6: the segments that are cleaned, hot-and-cold, disk 75% full",
            forms(&cleaned),
        ),
    ]
}

/// All segments equally full (section 3.4): 2 / (1 - u).
fn no_variance(label: &'static str) -> Curve {
    let points = (1..=95).map(|percent| f64::from(percent) / 100.0).map(|u| (u, 2.0 / (1.0 - u)));
    Curve::new(label, std::iter::once((0.0, 1.0)).chain(points).collect())
}

fn flat(label: &'static str, cost: f64) -> Curve {
    Curve::new(label, vec![(0.0, cost), (1.0, cost)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_an_svg_that_names_its_curves() {
        let curves = vec![no_variance("no variance"), flat("FFS <today>", 10.0)];
        let plot = Plot {
            file: "f",
            title: "T & t".into(),
            conditions: "4 at a time".into(),
            x: UTILISATION,
            y: COST,
            x_max: 1.0,
            y_max: 14.0,
            legend: Corner::UpperLeft,
            curves,
        };
        let svg = plot::svg(&plot).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["T &amp; t", "4 at a time", "no variance", "FFS &lt;today&gt;", UTILISATION, "polyline"]
        {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(!svg.contains("NaN"));
    }
}
