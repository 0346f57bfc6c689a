//! `Survey`: the first pass over a trace. It finds which files existed before the trace and how large they were, how many segments the
//! files of each size span, and how much the files take over time (section 4, the initial state).
//!
//! Without a snapshot of the file system the trace itself has to tell: a file that is used without having been made existed before.
//! Its size is what a record says (`length` of a getattr or lookup), else the furthest byte that was read, or before which was
//! written, before its size was changed. Callers: `initial`, `replay`.

use super::Records;
use super::matched::{Matched, Matches};
use super::names::{Names, nameless};
use super::pages::BLOCK_BYTES;
use crate::error::LabError;
use crate::micro::stop::Stop;
use firnfs_workload::{FileId, Op, Outcome, Record};
use rustc_hash::FxHashMap;

/// Bytes that a file takes besides, for its inode and its name.
const FILE_BYTES: u64 = 512;
/// Bytes that the block of a directory takes at least.
const DIRECTORY_BYTES: u64 = 1024;
/// Bins of file sizes: bin n has files of 2^n blocks up to twice that.
pub(super) const BINS: usize = 40;

/// A file of the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub is_dir: bool,
    /// It existed before the trace.
    pub at_start: bool,
    /// Its size then, in bytes.
    pub initial_bytes: u64,
    /// Its directory and name then, if the trace tells.
    pub place: Option<(FileId, Box<[u8]>)>,
    /// Nothing later tells the initial size.
    is_settled: bool,
    is_gone: bool,
    /// Names beyond the first.
    more_names: u32,
    now_bytes: u64,
    /// Segments that its writes went to, and the last of them.
    segments: u64,
    last_segment: u64,
}

/// See the module's head.
pub struct Survey {
    pub(super) files: FxHashMap<FileId, Known>,
    /// In the order in which the trace first used them.
    pub(super) order: Vec<FileId>,
    names: Names,
    /// Records.
    pub records: u64,
    /// Nanoseconds from the first to the last.
    pub span_ns: u64,
    /// Creates without a file number.
    pub matches: Matches,
    /// Growth of all files since the start, in bytes that they take.
    growth_bytes: i64,
    growth_sum: i128,
    growth_max_bytes: i64,
    segment_bytes: u64,
    written_bytes: u64,
    /// Segments that the files of each bin span, and how many files were written.
    spans: [(u64, u64); BINS],
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// Bytes that a file takes in the log: the last block has its own length, in sectors.
fn stored(bytes: u64) -> u64 {
    bytes.next_multiple_of(512)
}

/// Bytes that a file or directory takes beside its content.
fn beside(is_dir: bool) -> u64 {
    FILE_BYTES + if is_dir { DIRECTORY_BYTES } else { 0 }
}

/// The bin of a file of that many bytes.
pub(super) fn bin_of(bytes: u64) -> usize {
    (blocks(bytes).max(1).ilog2() as usize).min(BINS - 1)
}

/// Bytes that a read or write moved.
pub(super) fn moved(record: &Record) -> u64 {
    match record.outcome {
        Outcome::Done(bytes) => bytes,
        Outcome::Unknown => record.length.unwrap_or(0),
        Outcome::Failed(_) => 0,
    }
}

impl Survey {
    /// Reads a trace to its end, for a log with segments of that size.
    ///
    /// # Errors
    /// The trace is damaged, or empty; it was asked to stop.
    pub fn of(records: &dyn Records, segment_bytes: u64, stop: &Stop) -> Result<Self, LabError> {
        let mut survey = Self {
            files: FxHashMap::default(),
            order: Vec::new(),
            names: Names::default(),
            records: 0,
            span_ns: 0,
            matches: Matches::default(),
            growth_bytes: 0,
            growth_sum: 0,
            growth_max_bytes: 0,
            segment_bytes,
            written_bytes: 0,
            spans: [(0, 0); BINS],
        };
        let mut matched = Matched::new(records.open()?);
        for record in matched.by_ref() {
            survey.add(&record?);
            if survey.records.is_multiple_of(4096) {
                stop.check()?;
            }
        }
        survey.matches = matched.matches();
        if survey.records == 0 {
            return Err(LabError::Setup("the trace has no records".to_owned()));
        }
        survey.end_spans();
        Ok(survey)
    }

