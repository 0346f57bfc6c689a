//! firnfs under the crash explorer: every change must pass these tests. The long runs are `firn-torture soak` and
//! `mixed`.

use firnfs::lfs::{META_LOG, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{MemDevice, SparseImage};
use firnfs_manage::open;
use firnfs_sim::VirtualClock;
use firnfs_torture::crash::campaign::{Report, explore, explore_by, prepare};
use firnfs_torture::crash::op::CLONES;
use firnfs_torture::crash::runner::{Run, run};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::shape::Shape;
use firnfs_torture::crash::soak::{Soak, mixed, shares};
use firnfs_torture::crash::{Entry, Explorer, Firn, Limits, Op, Seen, Subject, Totals, Tree, World};
use std::collections::BTreeSet;
use std::sync::Arc;

const THREADS: usize = 2;

fn assert_clean(report: &Report, at_least: u64) {
    println!("{}", report.totals);
    let findings: Vec<String> =
        report.findings.iter().map(|finding| format!("{}\n    {}", finding.token, finding.reason)).collect();
    assert!(findings.is_empty(), "replay with `firn-torture replay TOKEN`:\n{}", findings.join("\n"));
    assert!(report.totals.distinct >= at_least, "only {}", report.totals);
}

#[test]
fn no_cut_after_any_single_operation_breaks_a_promise() {
    let all = (0..Scenario::ace_count(1)).map(|number| Scenario::Ace { length: 1, number });
    assert_clean(&explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {}), 600);
}

#[test]
fn no_cut_of_histories_of_many_operations_breaks_a_promise() {
    let report = explore(&Firn::small(), Limits::default(), mixed(1), THREADS, 20_000, &|_| {});
    assert_clean(&report, 20_000);
}

#[test]
fn no_cut_after_two_operations_breaks_a_promise() {
    // A prime stride, so that every operation is combined with every other.
    const STRIDE: usize = 53;
    let some = (0..Scenario::ace_count(2)).step_by(STRIDE).map(|number| Scenario::Ace { length: 2, number });
    assert_clean(&explore(&Firn::small(), Limits::default(), some, THREADS, u64::MAX, &|_| {}), 5_000);
}

#[test]
fn no_cut_of_histories_with_a_shape_breaks_a_promise() {
    let some = |shape, seeds| (0..seeds).map(move |seed| Scenario::Shaped { shape, seed });
    let all = some(Shape::Wide, 3).chain(some(Shape::Crowded, 1)).chain(some(Shape::Open, 6));
    let all =
        all.chain(some(Shape::Tight, 2)).chain(some(Shape::Scattered, 4)).chain(some(Shape::Stepped, 4));
    assert_clean(&explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {}), 12_000);
}

/// Usage is what the files add up to, durable limits hold, and quotas that were turned on are on.
#[test]
fn no_cut_of_histories_with_quotas_breaks_a_promise() {
    let all = (0..16).map(|seed| Scenario::Shaped { shape: Shape::Quotas, seed });
    assert_clean(&explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {}), 8_000);
}

/// Every point shows what the world was when it was made, until its drop begins; what is dropped is held no longer. Two points that are
/// still there give the stream that they gave in the run.
#[test]
fn no_cut_of_histories_with_points_breaks_a_promise() {
    let points = |seed| Scenario::Shaped { shape: Shape::Points, seed };
    let stepped = (0..2).map(|n| Scenario::Shaped { shape: Shape::Stepped, seed: 2 * n + 1 });
    let long = (0..3).map(|round| Scenario::Long { seed: 3, round });
    let all = (0..8).map(points).chain(stepped).chain(long);
    let report = explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {});
    assert_clean(&report, 18_000);
    assert!(report.totals.with_points > 8_000, "{}", report.totals);
    assert!(report.totals.sent > 1_000, "{}", report.totals);
}

/// The present becomes the oldest point, read from there, and then what it was before.
#[test]
fn volumes_are_rolled_back_and_forth_while_they_are_explored() {
    for seed in [3, 7] {
        let (firn, run) = run_of(&Scenario::Shaped { shape: Shape::Points, seed });
        let ops = run.record.ops();
        let ended = ops.iter().rposition(|op| matches!(op, Op::CopyBack { .. })).expect("a rollback");
        let undo =
            ops.iter().position(|op| *op == Op::MakePoint("before-rollback".into())).expect("its point");
        assert!(ended - undo > 20, "{seed}: {undo} to {ended}");
        let left = firn.look(Arc::new(MemDevice::from_image(end_of(&run)))).unwrap();
        let is_of_volume = |entry: &&Entry| !entry.path.starts_with(CLONES);
        let present = Tree::new(left.entries().iter().filter(is_of_volume).cloned().collect());
        left.points()["before-rollback"].same_files(&present).unwrap();
    }
}

