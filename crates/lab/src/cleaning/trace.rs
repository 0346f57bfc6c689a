//! Recorded traces, as text for people and scripts.
//!
//! ```text
//! # Anything after a hash is a comment; empty lines are skipped.
//! w 17        block 17 is written
//! w 100 8     blocks 100 to 107 are written, in order
//! d 100 4     blocks 100 to 103 are deleted
//! ```
//!
//! Numbers are decimal, blocks of any number up to 2^64 - 1; a count is 1 to 2^24. A trace is repeated until the result
//! is steady; the next round overwrites the blocks that it leaves alive.

use super::workload::Op;
use rustc_hash::FxHashMap;

/// Most operations (8 bytes of memory each).
const MAX_OPS: usize = 1 << 28;
/// The largest count.
const MAX_COUNT: u64 = 1 << 24;

/// A trace in memory, its blocks renumbered without gaps.
#[derive(Debug, PartialEq)]
pub struct Trace {
    pub(super) ops: Vec<Op>,
    /// Blocks that it names.
    pub(super) blocks: u32,
    /// Most blocks that exist at the same time.
    pub(super) peak: u32,
}

impl Trace {
    /// Parses the text.
    ///
    /// # Errors
    /// What is wrong, with its line number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut ops = Vec::new();
        let mut numbers = FxHashMap::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (make, first, count) =
                parse_line(line).map_err(|why| format!("line {}: {why}", index + 1))?;
            if ops.len() as u64 + count > MAX_OPS as u64 {
                return Err(format!("line {}: more than {MAX_OPS} blocks in all", index + 1));
            }
            for block in first..first + count {
                let next = numbers.len() as u32;
                ops.push(make(*numbers.entry(block).or_insert(next)));
            }
        }
        if !ops.iter().any(|op| !op.is_delete()) {
            return Err("it writes nothing".into());
        }
        let blocks = numbers.len() as u32;
        let peak = peak(&ops, blocks);
        Ok(Self { ops, blocks, peak })
    }
}

type Line = (fn(u32) -> Op, u64, u64);

fn parse_line(line: &str) -> Result<Line, String> {
    let mut words = line.split_whitespace();
    let make = match words.next() {
        Some("w") => Op::write as fn(u32) -> Op,
        Some("d") => Op::delete,
        other => return Err(format!("expected w or d, found {}", other.unwrap_or_default())),
    };
    let mut number = |what: &str, otherwise: Option<u64>| match (words.next(), otherwise) {
        (Some(word), _) => word.parse::<u64>().map_err(|_| format!("{what} {word} is not a number")),
        (None, Some(value)) => Ok(value),
        (None, None) => Err(format!("the {what} is missing")),
    };
    let first = number("block", None)?;
    let count = number("count", Some(1))?;
    if !(1..=MAX_COUNT).contains(&count) || first.checked_add(count).is_none() {
        return Err(format!("count {count} is not in 1 to {MAX_COUNT}, or leads beyond the last block"));
    }
    match words.next() {
        Some(word) => Err(format!("{word} is one word too many")),
        None => Ok((make, first, count)),
    }
}

/// Most live blocks during two rounds: the second one starts with the blocks that the first one leaves.
fn peak(ops: &[Op], blocks: u32) -> u32 {
    let mut exists = vec![false; blocks as usize];
    let (mut live, mut peak) = (0, 0);
    for op in ops.iter().chain(ops) {
        let was = std::mem::replace(&mut exists[op.block() as usize], !op.is_delete());
        live = live + u32::from(!op.is_delete()) - u32::from(was);
        peak = peak.max(live);
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_says_which_blocks_live() {
        let trace =
            Trace::parse("# head\n\nw 100 3\nw 101 # again\nd 100\nw 18446744073709551614\n").unwrap();
        let expected = [Op::write(0), Op::write(1), Op::write(2), Op::write(1), Op::delete(0), Op::write(3)];
        assert_eq!(trace.ops, expected);
        assert_eq!((trace.blocks, trace.peak), (4, 4));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [
            ("x 1", "line 1: expected w or d"),
            ("w 1\n\nw", "line 3: the block is missing"),
            ("w one", "line 1: block one is not a number"),
            ("w 1 0", "line 1: count 0 is not in"),
            ("w 1 99999999999", "line 1: count 99999999999 is not in"),
            ("w 18446744073709551615 2", "line 1: count 2 is not in"),
            ("w 1 1 1", "line 1: 1 is one word too many"),
            ("w -1", "line 1: block -1"),
            ("d 1", "it writes nothing"),
        ] {
            let error = Trace::parse(text).unwrap_err();
            assert!(error.starts_with(line), "{text}: {error}");
        }
    }
}
