use super::*;
use proptest::prelude::*;

fn closed(live: u8, written_s: i64) -> Cell {
    Cell { state: State::Closed, log: 1, live, written_s }
}

/// A watcher that asks until nothing is left.
fn catch_up(tracker: &Tracker, map: &mut Map, segments: u64, now_s: i64) -> usize {
    for ticks in 1.. {
        let update = tracker.since(map.revision(), now_s);
        map.apply(&update, segments, now_s).unwrap();
        if !update.more {
            return ticks;
        }
    }
    unreachable!()
}

proptest! {
    #[test]
    fn a_watcher_sees_the_volume_whatever_it_missed(
        notes in proptest::collection::vec((0_u64..50, 0_u8..8, 0_u8..6, 0_u8.., 0_i64..1000, any::<bool>()), 0..300)
    ) {
        let mut tracker = Tracker::default();
        tracker.resize(50);
        let (mut often, mut seldom) = (Map::default(), Map::default());
        let mut truth = [Cell::default(); 50];
        for (segment, state, log, live, written_s, looks) in notes {
            let cell = Cell { state: State::ALL[usize::from(state)], log, live, written_s };
            tracker.note(segment, cell);
            truth[segment as usize] = cell;
            if looks {
                catch_up(&tracker, &mut often, 50, 2000);
            }
        }
        catch_up(&tracker, &mut often, 50, 2000);
        catch_up(&tracker, &mut seldom, 50, 2000);
        prop_assert_eq!(&often, &seldom);
        for (seen, is) in often.cells().iter().zip(&truth) {
            prop_assert!(seen.is_noticeably(is), "{:?} for {:?}", seen, is);
        }
        // A recording that begins here has the same map.
        let mut read = Map::default();
        read.apply(&often.whole(often.revision(), 2000), 50, 2000).unwrap();
        prop_assert_eq!(read, often);
    }

    #[test]
    fn bytes_that_are_no_changes_are_refused_or_applied_within_the_map(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let update = MapUpdate { changes: BASE64.encode(&bytes), ..MapUpdate::default() };
        let mut map = Map::default();
        let _refused = map.apply(&update, 20, 0);
        prop_assert!(map.cells().len() <= 20);
    }
}

#[test]
fn a_large_volume_comes_in_bounded_parts_and_then_only_as_changes() {
    let segments = 100_000;
    let mut tracker = Tracker::default();
    tracker.resize(segments);
    for segment in 0..segments {
        tracker.note(segment, closed((segment % 200) as u8 + 20, segment as i64));
    }
    let mut map = Map::default();
    let first = tracker.since(0, 200_000);
    assert!(first.changes.len() < 80_000, "{} bytes", first.changes.len());
    assert_eq!(catch_up(&tracker, &mut map, segments, 200_000), 13);
    assert_eq!(tracker.since(map.revision(), 200_000).changes, "");
    for segment in (0..segments).step_by(100) {
        tracker.note(segment, closed(7, 5));
    }
    let changes = tracker.since(map.revision(), 200_000);
    assert!(changes.changes.len() < 10_000 && !changes.more, "{} bytes", changes.changes.len());
}

#[test]
fn only_what_can_be_seen_counts_as_a_change() {
    let mut tracker = Tracker::default();
    tracker.resize(1);
    let revision_after = |tracker: &mut Tracker, cell| {
        tracker.note(0, cell);
        tracker.since(0, 0).revision
    };
    assert_eq!(revision_after(&mut tracker, closed(100, 9)), 1);
    assert_eq!(revision_after(&mut tracker, closed(97, 9)), 1);
    assert_eq!(revision_after(&mut tracker, closed(96, 9)), 2);
    assert_eq!(revision_after(&mut tracker, closed(96, 10)), 3);
    assert_eq!(revision_after(&mut tracker, closed(2, 10)), 4);
    assert_eq!(revision_after(&mut tracker, closed(0, 10)), 5, "empty is not nearly empty");
}

#[test]
fn changes_on_another_revision_are_refused() {
    let mut map = Map::default();
    let update = MapUpdate { from: 7, revision: 8, ..MapUpdate::default() };
    assert_eq!(map.apply(&update, 4, 0), Err(BadUpdate::OtherRevision { from: 7, has: 0 }));
    assert_eq!(
        map.apply(&MapUpdate::default(), SEGMENTS_MAX + 1, 0),
        Err(BadUpdate::TooLarge(SEGMENTS_MAX + 1))
    );
    // Revision 9 of a daemon that has seen fewer changes is of another daemon.
    assert_eq!(Tracker::default().since(9, 0).from, 0);
}
