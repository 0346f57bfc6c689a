//! The state of all segments, and its changes as they are sent.
//!
//! A [`Tracker`] beside the volume notes at each look which segments changed, and gives each change a revision of its own. A
//! watcher asks for the changes since its revision; so any number of watchers share one tracker, and none has to be remembered.
//! [`Map`] is the watcher's side. A change is packed as
//!
//! ```text
//!  varint: distance to the previous segment (the first: number + 1)
//!  byte:   state, and the log in the upper four bits
//!  byte:   live share in 1/255, rounded up (0: nothing is live)
//!  varint: seconds since it was written, at the time of the tick
//! ```
//! Invariants: an update has at most [`CHANGES_MAX`] changes, in rising order; a live share counts as changed only by
//! [`LEVELS_NOTICED`] levels or more, so the map is exact to 2%; the totals of a tick are exact.

use crate::tick::{CHANGES_MAX, MapUpdate, SEGMENTS_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

/// Live shares change too often to send each change.
pub const LEVELS_NOTICED: u8 = 4;
/// Longest varint.
const VARINT_BYTES: usize = 10;

/// What is being done with a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Clean, and may be written.
    #[default]
    Clean,
    /// Clean, but to be written only after checkpoints.
    Waiting,
    /// Clean; a log will continue in it.
    Next,
    /// Emptied; a checkpoint makes it clean.
    Emptied,
    /// Closed, with data.
    Closed,
    /// A log writes to it.
    Head,
    /// The pass under way empties it.
    Victim,
    /// Damaged: it is not cleaned.
    Damaged,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Clean,
        Self::Waiting,
        Self::Next,
        Self::Emptied,
        Self::Closed,
        Self::Head,
        Self::Victim,
        Self::Damaged,
    ];

    /// For people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Waiting => "clean after a checkpoint",
            Self::Next => "next of a log",
            Self::Emptied => "emptied",
            Self::Closed => "closed",
            Self::Head => "head of a log",
            Self::Victim => "being cleaned",
            Self::Damaged => "damaged",
        }
    }
}

/// A segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// What is being done with it.
    pub state: State,
    /// The log that wrote it, 0 to 15.
    pub log: u8,
    /// Live share in 1/255, rounded up.
    pub live: u8,
    /// When it was written, in seconds of the tick's clock.
    pub written_s: i64,
}

impl Cell {
    /// A segment with that many live bytes.
    #[must_use]
    pub fn new(state: State, log: u8, live_bytes: u32, segment_bytes: u32, written_s: i64) -> Self {
        let live = (u64::from(live_bytes) * 255).div_ceil(u64::from(segment_bytes.max(1))).min(255) as u8;
        Self { state, log: log & 15, live, written_s }
    }

    /// Live share, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.live) / 255.0
    }

    fn is_noticeably(&self, other: &Self) -> bool {
        let Self { state, log, live, written_s } = *other;
        let nothing_or_all = |level: u8| level == 0 || level == 255;
        let is_near = self.live.abs_diff(live) < LEVELS_NOTICED
            && (self.live == live || !nothing_or_all(live) && !nothing_or_all(self.live));
        (self.state, self.log, self.written_s) == (state, log, written_s) && is_near
    }
}

/// See the module's head.
#[derive(Default)]
pub struct Tracker {
    cells: Vec<(u64, Cell)>,
    revision: u64,
}

impl Tracker {
    /// Begins anew for that many segments unless it has them already.
    pub fn resize(&mut self, segments: u64) {
        let segments = segments.min(SEGMENTS_MAX) as usize;
        if self.cells.len() != segments {
            self.cells = vec![(0, Cell::default()); segments];
        }
    }

    /// Notes the present state of a segment.
    pub fn note(&mut self, segment: u64, cell: Cell) {
        let Some((revision, known)) = self.cells.get_mut(segment as usize) else { return };
        if !known.is_noticeably(&cell) {
            self.revision += 1;
            (*revision, *known) = (self.revision, cell);
        }
    }

    /// The first changes after a revision of this tracker; from the beginning after any other.
    #[must_use]
    pub fn since(&self, revision: u64, now_s: i64) -> MapUpdate {
        let from = if revision > self.revision { 0 } else { revision };
        let mut changed: Vec<(u64, u64)> = (0..)
            .zip(&self.cells)
            .filter(|(_, (changed_in, _))| *changed_in > from)
            .map(|(segment, (changed_in, _))| (*changed_in, segment))
            .collect();
        let more = changed.len() > CHANGES_MAX;
        if more {
            changed.select_nth_unstable(CHANGES_MAX - 1);
            changed.truncate(CHANGES_MAX);
        }
        let revision = changed.iter().map(|(revision, _)| *revision).max().unwrap_or(self.revision);
        let mut segments: Vec<u64> = changed.into_iter().map(|(_, segment)| segment).collect();
        segments.sort_unstable();
        let cells = segments.into_iter().map(|segment| (segment, self.cells[segment as usize].1));
        MapUpdate { from, revision, more, changes: BASE64.encode(pack(cells, now_s)) }
    }
}

