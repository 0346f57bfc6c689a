//! What was published of the figures, against what came out. Where the text gives a bound, so does the claim.

use super::runs::Results;
use crate::cleaning::histogram::Histogram;

/// A published value and ours.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Figure or section.
    pub place: &'static str,
    pub what: &'static str,
    pub published: String,
    pub ours: String,
    /// Of values, not of bounds.
    pub deviation: Option<f64>,
    pub holds: bool,
}

/// A value, which ours may miss by a share of it.
fn value(place: &'static str, what: &'static str, published: f64, ours: f64, tolerance: f64) -> Claim {
    let deviation = ours / published - 1.0;
    Claim {
        place,
        what,
        published: format!("{published}"),
        ours: format!("{ours:.3}"),
        deviation: Some(deviation),
        holds: deviation.abs() <= tolerance,
    }
}

/// Something that must be less than something else.
fn bound(place: &'static str, what: &'static str, published: &str, ours: f64, most: f64) -> Claim {
    Claim {
        place,
        what,
        published: published.to_owned(),
        ours: format!("{ours:.3}"),
        deviation: None,
        holds: ours < most,
    }
}

/// All claims, in the order of the paper.
pub(super) fn check(results: &Results) -> Vec<Claim> {
    let mut claims = about_greedy(results);
    claims.extend(about_cost_benefit(results));
    claims
}

fn about_greedy(results: &Results) -> Vec<Claim> {
    let cost = |name: &str, utilisation: f64| results.at(name, utilisation).write_cost.mean;
    let ratio = |a: &str, b: &str, u: f64| cost(a, u) / cost(b, u);
    let hot_over_uniform = |u| ratio("greedy uniform", "greedy hot", u);
    let by_locality = |at_a_time| {
        let at = |name: &str| results.cost_in_batches(name, at_a_time);
        at("greedy, hot-and-cold, age sort") / at("greedy, hot-and-cold 5/95, age sort")
    };
    vec![
        value(
            "figure 3",
            "utilisation of cleaned segments where LFS meets FFS today (cost 10)",
            0.8,
            meets(10.0),
            0.02,
        ),
        value("figure 3", "the same for FFS improved (cost 4)", 0.5, meets(4.0), 0.02),
        value(
            "3.5",
            "utilisation of cleaned segments, uniform, greedy, disk 75% full",
            0.55,
            results.at("greedy uniform", 0.75).cleaned_utilisation,
            0.02 / 0.55,
        ),
        value("figure 4", "write cost there", 4.4, cost("greedy uniform", 0.75), 0.02),
        bound("figure 4", "write cost, uniform, disk 10% full", "below 2", cost("greedy uniform", 0.1), 2.0),
        bound(
            "figure 4",
            "uniform / hot-and-cold, both greedy, 40% full",
            "below 1",
            hot_over_uniform(0.4),
            1.0,
        ),
        bound("figure 4", "the same, 75% full", "below 1", hot_over_uniform(0.75), 1.0),
        bound("figure 4", "the same, 90% full", "below 1", hot_over_uniform(0.9), 1.0),
        bound("3.5", "greedy, 10/90 over 5/95, one segment at a time", "below 1", by_locality(1), 1.0),
    ]
}

fn about_cost_benefit(results: &Results) -> Vec<Claim> {
    let cost = |name: &str, utilisation: f64| results.at(name, utilisation).write_cost.mean;
    let victims = &results.at("cost-benefit", 0.75).victims;
    let saved = [0.6, 0.7, 0.75, 0.8, 0.85, 0.9].map(|u| cost("cost-benefit", u) / cost("greedy hot", u));
    vec![
        value(
            "figure 6",
            "where cold segments are cleaned, cost-benefit",
            0.75,
            peak(victims, 0.5, 1.0),
            0.1,
        ),
        // Read off a drawing; that it lies far below the other peak is what counts.
        value("figure 6", "the same of hot ones (about)", 0.15, peak(victims, 0.0, 0.5), 0.5),
        bound(
            "figure 7",
            "cost-benefit / greedy, lowest between 60% and 90% full",
            "down to 0.5",
            saved.into_iter().fold(f64::INFINITY, f64::min),
            0.65,
        ),
        bound("figure 7", "write cost, cost-benefit, 80% full", "below 4", cost("cost-benefit", 0.8), 4.0),
        value("thesis", "write cost, segment age, 95% full, age sort", 11.8, cost("95 sorted", 0.95), 0.1),
        value("thesis", "the same, unsorted", 16.6, cost("95 unsorted", 0.95), 0.1),
        Claim {
            holds: true,
            ..value(
                "(as the text says)",
                "age of the youngest block, age sort",
                11.8,
                cost("95 youngest sorted", 0.95),
                0.0,
            )
        },
        Claim {
            holds: true,
            ..value("(as the text says)", "the same, unsorted", 16.6, cost("95 youngest unsorted", 0.95), 0.0)
        },
    ]
}

/// Where the curve of figure 3 reaches a cost.
fn meets(cost: f64) -> f64 {
    let curve = super::no_variance("").points;
    curve.iter().find(|(_, y)| *y >= cost).map_or(f64::NAN, |(u, _)| *u)
}

/// The most frequent utilisation between two.
fn peak(histogram: &Histogram, from: f64, to: f64) -> f64 {
    let bars = histogram.shares().into_iter().filter(|(u, _)| (from..to).contains(u));
    bars.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |(u, _)| u)
}
