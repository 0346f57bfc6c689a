//! Every claim can hold, and every claim can fail.

use super::*;
use crate::cleaning::figures::published;
use crate::cleaning::limits;

fn known(mean: f64) -> Interval {
    Interval { mean, half_width: 0.001 * mean }
}

/// The outcome that theory predicts for uniform writes, in segments of 100 blocks cleaned in two sharp peaks.
fn outcome(condition: &Condition, peaks: [u32; 2]) -> Outcome {
    let cleaned = limits::cleaned_utilisation(condition.utilisation);
    let mut victims = Histogram::default();
    peaks.into_iter().for_each(|live| victims.add(live, 100));
    Outcome {
        write_amplification: known(limits::amplification(cleaned)),
        write_cost: known(2.0 * limits::amplification(cleaned)),
        cleaned_utilisation: known(cleaned),
        empty_share: 0.0,
        small_writes: 0.0,
        is_steady: true,
        warm_up_volumes: 5.0,
        measured_volumes: 20.0,
        blocks_written: 1,
        ideal_separation: None,
        at_start: victims.clone(),
        victims,
    }
}

/// The same results with distorted costs, utilisations or peaks of the first run, or of all.
fn distorted(claim: &Claim) -> Vec<Vec<Outcome>> {
    let honest = |peaks| -> Vec<Outcome> { claim.conditions.iter().map(|c| outcome(c, peaks)).collect() };
    let mut all = Vec::new();
    for step in 0..400 {
        let factor = 0.05 * 1.02f64.powi(step);
        let mut first = honest([20, 80]);
        first[0].write_cost = known(first[0].write_cost.mean * factor);
        let mut every = honest([20, 80]);
        for outcome in &mut every {
            outcome.cleaned_utilisation = known(outcome.cleaned_utilisation.mean * factor);
        }
        all.extend([first, every]);
    }
    all.extend((1..50).map(|live| honest([live, live + 50])));
    all
}

fn judge(claim: &Claim, outcomes: &[Outcome]) -> Verdict {
    claim.judge(&outcomes.iter().collect::<Vec<_>>())
}

fn claims() -> Vec<Claim> {
    published::paper().into_iter().chain(published::independent()).collect()
}

#[test]
fn every_claim_holds_for_some_measurements_and_fails_for_others() {
    for claim in claims() {
        let verdicts: Vec<bool> =
            distorted(&claim).iter().map(|outcomes| judge(&claim, outcomes).holds).collect();
        assert!(verdicts.contains(&true), "nothing satisfies {claim:?}");
        assert!(verdicts.contains(&false), "everything satisfies {claim:?}");
    }
}

#[test]
fn no_claim_holds_for_runs_that_were_not_steady_or_know_nothing() {
    for claim in claims() {
        for outcomes in distorted(&claim).iter_mut().filter(|outcomes| judge(&claim, outcomes).holds) {
            outcomes[0].is_steady = false;
            let verdict = judge(&claim, outcomes);
            assert!(!verdict.holds && !verdict.is_steady, "{claim:?}");
            outcomes[0].is_steady = true;
            for outcome in outcomes.iter_mut() {
                outcome.write_cost = Interval { half_width: f64::INFINITY, ..outcome.write_cost };
                outcome.cleaned_utilisation = Interval { mean: f64::NAN, half_width: 0.0 };
                outcome.victims = Histogram::default();
            }
            assert!(!judge(&claim, outcomes).holds, "{claim:?}");
        }
    }
}

#[test]
fn the_whole_interval_has_to_satisfy_a_claim() {
    let interval = |mean, half_width| Interval { mean, half_width };
    for (expected, inside, across) in [
        (Expected::Near(0.5, 0.1), interval(0.55, 0.04), interval(0.55, 0.06)),
        (Expected::Within(10.0, 0.02), interval(9.9, 0.09), interval(9.9, 0.11)),
        (Expected::Below(4.0), interval(3.9, 0.09), interval(3.9, 0.11)),
        (Expected::Above(1.0), interval(1.02, 0.01), interval(1.02, 0.03)),
    ] {
        assert!(expected.is_met(inside) && !expected.is_met(across), "{expected:?}");
    }
}

#[test]
fn a_known_miss_that_holds_is_against_the_record() {
    let condition = Condition::PAPER;
    let new = |expected| Claim::new("", "", vec![condition], Measure::Cost, expected);
    let outcomes = [outcome(&condition, [20, 80])];
    for (claim, is_as_recorded) in [
        (new(Expected::Below(9.0)), true),
        (new(Expected::Above(9.0)), false),
        (new(Expected::Below(9.0)).missed("so it is"), false),
        (new(Expected::Above(9.0)).missed("so it is"), true),
    ] {
        assert_eq!(claim.is_as_recorded(&judge(&claim, &outcomes)), is_as_recorded, "{claim:?}");
    }
}