/// Packs cells in rising order of their segments.
fn pack(cells: impl Iterator<Item = (u64, Cell)>, now_s: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut next = 0;
    for (segment, cell) in cells {
        put_varint(&mut out, segment + 1 - next);
        next = segment + 1;
        out.push(cell.state as u8 | cell.log << 4);
        out.push(cell.live);
        put_varint(&mut out, now_s.saturating_sub(cell.written_s).max(0) as u64);
    }
    out
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for n in 0..VARINT_BYTES {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        let shift = 7 * n as u32;
        if part.checked_shl(shift)? >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Why an update cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadUpdate {
    /// It is not packed as it should be, or names a segment that the volume does not have.
    #[error("the changes of the map are damaged")]
    Damaged,
    /// It builds on another revision.
    #[error("the changes build on revision {from}, and the map has {has}")]
    OtherRevision {
        /// On which it builds.
        from: u64,
        /// The map's.
        has: u64,
    },
    /// The volume has too many segments.
    #[error("a volume of {0} segments is too large to be watched")]
    TooLarge(u64),
}

/// The watcher's side; see the module's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map {
    cells: Vec<Cell>,
    revision: u64,
}

impl Map {
    /// The segments, by number.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The revision to ask for next.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The whole map as updates on an empty one, for a recording that is read from here.
    #[must_use]
    pub fn whole(&self, revision: u64, now_s: i64) -> MapUpdate {
        let cells = (0..).zip(self.cells.iter().copied()).filter(|(_, cell)| *cell != Cell::default());
        let changes = BASE64.encode(pack(cells, now_s));
        MapUpdate { from: 0, revision, more: false, changes }
    }

    /// What changed since an earlier map of the same volume, as an update from one revision to another.
    #[must_use]
    pub fn since(&self, earlier: &Self, (from, revision): (u64, u64), now_s: i64) -> MapUpdate {
        let pairs = (0..).zip(self.cells.iter().zip(&earlier.cells));
        let changed = pairs.filter(|(_, (is, was))| is != was).map(|(segment, (is, _))| (segment, *is));
        MapUpdate { from, revision, more: false, changes: BASE64.encode(pack(changed, now_s)) }
    }

    /// Applies changes; on an error the map stays as it is.
    ///
    /// # Errors
    /// See [`BadUpdate`].
    pub fn apply(&mut self, update: &MapUpdate, segments: u64, now_s: i64) -> Result<(), BadUpdate> {
        if segments > SEGMENTS_MAX {
            return Err(BadUpdate::TooLarge(segments));
        }
        if update.from != 0 && (update.from != self.revision || segments != self.cells.len() as u64) {
            return Err(BadUpdate::OtherRevision { from: update.from, has: self.revision });
        }
        let bytes = BASE64.decode(&update.changes).map_err(|_| BadUpdate::Damaged)?;
        // Twice, so that nothing changes if the end is damaged.
        unpack(&bytes, segments, now_s, |_, _| {}).ok_or(BadUpdate::Damaged)?;
        if update.from == 0 {
            self.cells.clear();
            self.cells.resize(segments as usize, Cell::default());
        }
        let cells = &mut self.cells;
        unpack(&bytes, segments, now_s, |segment, cell| cells[segment] = cell).ok_or(BadUpdate::Damaged)?;
        self.revision = update.revision;
        Ok(())
    }
}

/// Calls `change` for each change of a segment below `segments`; `None` at the first that is not packed as it should be.
fn unpack(mut bytes: &[u8], segments: u64, now_s: i64, mut change: impl FnMut(usize, Cell)) -> Option<()> {
    let mut next = 0_u64;
    while !bytes.is_empty() {
        next = next.checked_add(take_varint(&mut bytes)?)?;
        let segment = next.checked_sub(1).filter(|segment| *segment < segments)?;
        let (&[mark, live], rest) = bytes.split_first_chunk()?;
        bytes = rest;
        let state = *State::ALL.get(usize::from(mark & 15))?;
        let age_s = i64::try_from(take_varint(&mut bytes)?).ok()?;
        let written_s = now_s.saturating_sub(age_s);
        change(segment as usize, Cell { state, log: mark >> 4, live, written_s });
    }
    Some(())
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
