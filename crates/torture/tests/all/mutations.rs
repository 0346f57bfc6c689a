//! The crash explorer detects flaws: firnfs with one mechanism of recovery disabled at a time; each flaw must be caught.
//!
//! Some mechanisms are disabled in the core (`firnfs::mutation`), some between the driver and the disk: flushes that never
//! reach the disk, and checksums that are corrected on the way in, whatever was read (`flawed`).
//!
//! One search finds them all: the mixture of scenarios that a campaign uses, from its beginning. No scenario was made for a
//! flaw; the test prints how many states each took (`-- --nocapture`).

mod flawed;

use firnfs::lfs::Options;
use firnfs::mutation::{ALL, Mutation};
use firnfs_torture::crash::campaign::explore_one;
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::soak::mixed;
use firnfs_torture::crash::{Firn, Limits, Seen, Totals};
use flawed::{Flaw, Mutant};
use std::time::Instant;

/// Where the mixture begins.
const SEED: u64 = 2;
/// States to judge before a flaw counts as missed.
const STATES_MAX: u64 = 60_000;
/// States of one scenario.
const STATES_OF_ONE_MAX: u64 = 200;

/// Many scenarios rather than many states of each, fewest of those that take long to read. Every other one has much rot and many cuts of
/// recovery. Those between have hardly any, and half as many states, because most flaws that show late need another history, not
/// another cut: all flaws together are found in half of the time that it takes with much of both everywhere.
fn limits(scenario: &Scenario, number: usize) -> Limits {
    let states_max = (scenario.states_max() / 3).clamp(40, STATES_OF_ONE_MAX);
    let many = Limits { rot_every: 2, nested_every: 10, nested_states: 6, states_max, ..Limits::default() };
    match number % 2 {
        0 => Limits { rot_every: 20, nested_every: 50, states_max: states_max / 2, ..many },
        _ => many,
    }
}

/// Explores the mixture with a flaw until it shows.
fn assert_is_caught(flaw: Flaw) {
    // All points are in the checkpoint slot, unless it is about their file.
    let in_slot = Options { slot_points: 128, ..Firn::small().options };
    let firn = match flaw {
        Flaw::Core(Mutation::LeaveAtOnce) => Firn { options: in_slot, ..Firn::shrinking() },
        Flaw::Core(Mutation::RowsStay) => Firn::small(),
        _ => Firn { options: in_slot, ..Firn::small() },
    };
    let subject = Mutant { firn, flaw };
    let (seen, mut totals, began) = (Seen::new(), Totals::default(), Instant::now());
    for (number, scenario) in mixed(SEED).enumerate() {
        let (more, finding) = explore_one(&subject, limits(&scenario, number), &scenario, &seen);
        totals.add(&more);
        if let Some(finding) = finding {
            let reason: String = finding.reason.chars().take(200).collect();
            let seconds = began.elapsed().as_secs_f64();
            println!("{flaw:?} after {} states, {seconds:.1} s: {} {reason}", totals.judged, finding.token);
            return;
        }
        assert!(totals.judged < STATES_MAX, "{flaw:?} is not caught: {totals}");
    }
}

macro_rules! each_is_caught {
    ($($name:ident: $flaw:expr;)*) => {
        const TESTED: &[Flaw] = &[$($flaw),*];
        $(
            #[test]
            fn $name() {
                assert_is_caught($flaw);
            }
        )*
    };
}

