//! Phase 5: recomputes live bytes of segments and of the volume, counts, and the segments that the logs will write over,
//! from the pointers of phase 1.
//!
//! The check, and tests that audit a mounted volume, judge the accounting by this rule: a segment's live bytes are the
//! stored bytes of all current pointers into it.

use super::finding::{Problem, Versus};
use super::state::{Check, Torn};
use crate::states::branch_of;
use firnfs_format::table::{TableEntry, UsageEntry};
use firnfs_format::{InodeNo, SegmentId};

impl Check<'_> {
    /// Runs the phase.
    pub fn phase_5(&mut self) {
        self.tell(5);
        self.totals.live_bytes = self.claims.live_bytes;
        let segments = self.claims.segments();
        self.totals.segments = segments.len() as u64;
        self.numbers();
        // If a tree could not be followed, the table counts the blocks below, and this check does not.
        if self.torn == Torn::Nothing && !self.is_stale && self.lost_segments.is_empty() {
            let live_bytes = Versus { stated: self.lfs.live_bytes(), found: self.claims.live_bytes };
            if live_bytes.stated != live_bytes.found {
                self.report(None, Problem::LiveBytes(live_bytes));
            }
            self.kinds();
        }
        self.segments(&segments);
        self.log_ways();
    }

    /// Volumes of versions that did not record live bytes by kind have none.
    fn kinds(&mut self) {
        let Some(stated) = self.lfs.live_kinds() else { return };
        for (kind, found) in self.claims.live_kinds.iter() {
            let live_bytes = Versus { stated: stated.of(kind), found };
            if live_bytes.stated != live_bytes.found {
                self.report(None, Problem::LiveKind { kind, live_bytes });
            }
        }
    }

    fn numbers(&mut self) {
        let used = self.imap.iter().filter(|(_, entry)| entry.is_used());
        let of_volume = used.clone().map(|(number, _)| *number).filter(|ino| branch_of(InodeNo(*ino)) == 0);
        let highest = of_volume.max().unwrap_or(0);
        let count = Versus { stated: self.lfs.inodes_used(), found: used.count() as u64 };
        if count.stated != count.found && self.lost_inodes.is_empty() && !self.is_stale {
            self.report(None, Problem::InodeCount(count));
        }
        let next = Versus { stated: self.lfs.next_ino(), found: InodeNo(highest.saturating_add(1)) };
        if next.found > next.stated {
            self.report(None, Problem::NextIno(next));
        }
    }

    fn segments(&mut self, live: &[SegmentId]) {
        let usage = std::mem::take(&mut self.usage);
        let stated = usage.iter().map(|(segment, _)| SegmentId(*segment));
        let mut segments: Vec<SegmentId> = stated.chain(live.iter().copied()).collect();
        segments.sort_unstable();
        segments.dedup();
        for segment in segments {
            if !self
                .lost_segments
                .iter()
                .any(|&(first, count)| segment.0 >= first && segment.0 - first < count)
            {
                let entry = usage.binary_search_by_key(&segment.0, |entry| entry.0);
                self.segment(segment, entry.map_or_else(|_| UsageEntry::default(), |at| usage[at].1));
            }
        }
        self.usage = usage;
    }

    fn segment(&mut self, segment: SegmentId, entry: UsageEntry) {
        let live_bytes = Versus { stated: u64::from(entry.live_bytes), found: self.claims.live_in(segment) };
        let wrong = live_bytes.stated != live_bytes.found || live_bytes.found > 0 && !entry.in_use;
        // A surplus may belong to blocks below a part that could not be read.
        let below = self.torn > Torn::Nothing && live_bytes.stated >= live_bytes.found && entry.in_use;
        let explained = below || self.is_stale;
        if wrong && !explained {
            self.report(None, Problem::Usage { segment, live_bytes, in_use: entry.in_use });
        }
        let epoch = Versus { stated: entry.epoch, found: self.lfs.durable_epoch() };
        if !entry.in_use && epoch.stated > epoch.found {
            self.report(None, Problem::UsageEpoch { segment, epoch });
        }
    }

    fn log_ways(&mut self) {
        for (log, tail) in self.lfs.tails().into_iter().enumerate() {
            let Some(tail) = tail else { continue };
            for (segment, sector) in [(tail.segment, tail.sector), (tail.next_segment, 0)] {
                if self.claims.any_from(segment, sector) && (segment != tail.segment || sector > 0) {
                    self.report(None, Problem::LogWay { log, segment });
                }
            }
        }
    }
}
