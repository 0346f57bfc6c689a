//! `Emitter`: turns events into records. It makes a directory when it is used first, and writes a file in one record.
//!
//! Invariant: times never go back; a directory is removed only while no file is in it.

use super::{Act, Event, ROOT, SHORT_LIVED, unwritten};
use crate::error::LabError;
use firnfs_workload::{End, FileId, Header, Op, Outcome, Record, Writer};
use std::collections::BTreeMap;
use std::io::Write;

/// What a workload consists of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Files made, those that live shortly included.
    pub creates: u64,
    /// Of these, short-lived files that no snapshot has seen.
    pub short_lived: u64,
    /// Files written anew, or grown.
    pub changes: u64,
    /// Changes of attributes alone.
    pub touches: u64,
    /// Files moved to another directory.
    pub moves: u64,
    /// Files removed.
    pub deletes: u64,
    /// Directories made.
    pub directories: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Files and bytes that exist at the end.
    pub left_files: u64,
}

impl Counts {
    /// Operations on files, as the paper counts them.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.creates + self.changes + self.touches + self.moves + self.deletes
    }
}

/// See the module's head.
pub struct Emitter<W: Write> {
    writer: Writer<W>,
    start_ns: i64,
    last_ns: u64,
    /// Files in each directory that exists.
    dirs: BTreeMap<u64, u64>,
    counts: Counts,
}

impl<W: Write> Emitter<W> {
    /// Begins a workload; events of before the header's start happen at its start.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(out: W, header: &Header) -> Result<Self, LabError> {
        let start_ns = i64::try_from(header.start_ns).unwrap_or(i64::MAX);
        let writer = Writer::new(out, header).map_err(unwritten)?;
        Ok(Self { writer, start_ns, last_ns: 0, dirs: [(ROOT, 0)].into(), counts: Counts::default() })
    }

    /// Appends the records of an event.
    ///
    /// # Errors
    /// Writing failed.
    pub fn event(&mut self, event: &Event) -> Result<(), LabError> {
        let time_ns = event.time_ns.saturating_sub(self.start_ns).max(0).cast_unsigned();
        self.last_ns = self.last_ns.max(time_ns);
        let Event { dir, file, act, .. } = *event;
        match act {
            Act::Create { size_bytes } => {
                self.count_in(dir, 1)?;
                self.counts.creates += 1;
                self.counts.short_lived += u64::from(file >= SHORT_LIVED);
                let mode = Some(0o644);
                self.push(Record {
                    argument: mode,
                    made: FileId(file),
                    ..self.named(Op::Create, dir, &name_of(file))
                })?;
                self.content(file, 0, size_bytes)
            }
            Act::Grow { from_bytes, size_bytes } => {
                self.counts.changes += 1;
                self.content(file, from_bytes, size_bytes)
            }
            Act::Rewrite { size_bytes } => {
                self.counts.changes += 1;
                self.push(Record { length: Some(0), ..self.record(Op::Truncate, file) })?;
                self.content(file, 0, size_bytes)
            }
            Act::Touch => {
                self.counts.touches += 1;
                self.push(Record { argument: Some(0o644), ..self.record(Op::Setattr, file) })
            }
            Act::Move { to_dir } => {
                self.count_in(dir, -1)?;
                self.count_in(to_dir, 1)?;
                self.counts.moves += 1;
                let (to_file, to_name) = (FileId(to_dir), name_of(file));
                self.push(Record {
                    to_file,
                    to_name,
                    made: FileId(file),
                    ..self.named(Op::Rename, dir, &name_of(file))
                })
            }
            Act::Delete => {
                self.count_in(dir, -1)?;
                self.counts.deletes += 1;
                self.push(Record { made: FileId(file), ..self.named(Op::Unlink, dir, &name_of(file)) })
            }
            Act::RemoveDirectory => self.remove_directory(dir),
        }
    }

    /// Counts a file into or out of a directory, which is made if it does not exist.
    fn count_in(&mut self, dir: u64, by: i64) -> Result<(), LabError> {
        if !self.dirs.contains_key(&dir) {
            self.counts.directories += 1;
            let (argument, made) = (Some(0o755), FileId(dir));
            self.push(Record { argument, made, ..self.named(Op::Mkdir, ROOT, &directory_name(dir)) })?;
        }
        let files = self.dirs.entry(dir).or_default();
        *files = files.saturating_add_signed(by);
        Ok(())
    }

    fn remove_directory(&mut self, dir: u64) -> Result<(), LabError> {
        if dir == ROOT || self.dirs.get(&dir) != Some(&0) {
            return Ok(());
        }
        self.dirs.remove(&dir);
        self.push(self.named(Op::Rmdir, ROOT, &directory_name(dir)))
    }

    /// The content of a file from one place to its end.
    fn content(&mut self, file: u64, from_bytes: u64, to_bytes: u64) -> Result<(), LabError> {
        let len_bytes = to_bytes.saturating_sub(from_bytes);
        if len_bytes > 0 {
            self.counts.written_bytes += len_bytes;
            let (offset, length) = (Some(from_bytes), Some(len_bytes));
            let outcome = Outcome::Done(len_bytes);
            self.push(Record { offset, length, outcome, ..self.record(Op::Write, file) })?;
        }
        self.push(self.record(Op::Close, file))
    }

    fn record(&self, op: Op, file: u64) -> Record {
        Record { outcome: Outcome::Done(0), ..Record::new(self.last_ns, op, FileId(file)) }
    }

    fn named(&self, op: Op, dir: u64, name: &[u8]) -> Record {
        Record { name: name.to_vec(), ..self.record(op, dir) }
    }

    fn push(&mut self, record: Record) -> Result<(), LabError> {
        self.writer.push(&record).map_err(unwritten)
    }

    /// Ends the workload.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(self) -> Result<Counts, LabError> {
        let left_files = self.dirs.values().sum();
        self.writer.finish(End::Last).map_err(unwritten)?;
        Ok(Counts { left_files, ..self.counts })
    }
}

/// Names are unique: an original has one file of a number at a time.
fn name_of(file: u64) -> Vec<u8> {
    match file.checked_sub(SHORT_LIVED) {
        Some(nth) => format!("s{nth}"),
        None => format!("f{file}"),
    }
    .into_bytes()
}

fn directory_name(dir: u64) -> Vec<u8> {
    format!("d{dir}").into_bytes()
}
