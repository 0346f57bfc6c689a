//! Segments by their number of live blocks: finds the emptiest in constant time, however many there are.
//!
//! A doubly linked list for each number, in flat arrays. Caller: [`super::disk`], for the greedy policy.

const NONE: u32 = u32::MAX;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Buckets {
    /// First segment of each list; index = live blocks.
    head: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    /// All lists below this one are empty.
    lowest: u32,
}

impl Buckets {
    pub fn new(segments: u32, segment_blocks: u32) -> Self {
        Self {
            head: vec![NONE; segment_blocks as usize + 1],
            next: vec![NONE; segments as usize],
            prev: vec![NONE; segments as usize],
            lowest: segment_blocks,
        }
    }

    #[inline]
    pub fn insert(&mut self, segment: u32, live: u32) {
        let first = std::mem::replace(&mut self.head[live as usize], segment);
        self.next[segment as usize] = first;
        self.prev[segment as usize] = NONE;
        if first != NONE {
            self.prev[first as usize] = segment;
        }
        self.lowest = self.lowest.min(live);
    }

    #[inline]
    pub fn remove(&mut self, segment: u32, live: u32) {
        let (prev, next) = (self.prev[segment as usize], self.next[segment as usize]);
        if prev == NONE {
            self.head[live as usize] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
    }

    /// A segment with the fewest live blocks.
    pub fn emptiest(&mut self) -> Option<u32> {
        while let Some(&head) = self.head.get(self.lowest as usize) {
            if head != NONE {
                return Some(head);
            }
            self.lowest += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_out_by_live_blocks_whatever_happened_before() {
        let mut buckets = Buckets::new(5, 10);
        for (segment, live) in [(0, 7), (1, 3), (2, 7), (3, 7), (4, 10)] {
            buckets.insert(segment, live);
        }
        buckets.remove(2, 7);
        buckets.insert(2, 6);
        buckets.remove(1, 3);
        let mut order = Vec::new();
        let live = [7, 3, 6, 7, 10];
        while let Some(segment) = buckets.emptiest() {
            buckets.remove(segment, live[segment as usize]);
            order.push(live[segment as usize]);
        }
        assert_eq!(order, [6, 7, 7, 10]);
    }
}
