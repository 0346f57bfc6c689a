//! Facts that a repair needs beyond the findings: the correct content of both tables.

use super::finding::{Finding, Problem};
use super::state::{Check, Torn};
use crate::lfs::{INODE_NUMBERS, LogKind, Restated};
use firnfs_format::table::UsageEntry;
use firnfs_format::{Epoch, InodeNo, SegmentId};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The tables, if the accounting is wrong in any way.
    pub(crate) tables: Option<Restated>,
    /// See [`Facts::charges`].
    pub(crate) charges: Vec<(InodeNo, u64)>,
    /// Numbers whose part of the inode map could not be read.
    pub(crate) lost_inodes: Vec<(u64, u64)>,
    /// Points that cannot be read: a repair gives them up.
    pub(crate) lost_points: Vec<Epoch>,
    /// The accounting is right as long as nobody frees the content of files that could not be followed.
    pub(crate) is_right_with_lost: bool,
    /// Inodes whose content could not be followed.
    pub(crate) torn: Vec<InodeNo>,
}

impl Facts {
    /// Inodes whose records state a wrong charge, with the bytes that are really charged to them.
    #[must_use]
    pub fn charges(&self) -> &[(InodeNo, u64)] {
        &self.charges
    }

    /// For a repair that gives up points; everything else is as it is without them.
    pub(crate) fn give_up_points(&mut self, lost: Vec<Epoch>) {
        if let Some(tables) = &mut self.tables {
            tables.lost_points = lost;
        }
    }

    /// For a repair that leaves lost content as it is: the blocks below it stay on the accounts unless these are wrong in another
    /// way, too.
    pub fn leave_lost(&mut self) {
        if self.is_right_with_lost {
            self.tables = None;
            self.charges.retain(|(ino, _)| !self.torn.contains(ino));
        }
    }

    /// For a repair that leaves states of the past that cannot be read completely: they stay on the accounts, which are as they were.
    pub fn leave_states(&mut self) {
        self.tables = None;
        self.charges.retain(|(ino, _)| !self.torn.contains(ino));
    }

    /// True if the tables have to be rewritten.
    #[must_use]
    pub fn restates(&self) -> bool {
        self.tables.is_some()
    }
}

impl Check<'_> {
    /// Gathers the facts at the end of the check.
    pub fn facts(&mut self) -> Facts {
        let wrong_charge =
            |inode: &&super::namespace::InodeFacts| inode.charged_found != inode.charged_stated;
        let charges =
            self.names.inodes.iter().filter(wrong_charge).map(|i| (i.ino, i.charged_found)).collect();
        let is_torn = |inode: &&super::namespace::InodeFacts| inode.is_torn;
        let torn = self.names.inodes.iter().filter(is_torn).map(|inode| inode.ino).collect();
        let is_right_with_lost = !self.accounting_is_wrong(Torn::Content);
        let tables = self.accounting_is_wrong(Torn::Nothing).then(|| self.tables());
        let lost_inodes = std::mem::take(&mut self.lost_inodes);
        let lost_points = std::mem::take(&mut self.lost_points);
        Facts { tables, charges, lost_inodes, lost_points, is_right_with_lost, torn }
    }

    /// Gathers them for a volume without tables, whose logs have no place yet.
    pub fn all_facts(&mut self) -> Facts {
        let facts = self.facts();
        let tables = facts.tables.unwrap_or_else(|| self.tables());
        Facts { tables: Some(Restated { move_logs: true, ..tables }), ..facts }
    }

    /// Whether it is wrong, where that much may be torn.
    fn accounting_is_wrong(&self, may_be: Torn) -> bool {
        let is_left = |finding: &Finding| may_be == Torn::Content && finding.lost_bytes > 0;
        self.torn > may_be
            || self.is_stale
            || self.names.findings.iter().any(|finding| finding.problem.is_of_accounts() && !is_left(finding))
    }

    /// Both tables from the pointers of phase 1. Blocks of the old trees are not counted, because the trees are
    /// rewritten; but the segments that hold them stay in use until the next checkpoint.
    fn tables(&mut self) -> Restated {
        let mut table_bytes: BTreeMap<SegmentId, u64> = BTreeMap::new();
        let shared: FxHashSet<_> = self.shared_map.iter().map(|ptr| ptr.addr).collect();
        let mut shared_bytes = 0;
        for ptr in &self.table_claims {
            if shared.contains(&ptr.addr) {
                // It dies for the present alone.
                shared_bytes += u64::from(ptr.stored_bytes());
                continue;
            }
            *table_bytes.entry(self.geo.segment_of(ptr.addr)).or_default() += u64::from(ptr.stored_bytes());
        }
        let stated: BTreeMap<u64, UsageEntry> = self.usage.iter().copied().collect();
        let live = self.claims.segments();
        let segments: BTreeSet<u64> =
            stated.keys().copied().chain(live.iter().map(|segment| segment.0)).collect();
        let newest = self.lfs.durable_epoch();
        let usage = segments.into_iter().map(|segment| {
            let id = SegmentId(segment);
            let entry = stated.get(&segment).copied().unwrap_or_default();
            let claimed = self.claims.live_in(id);
            let live_bytes = claimed - table_bytes.get(&id).copied().unwrap_or(0).min(claimed);
            let in_use = entry.in_use || claimed > 0;
            // A checkpoint that does not exist yet cannot have found anything.
            let epoch = if in_use { firnfs_format::Epoch(0) } else { entry.epoch.min(newest) };
            let live_bytes = u32::try_from(live_bytes).unwrap_or(u32::MAX);
            (segment, UsageEntry { live_bytes, in_use, epoch, ..entry })
        });
        let usage = usage.filter(|(_, entry)| *entry != UsageEntry::default()).collect();
        let move_logs = self.names.findings.iter().any(|f| matches!(f.problem, Problem::LogWay { .. }));
        let tables: u64 = table_bytes.values().sum();
        let mut live_kinds = self.claims.live_kinds.without_tables();
        live_kinds.add_many(LogKind::Past, shared_bytes);
        let mut imap = std::mem::take(&mut self.imap);
        imap.retain(|(number, _)| *number < INODE_NUMBERS && self.lfs.has_branch(InodeNo(*number)));
        Restated {
            imap,
            usage,
            live_bytes: self.claims.live_bytes.saturating_sub(tables),
            live_kinds,
            move_logs,
            lost_points: Vec::new(),
        }
    }
}
