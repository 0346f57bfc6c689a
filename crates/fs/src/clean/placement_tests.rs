//! The properties that placements promise.

use super::*;

fn by_user(age: u64, log: u8) -> BlockFacts {
    BlockFacts { writer: Writer::User, age: Some(age), log: Some(log), moves: 0 }
}

fn by_cleaner(age: u64, log: u8, moves: u8) -> BlockFacts {
    BlockFacts { writer: Writer::Cleaner, age: Some(age), log: Some(log), moves }
}

const NEW: BlockFacts = BlockFacts { writer: Writer::User, age: None, log: None, moves: 0 };

fn cleaned(placement: &mut impl Placement, log: u8, age: u64) {
    for _ in 0..100 {
        placement.segment_cleaned(&Cleaned { log, age });
    }
}

#[test]
fn temperature_rises_with_writes_and_falls_with_moves_and_stays_in_range() {
    let dac = Dac { logs: 4, start: 2 };
    assert_eq!(dac.log_for(&NEW), 2);
    assert_eq!([0, 1, 2, 3].map(|log| dac.log_for(&by_user(5, log))), [1, 2, 3, 3]);
    assert_eq!([0, 1, 2, 3].map(|log| dac.log_for(&by_cleaner(5, log, 0))), [0, 0, 1, 2]);
}

#[test]
fn a_leap_goes_as_far_as_segments_outlive_the_block() {
    let mut dac = LeapingDac::new(Dac { logs: 5, start: 2 });
    // Nothing has been cleaned yet: one step.
    assert_eq!(dac.log_for(&by_user(1, 0)), 1);
    for (log, age) in [(0, 8000), (1, 4000), (2, 2000), (3, 1000), (4, 500)] {
        cleaned(&mut dac, log, age);
    }
    let leap = |age| dac.log_for(&by_user(age, 0));
    assert_eq!([5000, 1900, 900, 400].map(leap), [1, 2, 3, 4]);
    // Never back, and moves go one step.
    assert_eq!(dac.log_for(&by_user(5000, 3)), 4);
    assert_eq!(dac.log_for(&by_cleaner(100_000, 4, 0)), 3);
}

#[test]
fn sepbit_sorts_by_life_span_and_age_against_the_short_lived() {
    let mut sepbit = SepBit::default();
    assert_eq!([sepbit.log_for(&NEW), sepbit.log_for(&by_user(1 << 40, 3))], [1, 0]);
    cleaned(&mut sepbit, 0, 100);
    // Other logs do not change its threshold.
    cleaned(&mut sepbit, 1, 1_000_000);
    assert_eq!([99, 100].map(|age| sepbit.log_for(&by_user(age, 5))), [0, 1]);
    assert_eq!(sepbit.log_for(&by_cleaner(10_000, 0, 0)), 2);
    assert_eq!([399, 400, 1599, 1600].map(|age| sepbit.log_for(&by_cleaner(age, 1, 0))), [3, 4, 4, 5]);
}

#[test]
fn mida_counts_moves() {
    let mida = Mida { logs: 3 };
    assert_eq!(mida.log_for(&by_user(7, 2)), 0);
    assert_eq!([0, 1, 2, 255].map(|moves| mida.log_for(&by_cleaner(7, 0, moves))), [1, 2, 2, 2]);
}

#[test]
fn every_log_is_below_the_number_of_logs_whatever_the_facts() {
    let dac = |logs| Dac { logs, start: logs / 2 };
    let mut all: Vec<Box<dyn Placement>> =
        vec![Box::new(OneLog), Box::new(Split), Box::new(SepBit::default())];
    for logs in 1..=MAX_OPEN_LOGS as u8 {
        all.extend([
            Box::new(dac(logs)) as Box<dyn Placement>,
            Box::new(LeapingDac::new(dac(logs))),
            Box::new(Mida { logs }),
            Box::new(SepBit::with_logs(logs)),
        ]);
    }
    for placement in &mut all {
        for log in 0..=u8::MAX {
            // Logs of a volume that was written with other settings, and clocks that were wrong.
            placement.segment_cleaned(&Cleaned { log, age: u64::MAX });
            placement.segment_cleaned(&Cleaned { log: 0, age: u64::MAX });
            for facts in [by_user(0, log), by_user(u64::MAX, log), by_cleaner(u64::MAX, log, log), NEW] {
                assert!(placement.log_for(&facts) < placement.logs(), "{facts:?}");
            }
        }
    }
}
