//! What can be set, and what holds then.

use super::{Mark, Thresholds, UnfitMark};
use crate::lfs::room::segments::Room;

/// A volume of 1,000 segments, of which 600 are full.
fn room(thresholds: Thresholds) -> Room {
    Room {
        segments: 1000,
        ready: 300,
        waiting: 0,
        emptied: 0,
        pinned: 0,
        discarding: 0,
        reserve: 20,
        checkpoint: 3,
        open_logs: 3,
        live: 600,
        commits: 30,
        usable_bytes: 1000,
        segment_bytes: 1048,
        dirty_bytes: 0,
        holdable_bytes: 0,
        tables_bytes: 0,
        burst_bytes: 0,
        thresholds,
    }
}

fn set(low: Option<u64>, high: Option<u64>, idle: Option<u64>) -> Thresholds {
    Thresholds { low, high, idle }
}

fn marks(room: &Room) -> [u64; 3] {
    [room.low(), room.high(), room.idle_target()]
}

#[test]
fn marks_that_are_set_hold_and_the_others_follow() {
    assert_eq!(marks(&room(Thresholds::default())), [54, 88, 88]);
    for (thresholds, expected) in [
        (set(Some(100), None, None), [100, 180, 180]),
        (set(None, Some(200), None), [54, 200, 200]),
        (set(None, None, Some(250)), [54, 88, 250]),
        (set(Some(21), Some(21), Some(305)), [21, 21, 305]),
    ] {
        let room = room(thresholds);
        assert_eq!((room.judge(), marks(&room)), (Ok(()), expected), "{thresholds:?}");
    }
}

#[test]
fn marks_that_make_no_sense_are_refused_by_name() {
    let (least, most) = (21, 305);
    for (thresholds, expected) in [
        (set(Some(20), None, None), UnfitMark::TooLow { mark: Mark::Low, wanted: 20, least }),
        (set(Some(0), None, None), UnfitMark::TooLow { mark: Mark::Low, wanted: 0, least }),
        (set(None, Some(306), None), UnfitMark::TooHigh { mark: Mark::High, wanted: 306, most }),
        (set(None, None, Some(u64::MAX)), UnfitMark::TooHigh { mark: Mark::Idle, wanted: u64::MAX, most }),
        (
            set(Some(60), Some(40), None),
            UnfitMark::OutOfOrder { mark: Mark::High, wanted: 40, below: Mark::Low, than: 60 },
        ),
        (
            set(None, Some(40), None),
            UnfitMark::OutOfOrder { mark: Mark::High, wanted: 40, below: Mark::Low, than: 54 },
        ),
        (
            set(None, None, Some(80)),
            UnfitMark::OutOfOrder { mark: Mark::Idle, wanted: 80, below: Mark::High, than: 88 },
        ),
    ] {
        assert_eq!(room(thresholds).judge(), Err(expected), "{thresholds:?}");
    }
    // Without a volume only what contradicts itself can be refused.
    assert_eq!(set(Some(1), None, Some(1)).judge(), Ok(()));
    for thresholds in [set(Some(2), Some(1), None), set(None, Some(2), Some(1)), set(Some(2), None, Some(1))]
    {
        assert!(matches!(thresholds.judge(), Err(UnfitMark::OutOfOrder { .. })), "{thresholds:?}");
    }
}

#[test]
fn marks_sink_as_the_volume_fills_and_never_into_the_reserve() {
    let wanted = set(Some(100), Some(200), Some(300));
    for live in (600..=980).step_by(20) {
        let room = Room { live, ..room(wanted) };
        let [low, high, idle] = marks(&room);
        assert!(room.reserve < low && low <= high && high <= idle && idle <= room.most(), "{room:?}");
    }
    assert_eq!(marks(&Room { live: 980, ..room(wanted) }), [22, 22, 22]);
}
