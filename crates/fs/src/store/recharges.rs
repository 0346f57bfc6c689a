//! `Recharges`: what inodes are charged more or less since somebody looked, net for each inode.
//!
//! The log charges a dirty block whole and a stored one as trimmed; both stores drop the blocks of large files in the background. Those
//! who keep sums of what inodes are charged follow these changes. Invariant: no inode is in it with a change of 0, so it is never larger
//! than the number of inodes that really have another charge. Callers: the stores, through [`super::Store::take_recharges`].

use super::{Owner, Recharge};
use crate::inode::Inode;
use firnfs_format::InodeNo;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// See the module's head. Nothing is noted until somebody follows.
#[derive(Default)]
pub(crate) struct Recharges(Option<FxHashMap<InodeNo, (Owner, i64)>>);

impl Recharges {
    /// Starts to note changes, or stops that.
    pub fn follow(&mut self, follow: bool) {
        self.0 = follow.then(FxHashMap::default);
    }

    /// True if somebody wants to know.
    pub fn are_followed(&self) -> bool {
        self.0.is_some()
    }

    /// An inode in use is charged `now_bytes` instead of `before_bytes`.
    pub fn note(&mut self, ino: InodeNo, inode: &Inode, before_bytes: u64, now_bytes: u64) {
        let Some(changes) = &mut self.0 else { return };
        let bytes = now_bytes.cast_signed().wrapping_sub(before_bytes.cast_signed());
        let owner = Owner { uid: inode.uid, gid: inode.gid };
        match changes.entry(ino) {
            Entry::Vacant(_) if bytes == 0 => {}
            Entry::Vacant(vacant) => {
                vacant.insert((owner, bytes));
            }
            Entry::Occupied(mut occupied) => {
                let sum = occupied.get().1 + bytes;
                if sum == 0 {
                    occupied.remove();
                } else {
                    *occupied.get_mut() = (owner, sum);
                }
            }
        }
    }

    /// What was noted since the last call.
    pub fn take(&mut self) -> Vec<Recharge> {
        let Some(changes) = &mut self.0 else { return Vec::new() };
        // The order is of no consequence: the changes are added up.
        changes.drain().map(|(ino, (owner, bytes))| Recharge { ino, owner, bytes }).collect()
    }
}
