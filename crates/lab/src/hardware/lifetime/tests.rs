//! A week of a small file system, from the people to the benchmarks.

use super::*;

#[test]
fn a_file_system_lives_by_the_workload_that_was_derived_from_another() {
    let span = Span { size_bytes: 1 << 26, days: 4 };
    let history = live_history(span, 1).unwrap();
    assert_eq!(history.scores.len(), 4);
    assert!((0.5..0.75).contains(&history.full), "{}", history.full);
    assert!(history.counts.short_lived > 0 && history.counts.deletes > history.counts.short_lived);
    let life = live(span, Policy::SmartFrag, &history).unwrap();
    assert_eq!((life.refused, life.layout.files), (0, history.counts.left_files));
    assert!((life.full - history.full).abs() < 0.05, "{} {}", life.full, history.full);
    assert_eq!(life.aged.len(), SMALL_KIB.len());
    assert!(life.aged.iter().chain(&life.empty).all(|speed| speed.read > 0.0 && speed.write > 0.0));
    // In four days every file has changed lately.
    assert_eq!(life.hot.files, life.layout.files);
    assert!(life.hot.read > life.hot.write && life.hot.write > 0.0);
    // Two files of 12 KB: the second block of each is a fragment behind the first, on an empty file system.
    let pair = life.empty.iter().find(|speed| speed.kib == 12).unwrap();
    assert_eq!(pair.score.optimal, pair.score.blocks);
}
