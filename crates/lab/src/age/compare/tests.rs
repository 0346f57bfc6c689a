//! The report says what was measured; what is measured is tested on real mounts, with `firn age compare`.

use super::*;
use crate::plot::{Drawing, Origin, Style};

fn stage(aged_ms: f64, disk_bytes: u64) -> Stage {
    let pace = Pace { file_operations: 100, elapsed_ms: 500.0, p99_ms: 0.08, disk_bytes, ..Pace::default() };
    Stage { files: 7, tree_bytes: 10 << 20, aged_ms, fresh_ms: 20.0, pace }
}

fn report() -> Report {
    let aged = |name: &str, logged| Aged {
        name: name.to_owned(),
        stages: vec![stage(20.0, 1000), stage(50.0, 2000)],
        written_bytes: 1500,
        refused_operations: 0,
        layout_score: Some(0.75),
        fresh_layout_score: None,
        logged,
    };
    let logged = Logged { log_bytes: 3000, new_bytes: 2000 };
    Report {
        environment: Environment::default(),
        workload_options: vec![("from".to_owned(), "a <b> repository".to_owned())],
        records: 9,
        size_bytes: 1 << 30,
        runs: 3,
        sync_every_ms: 3.6e6,
        rest_ms: 5e3,
        systems: vec![aged("firnfs", Some(logged)), aged("ext4", None)],
    }
}

#[test]
fn the_table_has_each_ratio_and_the_page_stands_alone() {
    let report = report();
    let (titles, rows) = report.table();
    assert!(titles.len() == rows[0].len() && rows.len() == 2);
    let cell = |row: usize, title: &str| rows[row][titles.iter().position(|t| *t == title).unwrap()].as_str();
    assert_eq!(cell(0, "reading, aged over new"), "2.50");
    assert_eq!(cell(0, "aged MB/s"), "200");
    assert_eq!(cell(0, "new MB/s"), "500");
    assert_eq!(cell(0, "layout"), "0.75, -");
    assert_eq!(cell(0, "written to disk"), "2.00");
    assert_eq!((cell(0, "upkeep"), cell(1, "upkeep")), ("0.50", "-"));
    assert_eq!(cell(1, "ops/s young, old"), "200, 200");
    let page = report.html(&Origin::of("firn age compare <x>")).unwrap();
    assert!(page.contains("a &lt;b&gt; repository") && page.contains("compare &lt;x&gt;"));
    assert_eq!(page.matches("<svg").count(), 4);
    for outside in ["http:", "https:", "<script", "<link", "@import"] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
}

#[test]
fn a_file_system_has_one_style_in_all_drawings_and_the_seed_is_the_workloads() {
    let mut report = report();
    let styles = |drawing: &Drawing| -> Vec<(String, Style)> {
        match drawing {
            Drawing::Curves(plot) => {
                plot.curves.iter().map(|curve| (curve.label.to_string(), curve.style)).collect()
            }
            Drawing::Bars(bars) => {
                bars.series.iter().map(|series| (series.label.to_string(), series.style)).collect()
            }
        }
    };
    for drawing in report.drawings() {
        let expected = [("firnfs".to_owned(), Style(0)), ("ext4".to_owned(), Style(1))];
        assert_eq!(styles(&drawing), expected, "{}", drawing.file());
    }
    assert_eq!(report.seed(), None);
    report.workload_options.push(("seed".to_owned(), "7".to_owned()));
    assert_eq!(report.seed(), Some(7));
}

#[test]
fn a_reading_in_the_middle_counts() {
    assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
    assert!(median(Vec::new()).is_nan());
}
