//! A victim of the cleaner on its way into memory: which of its sectors have arrived, which are requested, and which partial
//! segments are known. [`crate::clean::reading`] decides what is read, and in which order.
//!
//! ```text
//!  Fresh --> Walking (summaries; or all at once) --> Chosen (live blocks are looked for) --> Here --> Cut (blocks)
//! ```
//! Invariants: pieces neither overlap nor touch; requested sectors are not here yet; memory is at most the segment, and twice
//! that while it is cut. These bytes are not trusted: a summary and each block have their CRC, which the cleaner checks.
//! Caller: `clean`.

use crate::clean::reading::{Run, SUMMARY_READ_BYTES, goes_on, merged, summaries_first};
use crate::clean::{Candidate, Medium};
use crate::error::FsError;
use crate::fetch::Fetched;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::scan::{Chain, Partial};
use crate::store::Buf;
use firnfs_format::summary::{Entry, SUMMARY_HEADER_BYTES, Summary};
use firnfs_format::{SECTOR_BYTES, SegmentId};
use std::collections::BTreeMap;

/// The progress of reading a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing was requested.
    Fresh,
    /// Summaries, or all of it, are being read.
    Walking,
    /// All summaries are known; the live blocks are not.
    Chosen,
    /// All live blocks are here.
    Here,
    /// They are blocks of the cache's form, and the bytes are gone.
    Cut,
}

/// Bytes that are adjacent in the segment. Mostly it is all of the segment, in the buffer into which it was read.
enum Piece {
    Read(Fetched),
    Joined(Vec<u8>),
}

impl Piece {
    /// Keeps no larger buffer for a part of it.
    fn of(bytes: &Fetched) -> Self {
        if bytes.is_all() { Self::Read(bytes.clone()) } else { Self::Joined(bytes.to_vec()) }
    }

    fn extend(&mut self, behind: &[u8]) {
        if let Self::Read(bytes) = self {
            *self = Self::Joined(bytes.to_vec());
        }
        if let Self::Joined(bytes) = self {
            bytes.extend_from_slice(behind);
        }
    }
}

impl std::ops::Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

/// See the module's head.
pub(in crate::lfs) struct Victim {
    /// The facts for which it was chosen.
    pub candidate: Candidate,
    /// The bytes that have arrived, by first sector.
    pieces: BTreeMap<u32, Piece>,
    asked: Vec<Run>,
    chain: Chain,
    partials: Vec<Partial>,
    stage: Stage,
    was_read_whole: bool,
    /// Checked live blocks, by first sector: `None` if its bytes are damaged or missing, empty for one that is rebuilt from
    /// memory.
    blocks: BTreeMap<u32, Option<Buf>>,
}

impl Victim {
    /// Nothing of it has been read.
    pub fn new(candidate: Candidate) -> Self {
        Self {
            candidate,
            pieces: BTreeMap::new(),
            asked: Vec::new(),
            chain: Chain::new(candidate.segment),
            partials: Vec::new(),
            stage: Stage::Fresh,
            was_read_whole: false,
            blocks: BTreeMap::new(),
        }
    }

    /// Which segment it is.
    pub fn segment(&self) -> SegmentId {
        self.candidate.segment
    }

    /// The runs to be read now.
    pub fn asked(&self) -> &[Run] {
        &self.asked
    }

    /// True if the caller has to name its live blocks with [`Self::choose`].
    pub fn wants_choice(&self) -> bool {
        self.asked.is_empty() && self.stage == Stage::Chosen
    }

    /// True if all of it was read.
    pub fn is_whole(&self, geo: &Geometry) -> bool {
        self.was_read_whole
            || self.pieces.get(&0).is_some_and(|piece| piece.len() >= geo.segment_bytes as usize)
    }

