//! A week of a small file system, from the people to the benchmarks; and seven months of a larger one.

use super::*;
use crate::age::layout::Score;

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

/// An eighth of the paper's file system lives all of its 215 days: more than a tenth of the operations.
#[test]
#[ignore = "a minute and a half: the step `aging` of scripts/test.sh"]
fn a_tenth_of_the_history_ages_the_copy_as_it_aged_the_original() {
    let span = Span { size_bytes: Span::PAPER.size_bytes / 8, ..Span::PAPER };
    let history = live_history(span, 1).unwrap();
    let operations = history.counts.creates + history.counts.changes + history.counts.deletes;
    assert!(operations > 130_000, "{:?}", history.counts);
    let [copy, realloc] =
        [Policy::Original, Policy::Realloc].map(|policy| live(span, policy, &history).unwrap());
    assert_eq!((copy.refused, realloc.refused), (0, 0));
    // Section 3.4: both age, by nearly as much, each evening.
    let score = |score: &Score| score.value().unwrap();
    let days: Vec<(f64, f64)> = history.scores.iter().map(score).zip(copy.scores.iter().map(score)).collect();
    assert_eq!(days.len(), 215);
    assert!(days.iter().all(|(real, copy)| (real - copy).abs() < 0.1), "{days:?}");
    assert!(days[0].0 > 0.85 && days[214].0 < 0.8, "{days:?}");
    // Section 4: reallocation keeps files together for all that time.
    let [copy, realloc] = [&copy, &realloc].map(|life| score(&life.layout.all.score));
    assert!(realloc > copy + 0.1, "{realloc} {copy}");
}
