use super::*;
use crate::samples::{Sample, tick, tracker};
use proptest::prelude::*;
use std::io::Cursor;

/// A recording of that many ticks a second apart, and the states after each.
pub fn recorded(ticks: u64) -> (Vec<u8>, Vec<State>) {
    let mut tracker = tracker(0);
    let mut state = State::default();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut states = Vec::new();
    for second in 0..ticks {
        tracker.note(second % 1000, crate::map::Cell { live: 9, ..Default::default() });
        let map = tracker.since(state.map.revision(), second as i64);
        let sample = Sample { second, user_mb: 10 * second, ..Sample::default() };
        state.add(Tick { map, ..tick(&sample) }).unwrap();
        assert!(writer.add(&state).unwrap());
        states.push(state.clone());
    }
    (writer.finish().unwrap(), states)
}

#[test]
fn all_ticks_come_back_and_the_map_with_them() {
    let (bytes, states) = recorded(150);
    let mut reader = Reader::new(Cursor::new(&bytes)).unwrap();
    assert_eq!(reader.blocks().iter().map(|block| block.ticks).collect::<Vec<_>>(), [60, 60, 30]);
    assert!(!reader.is_torn());
    for block in 0..3 {
        // Each block can be read by itself.
        let mut read = State::default();
        for (n, tick) in (60 * block..).zip(reader.ticks(block).unwrap()) {
            read.add(tick).unwrap();
            assert_eq!(read.map.cells(), states[n].map.cells(), "tick {n}");
            assert_eq!(read.last.as_ref().unwrap().counters, states[n].last.as_ref().unwrap().counters);
        }
    }
    assert!(bytes.len() < 150 * 200, "{} bytes", bytes.len());
}

#[test]
fn a_recording_that_was_cut_off_is_read_as_far_as_it_is_whole() {
    let (bytes, _) = recorded(150);
    let whole = Reader::new(Cursor::new(&bytes)).unwrap();
    let last = whole.blocks()[2].at as usize;
    for len in [last, last + 1, last + 35, bytes.len() - 1] {
        let reader = Reader::new(Cursor::new(&bytes[..len])).unwrap();
        assert_eq!((reader.blocks().len(), reader.is_torn()), (2, len != last), "{len} bytes");
    }
    assert!(matches!(Reader::new(Cursor::new(&bytes[..11])), Err(BadRecording::NotOne)));
}

#[test]
fn every_changed_bit_is_noticed() {
    let (bytes, _) = recorded(3);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let read = Reader::new(Cursor::new(&damaged)).and_then(|mut reader| {
            let torn = reader.is_torn();
            reader.ticks(0).map(|ticks| (torn, ticks.len()))
        });
        assert!(matches!(read, Err(_) | Ok((true, 0))), "bit {} of byte {at}: {read:?}", at % 8);
    }
}

#[test]
fn a_later_version_is_named() {
    let (mut bytes, _) = recorded(1);
    bytes[8] = 2;
    let error = Reader::new(Cursor::new(&bytes)).err().unwrap();
    assert_eq!(error.to_string(), "it has version 2, and this firn reads version 1");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut file = MAGIC.to_vec();
        file.extend_from_slice(&VERSION.to_le_bytes());
        file.extend_from_slice(&bytes);
        if let Ok(mut reader) = Reader::new(Cursor::new(&file)) {
            for block in 0..reader.blocks().len() {
                let _damaged = reader.ticks(block);
            }
        }
    }
}
