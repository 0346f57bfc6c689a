//! The operations of users: they rewrite or delete a block.

use super::trace::Trace;
use super::zipf::Zipf;
use rand::Rng;
use rand_pcg::Pcg64;
use std::sync::Arc;

/// A user writes or deletes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op(u32);

impl Op {
    const DELETE: u32 = 1 << 31;

    /// Block `block` gets new content; it need not exist.
    #[must_use]
    pub fn write(block: u32) -> Self {
        Self(block & !Self::DELETE)
    }

    /// Block `block` is gone.
    #[must_use]
    pub fn delete(block: u32) -> Self {
        Self(block | Self::DELETE)
    }

    /// The block.
    #[must_use]
    pub fn block(self) -> u32 {
        self.0 & !Self::DELETE
    }

    /// Whether it is a deletion.
    #[must_use]
    pub fn is_delete(self) -> bool {
        self.0 & Self::DELETE != 0
    }
}

/// Kinds of workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Groups of blocks with shares of data and writes, in percent; each block of a group is equally likely. One group of
    /// everything is uniform, two are hot and cold.
    Groups(Vec<(f64, f64)>),
    /// Hot and cold; after every `period`, another part of the blocks becomes hot.
    Shifting {
        /// Volumes written between two moves.
        period: f64,
        /// Percent of the data that is hot.
        data: f64,
        /// Percent of the writes that go there.
        writes: f64,
    },
    /// Block of rank r in proportion to r^-exponent.
    Zipf {
        /// 0 is uniform.
        exponent: f64,
    },
    /// Whole files: each is written from the first block to the last and deleted as a whole; all are equally likely.
    /// Sizes are distributed exponentially.
    Files {
        /// Mean size in blocks.
        mean_blocks: f64,
    },
    /// The recorded operations, over and over.
    Trace(Arc<Trace>),
}

/// A running workload.
pub(crate) struct Stream {
    rng: Pcg64,
    kind: Kind,
    blocks: u32,
}

enum Kind {
    /// For each group: writes up to and including it as a share of 2^32; first block; blocks.
    Groups(Vec<(u64, u32, u32)>),
    Shifting {
        hot: u32,
        threshold: u64,
        start: u32,
        written: u64,
        period: u64,
    },
    Zipf(Zipf),
    Files(Files),
    Trace {
        trace: Arc<Trace>,
        at: usize,
    },
}

