//! The figures of Sprite LFS (sections 3.4 to 3.6) that its cleaning simulator made, from this one; and what the paper says
//! of them beside what comes out.
//!
//! `runs` says which simulations, `claims` what was published, `plot` draws, `report` writes. Caller: `firn sim figures`.

mod claims;
mod plot;
mod report;
mod runs;

use crate::error::LabError;
use runs::Results;
use std::path::Path;

/// A line of a plot.
#[derive(Clone, Debug)]
struct Curve {
    label: &'static str,
    points: Vec<(f64, f64)>,
}

/// One plot.
#[derive(Clone, Debug)]
struct Plot {
    /// File name without `.svg`.
    file: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    x_max: f64,
    y_max: f64,
    curves: Vec<Curve>,
}

/// Simulates, draws and writes: an SVG file for each figure, and `report.md`. Returns the report's text and whether every
/// claim that can be checked holds.
///
/// # Errors
/// A simulation cannot be set up, or a file cannot be written.
pub fn make(
    directory: &Path,
    threads: usize,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<(String, bool), LabError> {
    // First: a minute's work should not be lost for want of a place.
    std::fs::create_dir_all(directory).map_err(LabError::io("create", directory))?;
    let results = Results::simulate(threads, progress)?;
    let plots = plots(&results);
    let claims = claims::check(&results);
    for plot in &plots {
        let path = directory.join(plot.file).with_extension("svg");
        std::fs::write(&path, plot::svg(plot)?).map_err(LabError::io("write", &path))?;
    }
    let text = report::markdown(&plots, &claims);
    let path = directory.join("report.md");
    std::fs::write(&path, &text).map_err(LabError::io("write", &path))?;
    Ok((text, claims.iter().all(|claim| claim.holds)))
}

/// How many simulations [`make`] runs.
#[must_use]
pub fn run_count() -> usize {
    runs::plan().len()
}

const UTILISATION: &str = "disk capacity utilisation";
const COST: &str = "write cost";

fn plots(results: &Results) -> Vec<Plot> {
    let mut plots = cost_plots(results);
    plots.extend(histogram_plots(results));
    plots.sort_by_key(|plot| plot.file);
    plots.push(Plot {
        file: "at-a-time",
        title: "Write cost by number of segments cleaned at a time, disk 75% full",
        x: "segments cleaned at a time (2000 in all)",
        y: COST,
        x_max: f64::from(*runs::AT_A_TIME.last().unwrap_or(&1)),
        y_max: 7.0,
        curves: runs::BATCHED.iter().map(|series| results.by_batch(series)).collect(),
    });
    plots
}

fn cost_plots(results: &Results) -> Vec<Plot> {
    let plot = |file, title, x, mut curves: Vec<Curve>| {
        curves.extend([flat("FFS today", 10.0), flat("FFS improved", 4.0)]);
        Plot { file, title, x, y: COST, x_max: 1.0, y_max: 14.0, curves }
    };
    vec![
        plot(
            "figure-3",
            "Figure 3: write cost of a log, by utilisation of the cleaned segments",
            "fraction alive in segments cleaned",
            vec![no_variance("log-structured")],
        ),
        plot(
            "figure-4",
            "Figure 4: greedy cleaning",
            UTILISATION,
            vec![
                no_variance("no variance"),
                results.curve("LFS hot-and-cold", "greedy hot"),
                results.curve("LFS uniform", "greedy uniform"),
            ],
        ),
        plot(
            "figure-7",
            "Figure 7: cost-benefit, hot-and-cold",
            UTILISATION,
            vec![
                no_variance("no variance"),
                results.curve("LFS greedy", "greedy hot"),
                results.curve("LFS cost-benefit (segment age)", "cost-benefit"),
                results.curve("LFS cost-benefit (youngest block)", "cost-benefit-youngest"),
            ],
        ),
    ]
}

fn histogram_plots(results: &Results) -> Vec<Plot> {
    let x = "segment utilisation";
    let plot = |file, title, curves: [Curve; 2]| {
        let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max);
        Plot {
            file,
            title,
            x,
            y: "share of segments",
            x_max: 1.0,
            y_max: highest * 1.05,
            curves: curves.to_vec(),
        }
    };
    let at_start = |label, name| Curve { label, points: results.at(name, 0.75).at_start.shares() };
    let cleaned = |label, name| Curve { label, points: results.at(name, 0.75).victims.shares() };
    vec![
        plot(
            "figure-5",
            "Figure 5: segments when cleaning starts, greedy, disk 75% full",
            [at_start("hot-and-cold", "greedy hot"), at_start("uniform", "greedy uniform")],
        ),
        plot(
            "figure-6",
            "Figure 6: segments when cleaning starts, hot-and-cold, disk 75% full",
            [at_start("cost-benefit", "cost-benefit"), at_start("greedy", "greedy hot")],
        ),
        plot(
            "figure-6-cleaned",
            "Beside figure 6: the segments that are cleaned",
            [cleaned("cost-benefit", "cost-benefit"), cleaned("greedy", "greedy hot")],
        ),
    ]
}

/// All segments equally full (section 3.4): 2 / (1 - u).
fn no_variance(label: &'static str) -> Curve {
    let points = (1..=95).map(|percent| f64::from(percent) / 100.0).map(|u| (u, 2.0 / (1.0 - u)));
    Curve { label, points: std::iter::once((0.0, 1.0)).chain(points).collect() }
}

fn flat(label: &'static str, cost: f64) -> Curve {
    Curve { label, points: vec![(0.0, cost), (1.0, cost)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_an_svg_that_names_its_curves() {
        let curves = vec![no_variance("no variance"), flat("FFS <today>", 10.0)];
        let plot =
            Plot { file: "f", title: "T & t", x: UTILISATION, y: COST, x_max: 1.0, y_max: 14.0, curves };
        let svg = plot::svg(&plot).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["T &amp; t", "no variance", "FFS &lt;today&gt;", UTILISATION, "polyline"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(!svg.contains("NaN"));
    }
}
