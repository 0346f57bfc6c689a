//! What several figures share.

use super::runs::Runs;
use super::size::Size;
use crate::hardware::claims::Claim;
use crate::hardware::comparison::{Row, judge};
use crate::hardware::{Profile, StoreKind};
use crate::plot::{Bars, Curve, Drawing, Series, Style};
use firnfs::ffs::Variant;

/// Rows of `firn sim comparison` that a figure shows; without those that need the papers' sizes, if these were not run.
pub(super) fn rows(runs: &Runs, size: &Size, is_shown: impl Fn(&Row) -> bool) -> Vec<Claim> {
    let rows = judge(&runs.comparison()).into_iter();
    let rows = rows.filter(|row| is_shown(row) && (size.is_paper() || !row.needs_paper_sizes));
    rows.map(|row| row.claim).collect()
}

/// What differs from the papers in every run of the log and of the Fast File System.
pub(super) fn differences() -> Vec<&'static str> {
    let fast = StoreKind::Fast(Variant::M1R2).differences().unwrap_or_default();
    Profile::Of1993.differences().iter().chain(fast).copied().collect()
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// The largest ordinate.
pub(super) fn highest(curves: &[Curve]) -> f64 {
    curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max)
}

/// Bars without published values.
pub(super) fn series<const N: usize>(label: &'static str, style: Style, values: [f64; N]) -> Series {
    Series::new(label, style, values.to_vec())
}

/// A drawing of bars.
pub(super) fn bars(
    file: &'static str,
    title: &'static str,
    conditions: impl Into<std::borrow::Cow<'static, str>>,
    y: &'static str,
    groups: &[&str],
    series: Vec<Series>,
) -> Drawing {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    Drawing::Bars(Bars {
        file: file.into(),
        title: title.into(),
        conditions: conditions.into(),
        y,
        groups,
        series,
    })
}
