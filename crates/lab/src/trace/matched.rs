//! `Matched`: the records of a trace, where creates that do not say which file they made are given one by looking ahead.
//!
//! The paper's NFS traces lack the handle that a create returned; "we perform a look-ahead to the next NFS_WRITE or NFS_SETATTR call
//! from the same client" (section 3). A create stays unmatched if the same client creates another file before that, if the call is
//! about a file that is known already, or if none comes within [`WINDOW`] records.
//!
//! Memory: the window, and the numbers of the files so far. Callers: `survey` and `replay`, which see the same matches, and the profiles of
//! short-lived files.

use crate::error::LabError;
use firnfs_workload::{FileId, Op, Outcome, Record};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Records that it looks ahead.
const WINDOW: usize = 1 << 16;

/// Creates without a file number, and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Matches {
    /// Creates whose record does not say which file was made.
    pub asked: u64,
    /// Those that were matched with a later call.
    pub found: u64,
}

/// See the module's head.
pub(crate) struct Matched<I> {
    records: I,
    window: VecDeque<Record>,
    /// Number of the window's first record.
    first: u64,
    /// The create of each client that is not matched.
    waiting: FxHashMap<u32, u64>,
    known: FxHashSet<FileId>,
    matches: Matches,
    is_over: bool,
}

impl<I: Iterator<Item = Result<Record, LabError>>> Matched<I> {
    /// Matches the creates among records.
    pub fn new(records: I) -> Self {
        Self {
            records,
            window: VecDeque::new(),
            first: 0,
            waiting: FxHashMap::default(),
            known: FxHashSet::default(),
            matches: Matches::default(),
            is_over: false,
        }
    }

    /// The matches so far.
    pub fn matches(&self) -> Matches {
        self.matches
    }

    fn take_in(&mut self, record: Record) {
        let number = self.first + self.window.len() as u64;
        let is_create =
            matches!(record.op, Op::Create | Op::Mknod) && !matches!(record.outcome, Outcome::Failed(_));
        if is_create && !record.made.is_some() {
            self.matches.asked += 1;
            // An earlier create of the client stays unmatched.
            self.waiting.insert(record.client, number);
        } else if matches!(record.op, Op::Write | Op::Setattr | Op::Truncate)
            && !self.known.contains(&record.file)
            && let Some(create) = self.waiting.remove(&record.client)
            && let Some(create) = create.checked_sub(self.first)
        {
            self.window[create as usize].made = record.file;
            self.matches.found += 1;
        }
        for file in [record.file, record.made, record.to_file] {
            if file.is_some() {
                self.known.insert(file);
            }
        }
        self.window.push_back(record);
    }
}

impl<I: Iterator<Item = Result<Record, LabError>>> Iterator for Matched<I> {
    type Item = Result<Record, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            let is_ready = self.window.front().is_some_and(|front| {
                let waits = self.waiting.get(&front.client) == Some(&self.first);
                !waits || self.window.len() >= WINDOW
            });
            if is_ready {
                break;
            }
            match self.records.next() {
                Some(Ok(record)) => self.take_in(record),
                Some(Err(error)) => return Some(Err(error)),
                None => self.is_over = true,
            }
        }
        self.first += 1;
        self.window.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(client: u32, op: Op, file: u64) -> Record {
        Record { client, outcome: Outcome::Done(0), ..Record::new(0, op, FileId(file)) }
    }

    #[test]
    fn a_create_is_matched_with_the_next_change_of_a_new_file_by_its_client() {
        let records = vec![
            record(1, Op::Create, 1),
            record(2, Op::Write, 50), // another client
            record(1, Op::Write, 60),
            record(1, Op::Create, 1), // followed by another create of the client
            record(1, Op::Create, 1),
            record(1, Op::Setattr, 61),
            record(2, Op::Create, 1), // only files that are known already follow
            record(2, Op::Write, 50),
        ];
        let mut matched = Matched::new(records.into_iter().map(Ok));
        let made: Vec<u64> = matched.by_ref().map(|record| record.unwrap().made.0).collect();
        assert_eq!(made, [60, 0, 0, 0, 61, 0, 0, 0]);
        assert_eq!(matched.matches(), Matches { asked: 4, found: 2 });
    }

    #[test]
    fn memory_is_bounded_while_a_create_waits() {
        let one = std::iter::once(record(1, Op::Create, 1));
        let others = (0..3 * WINDOW as u64).map(|n| record(2, Op::Write, 2 + n));
        let mut matched = Matched::new(one.chain(others).map(Ok));
        assert!(!matched.next().unwrap().unwrap().made.is_some());
        assert_eq!(matched.window.len(), WINDOW - 1);
        assert_eq!(matched.count(), 3 * WINDOW);
    }
}
