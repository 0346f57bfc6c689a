use super::*;
use crate::disk::layout::Zone;
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// 100 sectors of 0.1 ms a track, 2 heads; skews of 1 and 2 ms, which hide a head switch and a seek to the next cylinder.
pub(crate) fn media(head_switch_ns: i64) -> Media {
    let zone = Zone { cylinders: 1000, track_sectors: 100, track_skew: 10, cylinder_skew: 20 };
    Media {
        layout: Layout::new(2, &[zone], 0, &[]),
        rotation: Rotation::of_rpm(6000.0),
        seek: SeekCurve::TwoPieces {
            short_ms: 1.0,
            short_root_ms: 1.0,
            short_cylinders: 100,
            long_ms: 10.0,
            long_cylinder_ms: 0.01,
        },
        head_switch_ns,
        write_settle_ns: MS / 2,
    }
}

const AT_REST: Arm = Arm { cylinder: 0, head: 0, at_ns: 0 };

#[test]
fn a_run_across_tracks_costs_the_skew_and_no_more() {
    let media = media(MS);
    // Sector 95 passes at 9.5 ms, 99 ends at 10 ms; the switch takes 1 ms, and the next track begins 1 ms later.
    let passage = media.pass(AT_REST, Lbn(95), 10, 0, false);
    assert_eq!((passage.move_ns, passage.begin_ns, passage.arm.at_ns), (0, 9_500_000, 11_500_000));
    assert_eq!((passage.arm.cylinder, passage.arm.head), (0, 1));
    // Both tracks of a cylinder and the first sector of the next: 10 + 1 + 10 + 2 + 0.1 ms.
    let passage = media.pass(AT_REST, Lbn(0), 201, 0, false);
    assert_eq!(passage.arm.at_ns, 23_100_000);
}

#[test]
fn a_switch_that_the_skew_does_not_hide_costs_a_turn() {
    let passage = media(MS + 1).pass(AT_REST, Lbn(95), 10, 0, false);
    assert_eq!(passage.arm.at_ns, 21_500_000);
    // Before a write the switch takes half a millisecond more.
    let written = media(MS).pass(AT_REST, Lbn(95), 10, 0, true);
    assert_eq!(written.arm.at_ns, 21_500_000);
}

#[test]
fn a_seek_is_followed_by_the_wait_for_the_sector() {
    let media = media(MS);
    // Cylinder 4 begins at slot (4 * 30) % 100 = 20; the seek takes 1 + 2 ms, so its sector 0 passes at 12 ms.
    let passage = media.pass(AT_REST, Lbn(4 * 200), 1, 0, false);
    assert_eq!((passage.distance, passage.move_ns, passage.begin_ns), (4, 3 * MS, 12 * MS));
    assert_eq!(media.pass(AT_REST, Lbn(4 * 200), 1, 13 * MS, false).begin_ns, 22 * MS);
    assert_eq!(media.move_ns(AT_REST, Place { cylinder: 4, head: 1, sector: 0 }, true), 3_500_000);
}

#[test]
fn reading_on_stops_at_the_moment_and_at_the_limit() {
    let media = media(MS);
    let until = |ms: i64| media.read_until(AT_REST, Lbn(0), Lbn(150), ms * MS).0.0;
    assert_eq!(
        [until(0), until(5), until(10), until(11), until(12), until(16), until(99)],
        [0, 50, 100, 100, 110, 150, 150]
    );
}

proptest! {
    #[test]
    fn a_run_ends_no_earlier_if_it_is_longer_or_begins_later(
        lbn in 0u64..150_000, sectors in 1u64..400, more in 0u64..200, later_ns in 0i64..40 * MS, writes: bool,
    ) {
        let media = media(MS);
        let short = media.pass(AT_REST, Lbn(lbn), sectors, 0, writes);
        let long = media.pass(AT_REST, Lbn(lbn), sectors + more, 0, writes);
        let late = media.pass(AT_REST, Lbn(lbn), sectors, later_ns, writes);
        prop_assert!(short.begin_ns >= short.move_ns && short.move_ns >= 0);
        prop_assert!(long.arm.at_ns >= short.arm.at_ns && long.begin_ns == short.begin_ns);
        prop_assert!(late.arm.at_ns >= short.arm.at_ns && late.begin_ns >= later_ns);
        prop_assert!(late.begin_ns - later_ns.max(short.move_ns) < 10 * MS, "never more than a turn");
    }

    #[test]
    fn reading_in_two_steps_reads_the_same(lbn in 0u64..150_000, sectors in 2u64..400, cut in 0i64..60 * MS) {
        let media = media(MS);
        let limit = Lbn(lbn + sectors);
        let at_once = media.read_until(AT_REST, Lbn(lbn), limit, 100 * MS);
        let (next, arm) = media.read_until(AT_REST, Lbn(lbn), limit, cut);
        prop_assert!(arm.at_ns <= cut);
        prop_assert_eq!(media.read_until(arm, next, limit, 100 * MS), at_once);
        prop_assert_eq!(at_once.1, media.pass(AT_REST, Lbn(lbn), sectors, 0, false).arm);
    }
}