each_is_caught! {
    a_missing_flush_of_the_log_is_caught: Flaw::NoLogFlush;
    a_missing_flush_of_a_checkpoint_slot_is_caught: Flaw::NoSlotFlush;
    a_missing_checksum_of_checkpoints_is_caught: Flaw::UncheckedSlots;
    a_missing_checksum_of_summaries_is_caught: Flaw::UncheckedSummaries;
    a_missing_checksum_of_superblocks_is_caught: Flaw::UncheckedSuperblock;
    a_checkpoint_before_its_log_is_caught: Flaw::Core(Mutation::SlotBeforeLog);
    a_flush_before_earlier_serials_is_caught: Flaw::Core(Mutation::FlushBeforeWritten);
    a_log_write_before_the_incarnation_is_caught: Flaw::Core(Mutation::LogBeforeIncarnation);
    an_incarnation_in_one_slot_is_caught: Flaw::Core(Mutation::IncarnationInOneSlot);
    checkpoints_in_one_slot_are_caught: Flaw::Core(Mutation::OneSlot);
    missing_checks_of_incarnation_and_predecessor_are_caught: Flaw::Core(Mutation::AnyOrigin);
    a_missing_check_of_the_incarnation_is_caught: Flaw::Core(Mutation::AnyIncarnation);
    a_missing_check_of_the_predecessor_is_caught: Flaw::Core(Mutation::AnyPredecessor);
    a_missing_checksum_of_blocks_is_caught: Flaw::Core(Mutation::UncheckedBlocks);
    a_batch_without_its_end_is_caught: Flaw::Core(Mutation::AnyBatch);
    a_segment_discarded_too_early_is_caught: Flaw::Core(Mutation::DiscardAtOnce);
    a_segment_written_again_too_early_is_caught: Flaw::Core(Mutation::ReuseAtOnce);
    an_end_left_before_checkpoints_say_so_is_caught: Flaw::Core(Mutation::LeaveAtOnce);
    a_missing_checksum_of_reads_is_caught: Flaw::Core(Mutation::UncheckedReads);
    segments_written_while_they_are_read_are_caught: Flaw::Core(Mutation::NoPins);
    a_batch_that_is_changed_while_it_is_laid_out_is_caught: Flaw::Core(Mutation::ThawedBatch);
    an_fsync_that_leaves_out_names_is_caught: Flaw::Core(Mutation::FsyncWithoutNames);
    limits_apart_from_names_are_caught: Flaw::Core(Mutation::LimitsApart);
    usage_that_a_mount_does_not_count_is_caught: Flaw::Core(Mutation::UncountedUsage);
    usage_without_what_changes_between_operations_is_caught: Flaw::Core(Mutation::ForgottenRecharges);
    a_death_that_frees_what_a_point_has_seen_is_caught: Flaw::Core(Mutation::SeenDiesAtOnce);
    a_move_without_a_remnant_is_caught: Flaw::Core(Mutation::MovesWithoutRemnants);
    a_remnant_of_an_earlier_visit_is_caught: Flaw::Core(Mutation::RemnantsOfAnyTime);
    a_newer_state_compared_where_it_was_is_caught: Flaw::Core(Mutation::NewerAsItWas);
    copies_of_the_past_taken_for_the_present_are_caught: Flaw::Core(Mutation::PastRolledForward);
    remnants_of_a_checkpoint_that_never_was_are_caught: Flaw::Core(Mutation::RemnantsRolledForward);
    a_drop_that_frees_what_an_older_point_sees_is_caught: Flaw::Core(Mutation::OlderFreed);
    a_drop_that_frees_what_a_newer_point_sees_is_caught: Flaw::Core(Mutation::NewerFreed);
    a_drop_that_begins_anew_is_caught: Flaw::Core(Mutation::DropsBeginAnew);
    a_row_of_a_point_that_was_dropped_is_caught: Flaw::Core(Mutation::RowsStay);
    a_point_in_one_slot_is_caught: Flaw::Core(Mutation::PointInOneSlot);
    what_dies_with_a_clone_although_it_shares_it_is_caught: Flaw::Core(Mutation::SharedDies);
    a_clone_that_names_places_of_later_moves_is_caught: Flaw::Core(Mutation::ClonesFollowAll);
    a_clone_erased_before_a_checkpoint_says_so_is_caught: Flaw::Core(Mutation::ErasedAtOnce);
    changes_that_are_not_held_back_are_caught: Flaw::Core(Mutation::NothingHeldBack);
    retention_that_lets_the_newest_go_is_caught: Flaw::Core(Mutation::NewestGoesFirst);
}

#[test]
fn every_mutation_of_the_core_has_its_test() {
    for mutation in ALL {
        assert!(TESTED.contains(&Flaw::Core(*mutation)), "{mutation:?}");
    }
}