/// Every automatic point shows the world at the moment when it was made; the oldest go first, and none comes back.
#[test]
fn no_cut_of_histories_with_automatic_points_breaks_a_promise() {
    let retained = (0..8).map(|seed| Scenario::Shaped { shape: Shape::Retained, seed });
    let report = explore(&Firn::small(), Limits::default(), retained, THREADS, u64::MAX, &|_| {});
    assert_clean(&report, 6_000);
    assert!(report.totals.with_points > 2_000, "{}", report.totals);
}

/// In some histories the volume makes many points, in some it lets many go.
#[test]
fn automatic_points_come_and_go_while_they_are_explored() {
    let (mut made, mut gone) = (Vec::new(), Vec::new());
    for seed in 0..8 {
        let (firn, run) = run_of(&Scenario::Shaped { shape: Shape::Retained, seed });
        let left = firn.look(Arc::new(MemDevice::from_image(end_of(&run)))).unwrap();
        let known = run.record.known_automatic();
        made.push(known.len());
        gone.push(known.iter().filter(|epoch| !left.automatic().contains_key(epoch)).count());
    }
    println!("{made:?} made, {gone:?} gone");
    assert!(made.iter().all(|made| *made > 5), "{made:?}");
    assert!(gone.iter().filter(|gone| **gone > 5).count() > 3, "{gone:?}");
}

#[test]
fn what_points_hold_is_moved_while_it_is_explored() {
    for seed in 0..4 {
        let counters = counters_after(&Scenario::Shaped { shape: Shape::Points, seed });
        assert!(count_of(&counters, "segments_cleaned") > 8, "{seed}: {counters:?}");
        assert!(count_of(&counters, "log_past_bytes") > 100_000, "{seed}: {counters:?}");
    }
}

#[test]
fn full_volumes_are_cleaned_while_they_are_explored() {
    let tight = |seed| Scenario::Shaped { shape: Shape::Tight, seed };
    for scenario in (0..3).map(|seed| Scenario::Full { seed }).chain((0..2).map(tight)) {
        let counters = counters_after(&scenario);
        assert!(count_of(&counters, "segments_cleaned") > 0, "{scenario}: {counters:?}");
    }
}

/// Commits go to up to six logs; users and the cleaner write to the same ones.
#[test]
fn no_cut_breaks_a_promise_where_data_is_sorted_into_logs() {
    let firn = Firn::sorting();
    let tight = (0..2).map(|seed| Scenario::Shaped { shape: Shape::Tight, seed });
    let full = (0..2).map(|seed| Scenario::Full { seed });
    for scenario in tight.clone().chain(full.clone()) {
        let logs = logs_with_data(&firn, &scenario);
        assert!(logs.len() >= 3, "{scenario}: {logs:?}");
    }
    let shaped = tight.chain(full).chain(mixed(2));
    assert_clean(&explore(&firn, Limits::default(), shaped, THREADS, 3_000, &|_| {}), 3_000);
}

#[test]
fn no_cut_during_a_trim_breaks_a_promise() {
    let tight = (0..1).map(|seed| Scenario::Shaped { shape: Shape::Tight, seed });
    let full = (0..1).map(|seed| Scenario::Full { seed });
    let all = tight.chain(full).chain(mixed(3));
    assert_clean(&explore(&Firn::trimming(), Limits::default(), all, THREADS, 2_000, &|_| {}), 2_000);
}

#[test]
fn no_cut_while_a_volume_grows_breaks_a_promise() {
    let firn = Firn::growing();
    let tight = (0..1).map(|seed| Scenario::Shaped { shape: Shape::Tight, seed });
    let full = (0..1).map(|seed| Scenario::Full { seed });
    let all = tight.chain(full).chain(mixed(4));
    assert_clean(&explore(&firn, Limits::default(), all, THREADS, 2_000, &|_| {}), 2_000);
}

#[test]
fn no_cut_while_a_volume_shrinks_and_grows_breaks_a_promise() {
    let firn = Firn::shrinking();
    let tight = (0..1).map(|seed| Scenario::Shaped { shape: Shape::Tight, seed });
    let full = (0..1).map(|seed| Scenario::Full { seed });
    let all = tight.chain(full).chain(mixed(4));
    assert_clean(&explore(&firn, Limits::default(), all, THREADS, 2_000, &|_| {}), 2_000);
}

