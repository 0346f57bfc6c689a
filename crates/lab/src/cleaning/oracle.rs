//! The placement that knows the future: blocks that will die within the same span of time go to the same log.
//!
//! Log k takes blocks that live between base * 2^k and base * 2^(k+1) more; the shortest and the longest log take the
//! rest. No file system can have it: the others are measured against it.

/// Never, within the known future.
const NEVER: u32 = u32::MAX;

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    logs: u8,
    /// Life spans of the first log end here, in blocks written by users.
    base: u32,
    /// When each version that will be written dies, in the order of writing.
    deaths: Vec<u32>,
    /// When each block's present version dies.
    dies: Vec<u32>,
}

impl Oracle {
    /// Reads the future: all operations of the users.
    pub fn new(logs: u8, base: u32, ops: &[super::workload::Op], blocks: u32) -> Self {
        let mut next = vec![NEVER; blocks as usize];
        let mut deaths = Vec::with_capacity(ops.len());
        let mut now = ops.iter().filter(|op| !op.is_delete()).count() as u32;
        for op in ops.iter().rev() {
            let block = op.block() as usize;
            if op.is_delete() {
                next[block] = now;
            } else {
                now -= 1;
                deaths.push(next[block]);
                next[block] = now;
            }
        }
        deaths.reverse();
        Self { logs, base, deaths, dies: vec![NEVER; blocks as usize] }
    }

    pub fn logs(&self) -> u8 {
        self.logs
    }

    /// The log of a block that a user writes now.
    pub fn log_for_user(&mut self, block: u32, now: u32) -> u8 {
        self.dies[block as usize] = self.deaths.get(now as usize).copied().unwrap_or(NEVER);
        self.log_for(block, now)
    }

    /// The log of a block that the cleaner moves now.
    pub fn log_for(&self, block: u32, now: u32) -> u8 {
        let dies = self.dies[block as usize];
        if dies == NEVER {
            return self.logs - 1;
        }
        let left = dies.saturating_sub(now) / self.base.max(1);
        let doublings = u32::BITS - left.leading_zeros();
        doublings.min(u32::from(self.logs) - 1) as u8
    }
}
