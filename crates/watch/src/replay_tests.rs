use super::*;
use crate::recording::tests::recorded;
use std::io::Cursor;

fn replay(ticks: u64) -> (Replay<Cursor<Vec<u8>>>, Vec<State>) {
    let (bytes, states) = recorded(ticks);
    let reader = Reader::new(Cursor::new(bytes)).unwrap();
    (Replay::new(reader, Instant::now()).unwrap(), states)
}

fn second(replay: &Replay<Cursor<Vec<u8>>>) -> i64 {
    replay.state.last.as_ref().unwrap().now_ns / 1_000_000_000
}

#[test]
fn time_passes_at_the_speed_that_was_chosen() {
    let (mut replay, _) = replay(150);
    assert_eq!(second(&replay), 0);
    assert!(!replay.advance(Duration::from_millis(900)));
    assert!(replay.advance(Duration::from_millis(200)));
    assert_eq!(second(&replay), 1);
    replay.act(Action::Speed(2.0));
    replay.act(Action::Speed(2.0));
    replay.advance(Duration::from_secs(10));
    assert_eq!(second(&replay), 41);
    replay.advance(Duration::from_secs(100));
    assert!(replay.is_over() && second(&replay) == 149);
    assert!(replay.label().contains("END"));
}

#[test]
fn after_a_seek_map_rates_and_history_are_those_of_that_time() {
    let (mut replay, states) = replay(150);
    for (by_s, expected) in
        [(130.0, 130), (-60.0, 70), (-10.0, 60), (-1.0, 59), (f64::NEG_INFINITY, 0), (1e9, 149)]
    {
        replay.act(Action::Seek(by_s));
        assert_eq!(second(&replay), expected as i64);
        assert_eq!(replay.state.map.cells(), states[expected].map.cells(), "{expected}");
        let history = replay.state.history.len();
        assert!(history >= expected.min(59), "{history} at {expected}");
        assert_eq!(replay.state.rates().user, states[expected].rates().user);
    }
}

#[test]
fn every_tick_can_be_had_without_waiting() {
    let (mut replay, _) = replay(150);
    let rest = (0..1000).take_while(|_| replay.next_tick()).count();
    assert_eq!((rest, second(&replay)), (149, 149));
    assert_eq!((replay.damage(), replay.is_torn()), (None, false));
}

#[test]
fn a_damaged_block_is_left_out_and_named() {
    let (mut bytes, states) = recorded(150);
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    let reader = Reader::new(Cursor::new(bytes)).unwrap();
    let mut replay = Replay::new(reader, Instant::now()).unwrap();
    replay.advance(Duration::from_secs(1000));
    assert_eq!(second(&replay), 149);
    assert_eq!(replay.state.map.cells(), states[149].map.cells());
    assert!(replay.label().contains("DAMAGED"), "{}", replay.label());
}