/// Logs that contain data by the end of a scenario, except that of metadata.
fn logs_with_data(firn: &Firn, scenario: &Scenario) -> BTreeSet<u8> {
    let seen = Seen::new();
    let run = prepare(&Explorer::new(firn, Limits::default(), &seen), firn, scenario).unwrap();
    let end = format!("{}:", run.history.events().len()).parse().unwrap();
    let device = Arc::new(MemDevice::from_image(run.history.image(&end).unwrap()));
    let options = Options { read_only: true, ..Options::default() };
    let volume = open(device, options, AtimeMode::Noatime, Arc::new(VirtualClock::at(1 << 60))).unwrap();
    let infos = volume.run(|vfs, _| vfs.store_mut().segment_infos(0)).unwrap();
    let used = infos.iter().filter(|info| info.usage.in_use && info.usage.log != META_LOG);
    used.map(|info| info.usage.log).collect()
}

#[test]
fn scattered_files_are_put_in_order_while_they_are_explored() {
    for seed in 0..4 {
        let counters = counters_after(&Scenario::Shaped { shape: Shape::Scattered, seed });
        assert!(count_of(&counters, "coalesced_files") >= 4, "{seed}: {counters:?}");
    }
}

/// The counters of the volume at the end of a scenario.
fn counters_after(scenario: &Scenario) -> Vec<(&'static str, u64)> {
    let (subject, run) = run_of(scenario);
    subject.counters(end_of(&run)).unwrap()
}

fn run_of(scenario: &Scenario) -> (Firn, Run) {
    let small = Firn::small();
    let subject = small.as_made(scenario.made()).unwrap_or(small);
    let seen = Seen::new();
    let run = prepare(&Explorer::new(&subject, Limits::default(), &seen), &subject, scenario).unwrap();
    (subject, run)
}

fn end_of(run: &Run) -> SparseImage {
    let end = format!("{}:", run.history.events().len()).parse().unwrap();
    run.history.image(&end).unwrap()
}

fn count_of(counters: &[(&'static str, u64)], wanted: &str) -> u64 {
    counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count)
}

#[test]
fn a_repair_cut_short_anywhere_is_brought_to_the_same_end_by_the_next() {
    let all = (0..40).map(|seed| Scenario::Mend { seed });
    let report = explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {});
    assert_clean(&report, 3_500);
    assert_eq!(report.totals.mended, report.totals.distinct);
}

/// The power goes when changes that were held back are refused, and takes back a drop that no unmount has made durable.
#[test]
fn a_point_that_comes_back_with_refused_changes_is_dropped_again() {
    let larger_than_the_volume = Op::Write { path: "a".into(), at_bytes: 0, len_bytes: 20 << 20, tag: 1 };
    let ops = [
        Op::Create("a".into()),
        Op::MakePoint("kept".into()),
        Op::MakePoint("dropped".into()),
        Op::DropPoint("dropped".into()),
        Op::HeldBack { changes: vec![larger_than_the_volume], name: "refused".into() },
        Op::Sync,
    ];
    let small = Firn::small();
    // It compares what a replica receives with the points of the model.
    let run = run(&small, small.format(), World::new(), &ops).unwrap();
    assert_eq!(run.record.world().points().keys().collect::<Vec<_>>(), ["kept"]);
}

/// What a soak promises, checked over its beginning.
#[test]
fn a_tenth_of_a_soak_is_cut_during_cleaning_and_another_during_repair() {
    let mut soak = Soak::new(11, Some(12_000));
    let next = |totals: &Totals| soak.next(totals);
    let report = explore_by(&Firn::small(), Limits::default(), next, THREADS, u64::MAX, &|_| {});
    assert_clean(&report, 12_000);
    assert_eq!(shares(&report.totals), Ok(()));
}

/// A state that one scenario has seen is not judged again in another: all sequences of one operation begin with the
/// same states.
#[test]
fn a_state_counts_once_in_a_campaign() {
    // With a sync after the operation.
    let first = Scenario::ace_count(1) / 4 * 3;
    let scenario = || (first..first + 2).map(|number| Scenario::Ace { length: 1, number });
    let all = |scenarios: Vec<Scenario>| {
        explore(&Firn::small(), Limits::default(), scenarios.into_iter(), 1, u64::MAX, &|_| {}).totals
    };
    let first = all(scenario().take(1).collect());
    let twice = all(scenario().take(1).chain(scenario().take(1)).collect());
    assert_eq!((twice.distinct, twice.judged), (first.distinct, first.judged));
    let both = all(scenario().collect());
    let alone = all(scenario().skip(1).collect());
    assert!(both.distinct < first.distinct + alone.distinct, "{both} of {first} and {alone}");
    assert!(both.distinct > first.distinct, "{both} of {first}");
}
