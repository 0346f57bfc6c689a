//! firnfs under the crash explorer: what every change has to pass. The long runs are `firn-torture soak` and `mixed`.

use firnfs_torture::crash::campaign::{Report, explore, mixed, prepare};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::{Explorer, Firn, Limits};

const THREADS: usize = 2;

fn assert_clean(report: &Report, at_least: u64) {
    println!("{}", report.totals);
    let findings: Vec<String> =
        report.findings.iter().map(|finding| format!("{}\n    {}", finding.token, finding.reason)).collect();
    assert!(findings.is_empty(), "replay with `firn-torture replay TOKEN`:\n{}", findings.join("\n"));
    assert!(report.totals.states >= at_least, "only {}", report.totals);
}

#[test]
fn no_cut_after_any_single_operation_breaks_a_promise() {
    let all = (0..Scenario::ace_count(1)).map(|number| Scenario::Ace { length: 1, number });
    assert_clean(&explore(&Firn::small(), Limits::default(), all, THREADS, u64::MAX, &|_| {}), 4000);
}

#[test]
fn no_cut_of_histories_of_many_operations_breaks_a_promise() {
    let report = explore(&Firn::small(), Limits::default(), mixed(1), THREADS, 32_000, &|_| {});
    assert_clean(&report, 32_000);
}

#[test]
fn no_cut_after_two_operations_breaks_a_promise() {
    // A prime stride, so that every operation meets every other.
    const STRIDE: usize = 53;
    let some = (0..Scenario::ace_count(2)).step_by(STRIDE).map(|number| Scenario::Ace { length: 2, number });
    assert_clean(&explore(&Firn::small(), Limits::default(), some, THREADS, u64::MAX, &|_| {}), 10_000);
}

#[test]
fn full_volumes_are_cleaned_while_they_are_explored() {
    let subject = Firn::small();
    for seed in 0..3 {
        let explorer = Explorer::new(&subject, Limits::default());
        let run = prepare(&explorer, &subject, &Scenario::Full { seed }).unwrap();
        let end = format!("{}:", run.history.events().len()).parse().unwrap();
        let counters = subject.counters(run.history.image(&end).unwrap()).unwrap();
        let cleaned = counters.iter().find(|(name, _)| *name == "segments_cleaned");
        assert!(cleaned.is_some_and(|(_, count)| *count > 0), "full-{seed}: {counters:?}");
    }
}
