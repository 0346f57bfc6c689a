//! What a workload consists of: counts and sums in constant memory.

use crate::record::{Op, Outcome, Record};

/// Counts of one kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Operations.
    pub operations: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, with an unknown outcome.
    pub unknown: u64,
    /// Bytes that they moved (Read, Write, Copy and Readdir; others return no bytes).
    pub bytes: u64,
    /// Operations that say how long they took.
    pub timed: u64,
    /// Sum of the times that these took, in nanoseconds.
    pub duration_ns: u64,
}

/// Sums of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    counts: Vec<Count>,
    /// When the first operation began, in ns since the start.
    pub first_ns: u64,
    /// When the last operation ended, in ns since the start.
    pub end_ns: u64,
    /// Records that are earlier than one before them.
    pub out_of_order: u64,
    last_ns: u64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            counts: vec![Count::default(); Op::ALL.len()],
            first_ns: u64::MAX,
            end_ns: 0,
            out_of_order: 0,
            last_ns: 0,
        }
    }
}

impl Summary {
    /// Counts a record.
    pub fn add<N>(&mut self, record: &Record<N>) {
        let count = &mut self.counts[record.op as usize - 1];
        count.operations += 1;
        match record.outcome {
            Outcome::Unknown => count.unknown += 1,
            Outcome::Failed(_) => count.failed += 1,
            Outcome::Done(bytes) if matches!(record.op, Op::Read | Op::Write | Op::Copy | Op::Readdir) => {
                count.bytes = count.bytes.saturating_add(bytes);
            }
            Outcome::Done(_) => {}
        }
        if let Some(ns) = record.duration_ns {
            count.timed += 1;
            count.duration_ns = count.duration_ns.saturating_add(ns);
        }
        self.first_ns = self.first_ns.min(record.time_ns);
        self.end_ns = self.end_ns.max(record.end_ns());
        self.out_of_order += u64::from(record.time_ns < self.last_ns);
        self.last_ns = record.time_ns;
    }

    /// Kinds of operations that occurred, with their counts, in the order of their codes.
    pub fn counts(&self) -> impl Iterator<Item = (Op, &Count)> {
        Op::ALL.iter().copied().zip(&self.counts).filter(|(_, count)| count.operations > 0)
    }

    /// All operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts.iter().map(|count| count.operations).sum()
    }

    /// From the beginning of the first operation to the end of the last one, in nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.first_ns)
    }
}