    /// Bytes that the files take that existed before the trace.
    #[must_use]
    pub fn initial_bytes(&self) -> u64 {
        let at_start = self.files.values().filter(|known| known.at_start);
        at_start.map(|known| stored(known.initial_bytes) + beside(known.is_dir)).sum()
    }

    /// Bytes that all files take, on average over the records.
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        let growth = (self.growth_sum / i128::from(self.records.max(1))) as i64;
        self.initial_bytes().saturating_add_signed(growth)
    }

    /// The most bytes at any time.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.initial_bytes().saturating_add_signed(self.growth_max_bytes)
    }

    /// The mean number of segments that files of a bin span in the trace, at least 1; where no file of the bin was written, that of
    /// the nearest bin below with one.
    #[must_use]
    pub fn span_of(&self, bin: usize) -> u64 {
        let written = self.spans[..=bin.min(BINS - 1)].iter().rev().find(|(_, files)| *files > 0);
        written.map_or(1, |(segments, files)| (segments + files / 2) / files).max(1)
    }

    fn know(&mut self, file: FileId) -> &mut Known {
        let order = &mut self.order;
        self.files.entry(file).or_insert_with(|| {
            order.push(file);
            Known { at_start: true, ..Known::default() }
        })
    }

    fn know_dir(&mut self, dir: FileId) {
        if dir.is_some() {
            self.know(dir).is_dir = true;
        }
    }

    /// A name that existed before the trace, if the trace has not told otherwise.
    fn know_name(&mut self, dir: FileId, name: &[u8], file: FileId) {
        self.names.insert(dir, name, file);
        let known = self.know(file);
        if known.at_start && known.place.is_none() {
            known.place = Some((dir, name.into()));
        }
    }

    fn add(&mut self, record: &Record) {
        self.records += 1;
        self.span_ns = self.span_ns.max(record.time_ns);
        if !matches!(record.outcome, Outcome::Failed(_)) {
            self.add_done(record);
        }
        self.growth_sum += i128::from(self.growth_bytes);
        self.growth_max_bytes = self.growth_max_bytes.max(self.growth_bytes);
    }

    fn add_done(&mut self, record: &Record) {
        let Record { file, to_file, made, .. } = *record;
        let (name, to_name) = (record.name.as_slice(), record.to_name.as_slice());
        match record.op {
            Op::Lookup | Op::Open if made.is_some() => {
                self.know_dir(file);
                self.know_name(file, name, made);
                self.note_size(made, record.length);
            }
            Op::Lookup | Op::Readdir => self.know_dir(file),
            Op::Create | Op::Mknod | Op::Mkdir | Op::Symlink | Op::Tmpfile => self.add_make(record),
            Op::Unlink | Op::Rmdir => {
                self.know_dir(file);
                let gone = self.names.remove(file, name).unwrap_or_else(|| {
                    let gone = nameless(file, name);
                    self.know_name(file, name, gone);
                    self.names.remove(file, name);
                    gone
                });
                self.know(gone).is_dir |= record.op == Op::Rmdir;
                self.drop_file(gone);
            }
            Op::Rename => {
                [file, to_file].into_iter().for_each(|dir| self.know_dir(dir));
                let moved = self.names.remove(file, name).unwrap_or_else(|| {
                    let moved = nameless(file, name);
                    self.know_name(file, name, moved);
                    self.names.remove(file, name);
                    moved
                });
                if let Some(replaced) = self.names.remove(to_file, to_name).filter(|other| *other != moved) {
                    self.drop_file(replaced);
                }
                self.names.insert(to_file, to_name, moved);
            }
            Op::Link => {
                self.know_dir(to_file);
                self.know(file).more_names += 1;
                self.names.insert(to_file, to_name, file);
            }
            Op::Read => self.add_read(file, record.offset, moved(record)),
            Op::Write => self.add_write(file, record.offset, moved(record)),
            Op::Truncate => self.resize(file, record.length.unwrap_or(0)),
            Op::Copy => {
                self.add_read(file, record.offset, moved(record));
                self.add_write(to_file, record.to_offset, moved(record));
            }
            Op::Getattr => self.note_size(file, record.length),
            _ if file.is_some() => drop(self.know(file)),
            _ => {}
        }
    }

    fn add_make(&mut self, record: &Record) {
        let (dir, name) = (record.file, record.name.as_slice());
        self.know_dir(dir);
        if self.names.find(dir, name).is_some() && record.op == Op::Create {
            // It existed, and was opened.
            return;
        }
        let file = if record.made.is_some() { record.made } else { nameless(dir, name) };
        if !self.files.contains_key(&file) {
            self.order.push(file);
        }
        let known = self.files.entry(file).or_insert_with(|| Known { is_gone: true, ..Known::default() });
        if known.is_gone {
            self.growth_bytes += beside(record.op == Op::Mkdir) as i64;
        }
        // A number may be used again for another file.
        (known.is_settled, known.is_gone, known.more_names, known.now_bytes) = (true, false, 0, 0);
        known.is_dir = record.op == Op::Mkdir;
        self.names.insert(dir, name, file);
    }

    fn note_size(&mut self, file: FileId, size_bytes: Option<u64>) {
        if !file.is_some() {
            return;
        }
        let known = self.know(file);
        if let Some(size_bytes) = size_bytes
            && known.at_start
            && !known.is_settled
        {
            (known.initial_bytes, known.now_bytes, known.is_settled) = (size_bytes, size_bytes, true);
        }
    }

    /// The file had at least that many bytes at the start, unless its size is known or was changed.
    fn infer(&mut self, file: FileId, at_least_bytes: u64) {
        let known = self.know(file);
        if known.at_start && !known.is_settled && at_least_bytes > known.now_bytes {
            (known.initial_bytes, known.now_bytes) = (at_least_bytes, at_least_bytes);
        }
    }

    fn add_read(&mut self, file: FileId, offset: Option<u64>, len_bytes: u64) {
        if file.is_some() && len_bytes > 0 {
            self.infer(file, offset.unwrap_or(0).saturating_add(len_bytes));
        }
    }

    fn add_write(&mut self, file: FileId, offset: Option<u64>, len_bytes: u64) {
        if !file.is_some() || len_bytes == 0 {
            return;
        }
        let offset = offset.unwrap_or_else(|| self.know(file).now_bytes);
        self.infer(file, offset);
        let from = self.written_bytes / self.segment_bytes;
        self.written_bytes += blocks(len_bytes) * BLOCK_BYTES;
        let to = (self.written_bytes - 1) / self.segment_bytes;
        let known = self.know(file);
        let first = if known.segments > 0 && known.last_segment == from { from + 1 } else { from };
        known.segments += (to + 1).saturating_sub(first);
        known.last_segment = to;
        let end_bytes = known.now_bytes.max(offset.saturating_add(len_bytes));
        self.grow_to(file, end_bytes);
    }

    fn resize(&mut self, file: FileId, size_bytes: u64) {
        if file.is_some() {
            self.know(file).is_settled = true;
            self.grow_to(file, size_bytes);
        }
    }

    fn grow_to(&mut self, file: FileId, size_bytes: u64) {
        let known = self.know(file);
        let grown = stored(size_bytes) as i64 - stored(known.now_bytes) as i64;
        known.now_bytes = size_bytes;
        self.growth_bytes += grown;
    }

    fn drop_file(&mut self, file: FileId) {
        let known = self.know(file);
        if known.more_names > 0 {
            known.more_names -= 1;
            return;
        }
        if !std::mem::replace(&mut known.is_gone, true) {
            let (bin, segments) = (bin_of(known.now_bytes), std::mem::take(&mut known.segments));
            let is_dir = known.is_dir;
            self.count_span(bin, segments);
            self.resize(file, 0);
            self.growth_bytes -= beside(is_dir) as i64;
        }
    }

    fn count_span(&mut self, bin: usize, segments: u64) {
        if segments > 0 {
            self.spans[bin].0 += segments;
            self.spans[bin].1 += 1;
        }
    }

    fn end_spans(&mut self) {
        let left: Vec<(usize, u64)> =
            self.files.values().map(|known| (bin_of(known.now_bytes), known.segments)).collect();
        left.into_iter().for_each(|(bin, segments)| self.count_span(bin, segments));
    }
}
