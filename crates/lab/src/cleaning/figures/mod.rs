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
use crate::plot::{self, Curve, Origin, Plot, Scale, Style};
use claims::Claim;
use condition::Condition;
use runs::{FFS_IMPROVED, FFS_TODAY, GREEDY, NO_VARIANCE, Results, SEGMENT_AGE, UNIFORM, YOUNGEST};
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
    plot::write_all(directory, &plots, &Origin::seeded("firn sim figures --out DIR", condition::SEED))?;
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
    plots.sort_by(|a, b| a.file.cmp(&b.file));
    let by_batch = |file: &'static str, title: &'static str, conditions: &'static str, regime| Plot {
        file: file.into(),
        title: title.into(),
        conditions: conditions.into(),
        x: "segments cleaned at a time",
        y: COST,
        x_scale: Scale::Log2,
        y_scale: Scale::Linear,
        x_max: f64::from(*runs::AT_A_TIME.last().unwrap_or(&1)),
        y_max: 7.0,
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
    let plot =
        |file: &'static str, title: &'static str, conditions: &'static str, x, mut curves: Vec<Curve>| {
            curves.extend([flat("FFS today", FFS_TODAY, 10.0), flat("FFS improved", FFS_IMPROVED, 4.0)]);
            let (file, title, conditions) = (file.into(), title.into(), conditions.into());
            let x_scale = Scale::Linear;
            Plot {
                file,
                title,
                conditions,
                x,
                y: COST,
                x_scale,
                y_scale: Scale::Linear,
                x_max: 1.0,
                y_max: 14.0,
                curves,
            }
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
                results.curve("LFS hot-and-cold", GREEDY, hot),
                results.curve("LFS uniform", UNIFORM, uniform),
                // Section 3.5: the cleaned segments are 55% full.
                Curve::new("LFS uniform: the paper's text", UNIFORM, vec![(0.75, 2.0 / (1.0 - 0.55))])
                    .published(),
            ],
        ),
        plot(
            "figure-7",
            "Figure 7: cost-benefit, hot-and-cold",
            AS_PAPER,
            UTILISATION,
            vec![
                no_variance("no variance"),
                results.curve("LFS greedy", GREEDY, hot),
                results.curve("LFS cost-benefit (segment age)", SEGMENT_AGE, hot.by("cost-benefit")),
                results.curve(
                    "LFS cost-benefit (youngest block, as printed)",
                    YOUNGEST,
                    hot.by("cost-benefit-youngest"),
                ),
                Curve::new("LFS cost-benefit: Rosenblum's thesis", SEGMENT_AGE, vec![(0.95, 11.8)])
                    .published(),
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
    let half_width = |u: f64| results.of(&condition.at(u)).write_cost.half_width;
    Curve::new("measured", UNIFORM, runs::UTILISATIONS.map(point).to_vec())
        .with_half_widths(runs::UTILISATIONS.map(half_width).to_vec())
}

fn histogram_plots(results: &Results) -> Vec<Plot> {
    let (uniform, hot) = (Condition::PAPER, Condition::HOT_COLD);
    let plot = |file: &'static str, title: &'static str, curves: Vec<Curve>| {
        let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max);
        Plot {
            file: file.into(),
            title: title.into(),
            conditions: format!("{AS_PAPER}; histograms, as lines like the paper's").into(),
            x: "segment utilisation",
            y: "share of segments",
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            x_max: 1.0,
            y_max: highest * 1.05,
            curves,
        }
    };
    let points =
        |histogram: &Histogram| histogram.bars().iter().map(|bar| (bar.utilisation, bar.share)).collect();
    let at_start = |label: &'static str, style, condition| {
        Curve::new(label, style, points(&results.of(&condition).at_start)).plain()
    };
    let cleaned = |label: &'static str, style, condition| {
        Curve::new(label, style, points(&results.of(&condition).victims)).plain()
    };
    let forms = |of: &dyn Fn(&'static str, Style, Condition) -> Curve| {
        vec![
            of("cost-benefit (segment age)", SEGMENT_AGE, hot.by("cost-benefit")),
            of("greedy", GREEDY, hot),
            of("cost-benefit (youngest block, as printed)", YOUNGEST, hot.by("cost-benefit-youngest")),
        ]
    };
    vec![
        plot(
            "figure-5",
            "Figure 5: segments when cleaning starts, greedy, disk 75% full",
            vec![at_start("hot-and-cold", GREEDY, hot), at_start("uniform", UNIFORM, uniform)],
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
    Curve::new(label, NO_VARIANCE, std::iter::once((0.0, 1.0)).chain(points).collect()).plain()
}

fn flat(label: &'static str, style: Style, cost: f64) -> Curve {
    Curve::new(label, style, vec![(0.0, cost), (1.0, cost)]).plain()
}
