//! Where things should go: the group of a new inode, the place of a new block. Pure functions over the counts of all groups.
//!
//! Rules: `ffs_dirpref`, `ffs_blkpref`, `ffs_hashalloc` of 4.4BSD's `ffs_alloc.c`.

use firnfs_format::ffs::{Summary, Tuning};

/// The group of a new directory: the one with the fewest directories among those with at least the average number of free inodes.
#[must_use]
pub fn directory_group(groups: &[Summary]) -> u32 {
    let free: u64 = groups.iter().map(|group| u64::from(group.free_inodes)).sum();
    let average = free / groups.len().max(1) as u64;
    let enough = (0u32..).zip(groups).filter(|(_, group)| u64::from(group.free_inodes) >= average);
    enough.min_by_key(|(_, group)| group.dirs).map_or(0, |(group, _)| group)
}

/// The first group from `start` on, around, with at least the average number of free blocks.
#[must_use]
pub fn roomy_group(groups: &[Summary], start: u32) -> u32 {
    let free: u64 = groups.iter().map(|group| u64::from(group.free_blocks)).sum();
    let average = free / groups.len().max(1) as u64;
    let count = groups.len() as u32;
    let mut around = (0..count).map(|step| (start % count.max(1) + step) % count);
    around.find(|&group| u64::from(groups[group as usize].free_blocks) >= average).unwrap_or(0)
}

/// The order in which groups are tried if the preferred one is full: itself, then with gaps that double, then the rest.
pub fn search_order(preferred: u32, count: u32) -> impl Iterator<Item = u32> {
    let doubling =
        std::iter::successors(Some(1u32), |step| step.checked_mul(2)).take_while(move |step| *step < count);
    let mut at = preferred;
    let rehashed = doubling.map(move |step| {
        at = (at + step) % count;
        at
    });
    let rest = (2..count).map(move |step| (preferred + step) % count);
    std::iter::once(preferred).chain(rehashed).chain(rest)
}

/// The block for which a place is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBlock<'a> {
    /// Number of the file's block; for an indirect block, the first one below it.
    pub block: u64,
    /// Where the pointer will be among those before it: in the inode, or in an indirect block. `None` for an indirect block.
    pub slot: Option<u32>,
    /// The pointers of the same array before it, the last one last, at most as many as `maxcontig`; 0 is a hole.
    pub before: &'a [u32],
    /// True for a block below the inode's direct pointers.
    pub is_direct: bool,
    /// The first block after the direct pointers under the policy *NoSwitch*: the block before it, if there is one.
    pub follows: Option<u32>,
}

/// The wish for a new block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// This fragment.
    At(u32),
    /// Anywhere in this group.
    Group(u32),
}

/// Where a file's block should go. `inode_group`: the group of the file's inode; `group_of` gives the group of a fragment;
/// `gap_frags`: the rotational gap.
pub fn place(
    new: &NewBlock<'_>,
    groups: &[Summary],
    tuning: &Tuning,
    inode_group: u32,
    frags_per_block: u32,
    gap_frags: u32,
    group_of: impl Fn(u32) -> u32,
) -> Wish {
    let last = new.before.last().copied().filter(|&ptr| ptr != 0);
    let starts_section = new.slot.is_none_or(|slot| slot.is_multiple_of(tuning.max_blocks_per_group));
    if let Some(follows) = new.follows.filter(|_| last.is_none()) {
        return Wish::At(follows + frags_per_block);
    }
    match last {
        Some(last) if !starts_section => {
            Wish::At(behind(new.before, last, tuning, frags_per_block, gap_frags))
        }
        _ if new.is_direct => Wish::Group(inode_group),
        Some(last) => Wish::Group(roomy_group(groups, group_of(last) + 1)),
        None => {
            let sections = new.block / u64::from(tuning.max_blocks_per_group);
            let start = (u64::from(inode_group) + sections) % groups.len().max(1) as u64;
            Wish::Group(roomy_group(groups, start as u32))
        }
    }
}

/// The fragment after the last block, with a gap after `maxcontig` contiguous ones.
fn behind(before: &[u32], last: u32, tuning: &Tuning, frags_per_block: u32, gap_frags: u32) -> u32 {
    let next = last.saturating_add(frags_per_block);
    let maxcontig = tuning.maxcontig as usize;
    if gap_frags == 0 || before.len() < maxcontig {
        return next;
    }
    let run = &before[before.len() - maxcontig..];
    let is_contiguous = run[0] != 0 && run[0] + (maxcontig as u32) * frags_per_block == next;
    if is_contiguous { next.saturating_add(gap_frags) } else { next }
}
