use super::*;
use firnfs_format::{SegmentId, TimeNs};

const SECOND_NS: i64 = 1_000_000_000;

fn terms() -> Terms {
    Terms::new(1000, TimeNs(100 * SECOND_NS), 1_000_000_000)
}

/// Segments with (live bytes, second of writing, log), numbered from 0; their youngest block is ten seconds older.
fn candidates(all: &[(u32, i64, u8)]) -> Vec<Candidate> {
    let one = |(n, &(live_bytes, written_s, log)): (usize, &(u32, i64, u8))| Candidate {
        segment: SegmentId(n as u64),
        live_bytes,
        written: TimeNs(written_s * SECOND_NS),
        youngest: TimeNs((written_s - 10) * SECOND_NS),
        log,
    };
    all.iter().enumerate().map(one).collect()
}

fn order(policy: Policy, all: &[(u32, i64, u8)]) -> Vec<u64> {
    let all = candidates(all);
    policy.choose(all.iter().copied(), &terms(), all.len()).iter().map(|c| c.segment.0).collect()
}

#[test]
fn old_and_empty_goes_before_young_and_full() {
    // u, age: (.5, 10 s), (.5, 90 s), (.9, 90 s), (.1, 10 s)
    let all = [(500, 90, 0), (500, 10, 0), (900, 10, 0), (100, 90, 0)];
    assert_eq!(order(Policy::CostBenefit, &all), [3, 1, 0, 2]);
    assert_eq!(order(Policy::CostBenefitYoungest, &all), [1, 3, 0, 2]);
    assert_eq!(order(Policy::CostBenefitSqrt, &all), [3, 1, 0, 2]);
    assert_eq!(order(Policy::Greedy, &all), [3, 0, 1, 2]);
    assert_eq!(order(Policy::Fifo, &all), [1, 2, 0, 3]);
}

#[test]
fn the_age_threshold_looks_at_the_young_only_when_nothing_is_old() {
    let all = [(500, 90, 0), (700, 10, 0), (900, 10, 0)];
    assert_eq!(order(Policy::AgeThreshold { age: 60.0 }, &all), [1, 2, 0]);
    assert_eq!(order(Policy::AgeThreshold { age: 600.0 }, &all), [0, 1, 2]);
}

#[test]
fn the_window_is_the_oldest_part() {
    let all = [(100, 90, 0), (500, 30, 0), (400, 20, 0), (900, 10, 0)];
    let victim = |window| {
        Policy::WindowedGreedy { window }.choose(candidates(&all).into_iter(), &terms(), 1)[0].segment.0
    };
    assert_eq!([victim(0.0), victim(0.5), victim(0.75), victim(1.0)], [3, 2, 2, 0]);
}

#[test]
fn d_choices_draws_afresh_each_turn_and_every_segment_alike() {
    let all = candidates(&[(500, 10, 0); 8]);
    let mut drawn = [0u32; 8];
    for turn in 0..8000 {
        let terms = terms().with_turn(turn);
        let victim = Policy::DChoices { d: 1 }.choose(all.iter().copied(), &terms, 1)[0];
        drawn[victim.segment.0 as usize] += 1;
    }
    assert!(drawn.iter().all(|n| (850..1150).contains(n)), "{drawn:?}");
    // All of them drawn is greedy.
    assert_eq!(order(Policy::DChoices { d: 4 }, &[(3, 1, 0), (1, 1, 0), (2, 1, 0), (9, 1, 0)]), [1, 2, 0, 3]);
}

#[test]
fn without_weight_the_pooled_rate_is_cost_benefit_and_with_much_it_is_greedy_within_a_log() {
    let all = [(500, 90, 0), (510, 10, 0), (900, 10, 0), (100, 91, 0), (700, 50, 0)];
    assert_eq!(order(Policy::PooledRate { weight: 0.0 }, &all), order(Policy::CostBenefit, &all));
    assert_eq!(order(Policy::PooledRate { weight: 1e9 }, &all), order(Policy::Greedy, &all));
}

#[test]
fn of_two_equally_empty_segments_the_one_in_the_log_that_dies_slowly_goes_first() {
    let all = [(500, 90, 1), (500, 90, 0), (900, 10, 0), (100, 80, 1)];
    let order = order(Policy::PooledRate { weight: 1.0 }, &all);
    let at = |segment| order.iter().position(|&s| s == segment);
    assert!(at(1) < at(0), "{order:?}");
}

#[test]
fn a_count_takes_the_head_of_the_order() {
    let all = [(500, 90, 0), (500, 10, 0), (900, 10, 0), (100, 90, 0)];
    for count in 0..=5 {
        let chosen = Policy::CostBenefit.choose(candidates(&all).into_iter(), &terms(), count);
        let numbers: Vec<u64> = chosen.iter().map(|c| c.segment.0).collect();
        assert_eq!(numbers, [3, 1, 0, 2][..count.min(4)]);
    }
}

#[test]
fn a_clock_that_went_backwards_counts_as_no_age() {
    let all = [(500, 200, 0), (400, 300, 0)];
    for policy in [Policy::CostBenefit, Policy::PooledRate { weight: 1.0 }, Policy::CostBenefitYoungest] {
        assert_eq!(order(policy, &all), [1, 0]);
    }
}