/// Files on a volume: which block numbers each one has, and which are free.
struct Files {
    mean_blocks: f64,
    files: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl Stream {
    pub fn new(workload: &Workload, blocks: u32, seed: u64) -> Self {
        let kind = match workload {
            Workload::Groups(groups) => Kind::Groups(bounds(groups, blocks)),
            Workload::Shifting { period, data, writes } => Kind::Shifting {
                hot: ((f64::from(blocks) * data / 100.0) as u32).clamp(1, blocks - 1),
                threshold: (writes / 100.0 * 2f64.powi(32)) as u64,
                start: 0,
                written: 0,
                period: ((f64::from(blocks) * period) as u64).max(1),
            },
            Workload::Zipf { exponent } => Kind::Zipf(Zipf::new(blocks, *exponent)),
            Workload::Files { mean_blocks } => Kind::Files(Files {
                mean_blocks: *mean_blocks,
                files: Vec::new(),
                free: (0..blocks).rev().collect(),
            }),
            Workload::Trace(trace) => Kind::Trace { trace: trace.clone(), at: 0 },
        };
        Self { rng: firnfs_sim::seeded(seed, "cleaning workload"), kind, blocks }
    }

    /// Fills the volume: every block once, in an order that does not correlate with later operations.
    pub fn initial(&mut self) -> Vec<Op> {
        match &mut self.kind {
            Kind::Files(files) => {
                let mut ops = Vec::new();
                while files.create(&mut self.rng, &mut ops) {}
                ops
            }
            Kind::Trace { .. } => Vec::new(),
            _ => {
                let mut order: Vec<u32> = (0..self.blocks).collect();
                for i in (1..self.blocks).rev() {
                    order.swap(i as usize, below(&mut self.rng, i + 1) as usize);
                }
                order.into_iter().map(Op::write).collect()
            }
        }
    }

    /// Replaces `ops` by the next operations, about `count` of them.
    pub fn fill(&mut self, ops: &mut Vec<Op>, count: usize) {
        ops.clear();
        let (rng, blocks) = (&mut self.rng, self.blocks);
        match &mut self.kind {
            Kind::Groups(groups) if groups.len() == 1 => {
                ops.extend((0..count).map(|_| Op::write(below(rng, blocks))))
            }
            Kind::Groups(groups) => ops.extend((0..count).map(|_| {
                let word = rng.next_u64();
                let (_, first, len) = groups[groups.partition_point(|g| g.0 <= word >> 32)];
                Op::write(first + scale(word, len))
            })),
            Kind::Shifting { hot, threshold, start, written, period } => ops.extend((0..count).map(|_| {
                *written += 1;
                if *written % *period == 0 {
                    *start = (*start + *hot) % blocks;
                }
                let word = rng.next_u64();
                let offset = if word >> 32 < *threshold {
                    scale(word, *hot)
                } else {
                    *hot + scale(word, blocks - *hot)
                };
                Op::write(((u64::from(*start) + u64::from(offset)) % u64::from(blocks)) as u32)
            })),
            Kind::Zipf(zipf) => ops.extend((0..count).map(|_| Op::write(zipf.draw(rng)))),
            Kind::Files(files) => {
                while ops.len() < count {
                    if !files.create(rng, ops) {
                        files.delete(rng, ops);
                    }
                }
            }
            Kind::Trace { trace, at } => ops.extend((0..count).map(|_| {
                let op = trace.ops[*at];
                *at = (*at + 1) % trace.ops.len();
                op
            })),
        }
    }
}

impl Files {
    /// Writes one file; false if it does not fit.
    fn create(&mut self, rng: &mut Pcg64, ops: &mut Vec<Op>) -> bool {
        let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let len = ((-(1.0 - uniform).ln() * self.mean_blocks).ceil() as usize).max(1);
        let Some(rest) = self.free.len().checked_sub(len) else { return false };
        let file = self.free.split_off(rest);
        ops.extend(file.iter().map(|&block| Op::write(block)));
        self.files.push(file);
        true
    }

    /// Deletes one file; nothing if there is none.
    fn delete(&mut self, rng: &mut Pcg64, ops: &mut Vec<Op>) {
        if self.files.is_empty() {
            return;
        }
        let file = self.files.swap_remove(below(rng, self.files.len() as u32) as usize);
        ops.extend(file.iter().map(|&block| Op::delete(block)));
        self.free.extend(file);
    }
}

/// Bounds of groups of writes and of blocks; the last group takes the remainder of rounding.
fn bounds(groups: &[(f64, f64)], blocks: u32) -> Vec<(u64, u32, u32)> {
    let all_data: f64 = groups.iter().map(|g| g.0).sum();
    let all_writes: f64 = groups.iter().map(|g| g.1).sum();
    let (mut data, mut writes, mut first) = (0.0, 0.0, 0);
    let mut bounds = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        data += group.0 / all_data;
        writes += group.1 / all_writes;
        let is_last = index + 1 == groups.len();
        let end = if is_last { blocks } else { (f64::from(blocks) * data).round() as u32 };
        let until = if is_last { 1 << 32 } else { (writes * 2f64.powi(32)) as u64 };
        // A group too small for one block is written as the next one.
        if end > first {
            bounds.push((until, first, end - first));
        }
        first = end;
    }
    bounds
}

/// A number below `bound` from the low half of a random word.
#[inline]
fn scale(word: u64, bound: u32) -> u32 {
    (((word & 0xffff_ffff) * u64::from(bound)) >> 32) as u32
}

/// A random number below `bound`.
#[inline]
pub(super) fn below(rng: &mut Pcg64, bound: u32) -> u32 {
    scale(rng.next_u64(), bound)
}
