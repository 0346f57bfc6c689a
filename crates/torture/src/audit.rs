//! The accounting of a volume added up anew: every segment's live bytes, and their sum, must be exactly what the usage
//! table says.

use firnfs::lfs::Lfs;
use firnfs::lfs::view::TableKind;
use firnfs::{FsError, lfs};
use firnfs_format::table::TableEntry;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_volume::Volume;
use std::collections::BTreeMap;

/// Adds up a volume on which nothing is dirty. Returns what does not agree, one line each.
///
/// # Errors
/// What reading the volume reports.
pub fn audit(volume: &Volume<Lfs>) -> Result<Vec<String>, FsError> {
    let geo = volume.run(|vfs, _| Ok(vfs.store().geometry()))?;
    let mut live: BTreeMap<SegmentId, u64> = BTreeMap::new();
    let mut reserved_bytes = 0;
    let mut wrong = Vec::new();
    let mut add = |ptr: &firnfs_format::BlockPtr| {
        if ptr.is_stored() {
            *live.entry(geo.segment_of(ptr.addr)).or_default() += u64::from(ptr.stored_bytes());
        } else {
            reserved_bytes += u64::from(geo.block_bytes);
        }
    };
    for kind in [TableKind::InodeMap, TableKind::SegmentUsage] {
        volume.run(|vfs, _| vfs.store_mut().table_blocks(kind))?.iter().for_each(|b| add(&b.ptr));
    }
    let next = volume.run(|vfs, _| Ok(vfs.store().next_ino()))?;
    let mut used = 0;
    for ino in (1..next.0).map(InodeNo) {
        let entry = volume.run(|vfs, _| vfs.store_mut().imap_entry(ino))?;
        if entry.is_used() {
            used += 1;
            add(&entry.ptr);
            let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino))?;
            blocks.iter().for_each(|b| add(&b.ptr));
        }
    }
    compare(volume, &geo, &live, &mut wrong)?;
    let aside = volume.run(|vfs, _| {
        let list = vfs.store().set_aside();
        Ok(list.map(|(thing, why)| format!("{thing} was set aside: {why}")).collect::<Vec<_>>())
    })?;
    wrong.extend(aside);
    let total: u64 = live.values().sum::<u64>() + reserved_bytes;
    let (stated, space) = volume.run(|vfs, _| Ok((vfs.store().live_bytes(), vfs.statfs())))?;
    if stated != total {
        wrong.push(format!("the volume states {stated} live bytes, there are {total}"));
    }
    if space.inodes_used != used {
        wrong.push(format!("the volume states {} inodes, there are {used}", space.inodes_used));
    }
    Ok(wrong)
}

fn compare(
    volume: &Volume<Lfs>,
    geo: &lfs::Geometry,
    live: &BTreeMap<SegmentId, u64>,
    wrong: &mut Vec<String>,
) -> Result<(), FsError> {
    for leaf in 0.. {
        let segments = volume.run(|vfs, _| vfs.store_mut().usage_leaf(leaf))?;
        if segments.is_empty() {
            return Ok(());
        }
        for (segment, entry) in segments {
            let there = live.get(&segment).copied().unwrap_or(0);
            if u64::from(entry.live_bytes) != there || (there > 0 && !entry.in_use) {
                wrong.push(format!(
                    "segment {segment} of {}: {} live bytes stated ({}), {there} found",
                    geo.segments,
                    entry.live_bytes,
                    if entry.in_use { "in use" } else { "clean" },
                ));
            }
        }
    }
    Ok(())
}