    /// Entries of the partial segments that are known, in the order of the log.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.partials.iter().flat_map(|partial| &partial.entries)
    }

    /// The stored bytes of an entry, if they are here.
    pub fn stored(&self, geo: &Geometry, entry: &Entry) -> Option<&[u8]> {
        self.bytes_from(geo.sector_of(entry.ptr.addr))?.get(..entry.ptr.stored_bytes() as usize)
    }

    /// True if [`Self::block`] knows its live blocks.
    pub fn is_cut(&self) -> bool {
        self.stage == Stage::Cut
    }

    /// Cuts the next `most` live blocks out of the bytes that were read; `form` checks one and brings it into the form that
    /// [`Self::block`] returns. Returns how many there were; fewer than `most` were the last.
    pub fn cut(
        &mut self,
        geo: &Geometry,
        live: &[Entry],
        most: usize,
        form: impl Fn(&Entry, &[u8]) -> Option<Buf>,
    ) -> usize {
        let sector = |entry: &Entry| geo.sector_of(entry.ptr.addr);
        let next: Vec<&Entry> =
            live.iter().filter(|entry| !self.blocks.contains_key(&sector(entry))).take(most).collect();
        for entry in &next {
            let block = self.stored(geo, entry).and_then(|stored| form(entry, stored));
            self.blocks.insert(sector(entry), block);
        }
        if next.len() < most {
            self.was_read_whole = self.is_whole(geo);
            self.pieces.clear();
            self.stage = Stage::Cut;
        }
        next.len()
    }

    /// A live block that was cut; `None` if its bytes are damaged or missing.
    pub fn block(&self, geo: &Geometry, entry: &Entry) -> Option<Buf> {
        self.blocks.get(&geo.sector_of(entry.ptr.addr)).cloned().flatten()
    }

    /// Supplies requested sectors; others are ignored.
    ///
    /// # Errors
    /// `Io` if they are too few.
    pub fn supply(&mut self, run: Run, bytes: &Fetched) -> Result<(), FsError> {
        let Some(at) = self.asked.iter().position(|asked| *asked == run) else { return Ok(()) };
        if bytes.len() as u64 != run.bytes() {
            return Err(FsError::Io(format!("{} bytes came of {}", bytes.len(), run.bytes())));
        }
        self.asked.remove(at);
        let mut piece = Piece::of(bytes);
        if let Some(behind) = self.pieces.remove(&run.end()) {
            piece.extend(&behind);
        }
        match self.pieces.range_mut(..run.from).next_back() {
            Some((&from, before)) if from + sectors(before) == run.from => before.extend(&piece),
            _ => drop(self.pieces.insert(run.from, piece)),
        }
        Ok(())
    }

    /// Continues as far as it can without knowing the live blocks, and requests the next runs if it needs any.
    pub fn go_on(&mut self, medium: &Medium, uuid: &[u8; 16], geo: &Geometry) {
        if !self.asked.is_empty() {
            return;
        }
        if self.stage == Stage::Fresh {
            let is_sparse = summaries_first(medium, geo.segment_bytes, self.candidate.live_bytes);
            let len = if is_sparse { SUMMARY_READ_BYTES / SECTOR_BYTES } else { geo.segment_sectors };
            self.asked = vec![Run { from: 0, len: len.min(geo.segment_sectors) }];
            self.stage = Stage::Walking;
            return;
        }
        while self.stage == Stage::Walking && self.asked.is_empty() {
            match self.missing_of_summary(medium, geo) {
                Some(run) => self.asked = vec![run],
                None => self.walk(uuid, geo),
            }
        }
    }

    /// Takes the next partial segment, whose summary is here, or ends the walk.
    fn walk(&mut self, uuid: &[u8; 16], geo: &Geometry) {
        let sector = self.chain.sector();
        let bytes = if sector < geo.segment_sectors { self.bytes_from(sector) } else { None };
        let mut chain = self.chain;
        match bytes.and_then(|bytes| chain.next(bytes, uuid, geo)) {
            Some(partial) => {
                self.chain = chain;
                self.partials.push(partial);
            }
            None => self.stage = if self.is_whole(geo) { Stage::Here } else { Stage::Chosen },
        }
    }

    /// The run to be read before the next partial segment can be taken: the rest of its summary; if nothing of it is known yet,
    /// the beginning of its summary, or all of the segment that was not read yet.
    fn missing_of_summary(&self, medium: &Medium, geo: &Geometry) -> Option<Run> {
        let sector = self.chain.sector();
        if sector >= geo.segment_sectors {
            return None;
        }
        let Some(here) = self.bytes_from(sector).filter(|bytes| bytes.len() >= SUMMARY_HEADER_BYTES) else {
            let partials = (self.partials.len() as u64).max(1);
            let mean_bytes = u64::from(sector) * u64::from(SECTOR_BYTES) / partials;
            let live_bytes = self.candidate.live_bytes;
            if goes_on(medium, geo.segment_bytes, live_bytes, mean_bytes) {
                let end = geo.segment_sectors.min(sector + SUMMARY_READ_BYTES / SECTOR_BYTES);
                return Some(Run::between(sector, end));
            }
            let read = self.pieces.last_key_value().map_or(0, |(from, bytes)| from + sectors(bytes));
            return Some(Run::between(read, geo.segment_sectors));
        };
        let end = sector + Summary::decode_header(here).ok()?.summary_sectors();
        let here_end = sector + sectors(here);
        (here_end < end && end <= geo.segment_sectors).then(|| Run::between(here_end, end))
    }

    /// Takes the list of its live blocks and requests those that are not here.
    pub fn choose<'a>(&mut self, medium: &Medium, geo: &Geometry, live: impl Iterator<Item = &'a Entry>) {
        let run_of = |entry: &Entry| Run {
            from: geo.sector_of(entry.ptr.addr),
            len: u32::from(entry.ptr.len_sectors),
        };
        let missing: Vec<Run> = live.map(run_of).flat_map(|run| self.missing(run)).collect();
        self.asked = merged(medium, missing).into_iter().flat_map(|run| self.missing(run)).collect();
        self.stage = Stage::Here;
    }

    /// The parts of a run that are not here.
    fn missing(&self, run: Run) -> Vec<Run> {
        let mut missing = Vec::new();
        let mut at = run.from;
        let before = self.pieces.range(..run.from).next_back();
        for (&from, bytes) in before.into_iter().chain(self.pieces.range(run.from..run.end())) {
            missing.push(Run::between(at, from));
            at = at.max(from + sectors(bytes));
        }
        missing.push(Run::between(at, run.end()));
        missing.retain(|part| part.len > 0);
        missing
    }

    /// The bytes that are here from a sector on.
    fn bytes_from(&self, sector: u32) -> Option<&[u8]> {
        let (&from, bytes) = self.pieces.range(..=sector).next_back()?;
        bytes.get(((sector - from) * SECTOR_BYTES) as usize..).filter(|bytes| !bytes.is_empty())
    }
}

fn sectors(bytes: &[u8]) -> u32 {
    bytes.len() as u32 / SECTOR_BYTES
}

#[cfg(test)]
#[path = "victim_tests.rs"]
mod tests;
