//! The crash explorer sees: firnfs with one thing taken away on which recovery rests, one at a time; each must be caught.
//!
//! Some are taken away in the core (`firnfs::mutation`), some between the driver and the disk: flushes that never reach
//! it, and checksums that are made right on the way in, whatever was read (`flawed`).
//!
//! The quick tests show each flaw where it is known to show. The long ones look for it everywhere, as if nobody knew:
//! `cargo test --release -p firnfs-torture --test mutations -- --ignored --nocapture`.
//!
//! What no power cut can show has scenes of its own (`scenes`): a predecessor's checksum tells apart what incarnation and
//! serial do already, unless two histories of one volume meet on a mirror; checksums of reads and pins of readers need
//! rot and a reader that takes its time. And what hardly a state shows is made on purpose there.

mod flawed;
mod scenes;

use firnfs::mutation::Mutation;
use firnfs_torture::crash::campaign::{Finding, explore_one, mixed};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::{Firn, Limits};
use flawed::{Flaw, Mutant};

/// States to look at before a flaw counts as not caught.
const STATES_MAX: u64 = 100_000;

fn limits() -> Limits {
    Limits { rot_every: 3, nested_every: 10, ..Limits::default() }
}

/// Explores some scenarios with a flaw until it shows.
fn hunt(
    subject: &Mutant,
    limits: Limits,
    scenarios: impl Iterator<Item = Scenario>,
) -> (Option<Finding>, u64) {
    let mut states = 0;
    for scenario in scenarios {
        let (totals, finding) = explore_one(subject, limits, &scenario);
        states += totals.states;
        if finding.is_some() || states >= STATES_MAX {
            return (finding, states);
        }
    }
    (None, states)
}

fn assert_caught(flaw: Flaw, (finding, states): (Option<Finding>, u64)) {
    let finding = finding.unwrap_or_else(|| panic!("{flaw:?} is not caught in {states} states"));
    let reason: String = finding.reason.chars().take(300).collect();
    println!("{flaw:?} after {states} states: {} {reason}", finding.token);
}

/// Everywhere.
fn caught(flaw: Flaw) {
    let bounded = (0..Scenario::ace_count(1)).map(|number| Scenario::Ace { length: 1, number });
    let full = (0..2).map(|seed| Scenario::Full { seed });
    let subject = Mutant { firn: Firn::small(), flaw };
    let limits = Limits { check: false, ..limits() };
    assert_caught(flaw, hunt(&subject, limits, full.chain(bounded).chain(mixed(3))));
}

/// In one scenario, where it is known to show.
fn caught_in(flaw: Flaw, scenario: &str) {
    let subject = Mutant { firn: Firn::small(), flaw };
    assert_caught(flaw, hunt(&subject, limits(), [scenario.parse().unwrap()].into_iter()));
}

/// What a mount left in one log is not taken for the beginning of the next mount's, which went to another. The volume
/// commits late, so that a batch of names alone is larger than a segment and goes to the log of metadata.
#[test]
fn a_missing_check_of_the_incarnation_is_caught() {
    let flaw = Flaw::Core(Mutation::AnyIncarnation);
    let mut firn = Firn::small();
    firn.options.write_threshold_bytes = 1 << 20;
    let stale = (0..8).map(|pair| Scenario::Stale { seed: 2 * pair, round: 1 });
    assert_caught(flaw, hunt(&Mutant { firn, flaw }, limits(), stale));
}

/// A repair rests on what every other writer rests on.
#[test]
fn a_repair_that_writes_its_slot_before_its_log_or_without_flushes_is_caught() {
    for flaw in [Flaw::NoLogFlush, Flaw::Core(Mutation::SlotBeforeLog)] {
        let subject = Mutant { firn: Firn::small(), flaw };
        assert_caught(flaw, hunt(&subject, limits(), (0..40).map(|seed| Scenario::Mend { seed })));
    }
}

macro_rules! every_one_is_caught {
    ($($name:ident: $flaw:expr, $scenario:literal;)*) => {
        mod where_it_is_known_to_show {
            use super::*;
            $(
                #[test]
                fn $name() {
                    caught_in($flaw, $scenario);
                }
            )*
        }

        $(
            #[test]
            #[ignore = "long: cargo test --release -p firnfs-torture --test mutations -- --ignored"]
            fn $name() {
                caught($flaw);
            }
        )*
    };
}

every_one_is_caught! {
    a_missing_flush_of_the_log_is_caught: Flaw::NoLogFlush, "full-0";
    a_missing_flush_of_a_checkpoint_slot_is_caught: Flaw::NoSlotFlush, "ace1-0";
    a_missing_checksum_of_checkpoints_is_caught: Flaw::UncheckedSlots, "full-0";
    a_checkpoint_before_its_log_is_caught: Flaw::Core(Mutation::SlotBeforeLog), "full-0";
    a_flush_before_earlier_serials_is_caught: Flaw::Core(Mutation::FlushBeforeWritten), "full-0";
    a_log_write_before_the_incarnation_is_caught: Flaw::Core(Mutation::LogBeforeIncarnation), "ace1-45";
    an_incarnation_in_one_slot_is_caught: Flaw::Core(Mutation::IncarnationInOneSlot), "ace1-25";
    checkpoints_in_one_slot_are_caught: Flaw::Core(Mutation::OneSlot), "full-0";
    missing_checks_of_incarnation_and_predecessor_are_caught: Flaw::Core(Mutation::AnyOrigin), "stale-2.1";
    a_missing_checksum_of_blocks_is_caught: Flaw::Core(Mutation::UncheckedBlocks), "full-0";
    a_batch_without_its_end_is_caught: Flaw::Core(Mutation::AnyBatch), "long-10";
    an_fsync_that_leaves_out_names_is_caught: Flaw::Core(Mutation::FsyncWithoutNames), "ace1-33";
}

#[test]
#[ignore = "long: cargo test --release -p firnfs-torture --test mutations -- --ignored"]
fn a_segment_discarded_too_early_is_caught() {
    caught(Flaw::Core(Mutation::DiscardAtOnce));
}
