use super::*;
use crate::samples::{Sample, tick};

#[test]
fn rates_are_differences_over_the_time_of_the_ticks() {
    let mut state = State::default();
    state.add(tick(&Sample { second: 0, ..Sample::default() })).unwrap();
    assert_eq!(state.rates(), Rates::default());
    state
        .add(tick(&Sample {
            second: 2,
            user_mb: 100,
            log_mb: 150,
            moved_mb: 20,
            metadata_mb: 10,
            ..Sample::default()
        }))
        .unwrap();
    let rates = state.rates();
    assert_eq!((rates.user, rates.log, rates.cleaner, rates.metadata), (50e6, 75e6, 10e6, 5e6));
    assert_eq!(rates.write_amplification, Some(1.5));
    state
        .add(tick(&Sample {
            second: 3,
            user_mb: 100,
            log_mb: 150,
            moved_mb: 20,
            metadata_mb: 10,
            ..Sample::default()
        }))
        .unwrap();
    assert_eq!(state.rates().user, 0.0);
    assert_eq!(state.rates().write_amplification, Some(1.5), "over the last ten ticks");
}

#[test]
fn time_to_full_follows_the_trend_and_is_unknown_without_one() {
    let mut state = State::default();
    let sample = |second, used_mb| tick(&Sample { second, used_mb, ..Sample::default() });
    for second in 0..5 {
        state.add(sample(second, 100 + 10 * second)).unwrap();
    }
    assert_eq!(state.seconds_to_full(), None, "too little history");
    state.add(sample(5, 150)).unwrap();
    let left = state.seconds_to_full().unwrap();
    assert!((left - 85.0).abs() < 0.1, "{left} for 850 MB at 10 MB/s");
    for second in 6..70 {
        state.add(sample(second, 150)).unwrap();
    }
    assert_eq!(state.seconds_to_full(), None, "it does not grow any more");
    assert_eq!(state.history.len(), HISTORY);
    // A segment is 1 MiB: 1 MB more may be metadata that come and go, 2 MB are growth.
    state.add(sample(70, 151)).unwrap();
    assert_eq!(state.seconds_to_full(), None);
    state.add(sample(71, 152)).unwrap();
    assert!(state.seconds_to_full().is_some());
}

#[test]
fn a_victim_counts_once_even_if_two_ticks_name_it() {
    let mut state = State::default();
    let victim = |serial, segment| Victim { serial, segment, live_bytes: 300_000, ..Victim::default() };
    let sample = tick(&Sample::default());
    state.add(Tick { taken: 1, ..sample.clone() }).unwrap();
    let revision = state.map.revision();
    let map = crate::tick::MapUpdate { from: revision, revision, ..Default::default() };
    let mut add = |taken, victims| {
        state.add(Tick { taken, victims, map: map.clone(), ..sample.clone() }).unwrap();
        (state.victim_shares[2], state.victims.len(), state.lit.iter().copied().collect::<Vec<_>>())
    };
    assert_eq!(add(3, vec![victim(2, 5), victim(3, 6)]), (2, 2, vec![5, 6]));
    assert_eq!(add(4, vec![victim(3, 6), victim(4, 7)]), (3, 3, vec![7]));
    assert_eq!(add(4, Vec::new()), (3, 3, Vec::new()));
}

#[test]
fn victims_of_before_the_watch_are_the_last_ones_but_neither_lit_nor_counted() {
    let mut state = State::default();
    let victims = (1..=9).map(|serial| Victim { serial, segment: serial, ..Victim::default() }).collect();
    state.add(Tick { taken: 9, victims, ..tick(&Sample::default()) }).unwrap();
    assert_eq!((state.victims.len(), state.victim_shares.iter().sum::<u64>()), (9, 0));
    assert!(!state.is_lit(0..1000));
}

#[test]
fn events_name_what_changed() {
    let was = tick(&Sample::default());
    let mut is = tick(&Sample { second: 1, ..Sample::default() });
    let texts = |is: &Tick| -> Vec<String> {
        let rates = rates_between(&was, is);
        events_between(&was, is, &rates).into_iter().map(|event| event.text).collect()
    };
    assert_eq!(texts(&is), Vec::<String>::new());
    is.read_only = Some("a write failed".to_owned());
    is.damage = vec!["segment 4 is quarantined".to_owned()];
    is.stalls = crate::tick::Stalls {
        count: 2,
        total_ns: 30_000_000,
        longest_ns: 20_000_000,
        ..crate::tick::Stalls::default()
    };
    is.marks.ready = is.marks.low - 1;
    is.counters.checkpoints = 1;
    is.counters.emptied = 3;
    is.counters.cleaned = 4;
    is.counters.moved_bytes = 2 << 20;
    assert_eq!(
        texts(&is),
        [
            "read-only: a write failed",
            "segment 4 is quarantined",
            "2 waits for room, mean 15 ms",
            "19 clean: below low (20)",
            "checkpoint; 3 found empty",
            "cleaned 4 when idle (2.0 MiB)",
        ]
    );
}

#[test]
fn a_line_fits_79_columns_and_an_object_says_the_same() {
    let mut state = State::default();
    for second in 0..20 {
        let busy = Sample {
            second,
            user_mb: 12_345 * second,
            log_mb: 23_456 * second,
            moved_mb: 11_111 * second,
            metadata_mb: 1_111 * second,
            used_mb: 100 + second,
            requests: 1000 * second,
        };
        state.add(tick(&busy)).unwrap();
    }
    let line = crate::line::line(&state);
    assert!(line.chars().count() <= 79, "{line}");
    // Segments cleaned are all that became clean, as in stat.
    let mut next = state.last.clone().unwrap();
    next.now_ns += 1_000_000_000;
    next.counters.cleaned += 4;
    next.counters.emptied += 3;
    state.add(next).unwrap();
    let line = crate::line::line(&state);
    assert_eq!(line.split_whitespace().rev().nth(2), Some("7"), "{line}");
    assert!(crate::line::HEADING.lines().all(|line| line.len() <= 79));
}

#[test]
fn a_line_says_why_nothing_is_written_and_the_largest_numbers_fit_79_columns() {
    let mut state = State::default();
    state.add(tick(&Sample::default())).unwrap();
    let mut next = tick(&Sample { second: 1, log_mb: 99_999, moved_mb: 99_999, ..Sample::default() });
    next.counters = crate::tick::Counters { user_bytes: 9, cleaned: 999_999, ..next.counters };
    next.marks.ready = 2_000_000;
    next.stalls = crate::tick::Stalls { count: 9999, total_ns: 9999 * 990_000_000, ..next.stalls };
    next.requests[0] =
        crate::tick::Requests { requests: 1, busy_ns: 990_000_000, ..next.requests[0].clone() };
    state.add(next.clone()).unwrap();
    let line = crate::line::line(&state);
    assert!(line.ends_with(" 990 ms 9999 x 990 ms") && line.chars().count() <= 79, "{line}");
    next.is_frozen = true;
    state.add(next.clone()).unwrap();
    assert!(crate::line::line(&state).ends_with(" frozen"));
    next.read_only = Some("a write failed".to_owned());
    state.add(next).unwrap();
    assert!(crate::line::line(&state).ends_with(" read-only"));
}
