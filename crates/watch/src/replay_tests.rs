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

#[test]
fn a_step_is_one_tick_and_pauses() {
    let (mut replay, _) = replay(150);
    replay.act(Action::Step);
    replay.act(Action::Step);
    assert_eq!(second(&replay), 2);
    assert!(replay.label().contains("PAUSED"), "{}", replay.label());
    assert_eq!(replay.unanswered(), "not recorded");
}

#[test]
fn months_of_a_simulation_take_a_minute_and_hours_of_a_mount_their_time() {
    for (is_of_simulation, speed) in [(true, 32_768.0), (false, 1.0)] {
        let mut writer = crate::recording::Writer::new(Vec::new()).unwrap();
        let mut state = State::default();
        for day in 0..20 {
            let mut tick = crate::samples::tick(&crate::samples::Sample::default());
            tick.now_ns = day * 86_400_000_000_000;
            if is_of_simulation {
                tick.requests.clear();
            }
            state.add(tick).unwrap();
            writer.add(&state).unwrap();
        }
        let reader = Reader::new(Cursor::new(writer.finish().unwrap())).unwrap();
        assert_eq!(Replay::new(reader, Instant::now()).unwrap().speed, speed);
    }
}

#[test]
fn ticks_of_the_same_time_are_each_a_step() {
    let mut writer = crate::recording::Writer::new(Vec::new()).unwrap();
    let mut state = State::default();
    for second in [0, 1, 1, 1, 2] {
        let sample = crate::samples::Sample { second, ..Default::default() };
        state.add(crate::samples::tick(&sample)).unwrap();
        writer.add(&state).unwrap();
    }
    let reader = Reader::new(Cursor::new(writer.finish().unwrap())).unwrap();
    let mut replay = Replay::new(reader, Instant::now()).unwrap();
    assert_eq!((0..9).take_while(|_| replay.next_tick()).count(), 4);
}
