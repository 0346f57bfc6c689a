//! Recordings of `firn watch`, and the changes of a map in them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use firnfs_watch::map::{Cell, Map, State as Segment, Tracker};
use firnfs_watch::recording::{Reader, Writer};
use firnfs_watch::state::State;
use firnfs_watch::tick::{MapUpdate, Tick, Victim, Volume};
use std::io::Cursor;

/// Bytes of the file's header; of a block's header up to its checksum, and with it.
const HEADER: usize = 12;
const BLOCK: (usize, usize) = (32, 36);

/// A file as it is, and with its checksums corrected: otherwise every input would be rejected at the first one. What can be
/// read is watched, and written again.
pub fn recordings(bytes: &[u8]) {
    check(bytes);
    check(&corrected(bytes));
}

fn check(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return };
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    for block in 0..reader.blocks().len() {
        let ticks = match reader.ticks(block) {
            Ok(ticks) => ticks,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "an error is one line");
                continue;
            }
        };
        let mut state = State::default();
        for tick in ticks {
            let _refused = state.add(tick);
            writer.add(&state).expect("a vector takes all");
            let line = firnfs_watch::line::line(&state);
            assert!(!line.contains('\n'));
        }
    }
    let again = writer.finish().expect("a vector takes all");
    Reader::new(Cursor::new(again)).expect("what was written can be read");
}

fn corrected(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = HEADER;
    while let Some(stored) = bytes.get(at + 4..at + 8) {
        let stored = u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]) as usize;
        let end = at.saturating_add(BLOCK.1).saturating_add(stored);
        if end > bytes.len() {
            break;
        }
        let mut covered = bytes[at..at + BLOCK.0].to_vec();
        covered.extend_from_slice(&bytes[at + BLOCK.1..end]);
        let crc = firnfs_format::crc32c(&covered).to_le_bytes();
        bytes[at + BLOCK.0..at + BLOCK.1].copy_from_slice(&crc);
        at = end;
    }
    bytes
}

/// The changes of a map alone: half of all inputs to a recording would not survive zstd and JSON.
pub fn maps(bytes: &[u8]) {
    let Some((&segments, packed)) = bytes.split_first() else { return };
    let update = MapUpdate { from: 0, revision: 1, more: false, changes: BASE64.encode(packed) };
    let mut map = Map::default();
    if map.apply(&update, u64::from(segments), 1000).is_err() {
        assert!(map.cells().is_empty(), "what is refused changes nothing");
        return;
    }
    let mut again = Map::default();
    again.apply(&map.whole(1, 1000), u64::from(segments), 1000).expect("what was packed can be unpacked");
    assert!(again.cells().iter().zip(map.cells()).all(|(a, b)| a.state == b.state && a.live == b.live));
}

fn tick(second: i64, tracker: &Tracker, revision: u64) -> Tick {
    let volume = Volume { segment_bytes: 1 << 20, segments: 40, ..Volume::default() };
    let victims = vec![Victim { serial: second as u64, segment: 3, ..Victim::default() }];
    let map = tracker.since(revision, second);
    Tick { now_ns: second * 1_000_000_000, volume, victims, taken: second as u64, map, ..Tick::default() }
}

/// A recording of some ticks, and one of none.
pub fn recording_seeds() -> Vec<Vec<u8>> {
    let mut tracker = Tracker::default();
    tracker.resize(40);
    let mut state = State::default();
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    for second in 1..70 {
        tracker.note(second as u64 % 40, Cell::new(Segment::Closed, 1, 500_000, 1 << 20, second));
        state.add(tick(second, &tracker, state.map.revision())).expect("it fits");
        writer.add(&state).expect("a vector takes all");
    }
    let empty = Writer::new(Vec::new()).and_then(Writer::finish).expect("a vector takes all");
    vec![writer.finish().expect("a vector takes all"), empty]
}

/// Packed maps, after their number of segments.
pub fn map_seeds() -> Vec<Vec<u8>> {
    let mut tracker = Tracker::default();
    tracker.resize(40);
    (0..40)
        .step_by(3)
        .for_each(|n| tracker.note(n, Cell::new(Segment::Head, 2, 1000 * n as u32, 1 << 16, n as i64)));
    let packed = BASE64.decode(&tracker.since(0, 50_000).changes).expect("it is base64");
    vec![[&[40], &packed[..]].concat(), vec![40], vec![3, 1, 4, 9, 0x80, 0x80]]
}
