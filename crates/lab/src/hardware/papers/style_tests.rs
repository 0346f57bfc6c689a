//! Readers know a scheme by its style: through a report no scheme has two, and no two share one.

use super::doctored_tests::made_up;
use super::*;
use crate::plot::{Drawing, Style};
use std::collections::{BTreeMap, BTreeSet};

/// Other names of the file systems of 003, and what they are.
const SAME: [(&str, &str); 4] =
    [("realloc", "baseline"), ("empty", "original"), ("simulated", "original"), ("used", "real")];

/// The names of schemes begin with these; other curves and bars are measures or loads, which may share styles in different drawings.
const SCHEMES: [&str; 12] = [
    "LFS (",
    "FFS",
    "EFS",
    "RAW",
    "SunOS",
    "Sprite LFS",
    "cleaner of",
    "baseline",
    "original",
    "real",
    "NoSwitch",
    "SmartFrag",
];

fn is_scheme(name: &str) -> bool {
    SCHEMES.iter().any(|scheme| name.starts_with(scheme))
}

/// The curves or bars of a drawing, each with its style. A paper's values are called after the scheme that they are of.
fn styled(drawing: &Drawing) -> BTreeMap<String, BTreeSet<u8>> {
    let all: Vec<(String, Style)> = match drawing {
        Drawing::Curves(plot) => {
            plot.curves.iter().map(|curve| (curve.label.to_string(), curve.style)).collect()
        }
        Drawing::Bars(bars) => {
            bars.series.iter().map(|series| (series.label.to_string(), series.style)).collect()
        }
    };
    let mut styles: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
    for (label, style) in all {
        let name = label.split(':').next().unwrap();
        let name = name.strip_prefix("read, ").unwrap_or(name);
        let name = SAME.iter().find(|(other, _)| *other == name).map_or(name, |(_, same)| same);
        styles.entry(name.to_owned()).or_default().insert(style.0);
    }
    styles
}

/// Figure 8 of 000 shows measures of one file system, and servers: more than there are styles beside those of the schemes.
fn shows_schemes(file: &str) -> bool {
    !file.starts_with("000-fig8")
}

#[test]
fn through_a_report_no_scheme_has_two_styles_and_no_two_share_one() {
    let plan = Plan::all(Size::PAPER);
    let runs = made_up(&plan);
    // By report and name.
    let mut reports: BTreeMap<&str, BTreeMap<String, BTreeSet<u8>>> = BTreeMap::new();
    for unit in &plan.units {
        let figure = (unit.make)(&runs, &plan.size).unwrap();
        for drawing in &figure.drawings {
            let styles = styled(drawing);
            let different: BTreeSet<&BTreeSet<u8>> = styles.values().collect();
            assert_eq!(different.len(), styles.len(), "two share a style in {}: {styles:?}", drawing.file());
            if shows_schemes(drawing.file()) {
                let report = reports.entry(figure.paper()).or_default();
                styles.into_iter().for_each(|(name, own)| report.entry(name).or_default().extend(own));
            }
        }
    }
    for (paper, report) in &reports {
        let mut owners: BTreeMap<u8, &str> = BTreeMap::new();
        for (name, styles) in report {
            assert_eq!(styles.len(), 1, "{paper}: {name} has the styles {styles:?}");
            if let Some(other) = owners.insert(*styles.first().unwrap(), name) {
                let is_clear = !is_scheme(name) && !is_scheme(other);
                assert!(is_clear, "{paper}: {name} has the style of {other}: {report:#?}");
            }
        }
    }
}
