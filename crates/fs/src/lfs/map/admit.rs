//! Admission: metadata from the device is checked once, before memory holds it.
//!
//! A correct checksum shows that the bytes are as they were written, not that they are valid: the image may be malicious. So
//! every record, indirect block and table block is checked before memory holds it.
//!
//! Invariants: every pointer in an admitted block or record is a hole, reserved room (data only), or lies within one segment
//! of the volume with a length that a block can have; none is pending; sums in table nodes are within what their subtree can
//! hold. Code that finds a pointer in memory uses it without another check.
//!
//! Callers: [`super::wanted`] (each fetch), `CoreInode::decode`, recovery, the check.

use crate::error::FsError;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::map::blockmap::ptr_in;
use crate::lfs::map::shelf::describe;
use crate::store::{BlockKey, Fork};
use firnfs_format::inode::{Record, decode_record};
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::table::{ImapEntry, Node, TABLE_ENTRY_BYTES, TableEntry, UsageEntry};
use firnfs_format::{BlockPtr, InodeNo, PtrKind, SECTOR_BYTES};

/// One past the largest inode number that a lookup in the inode map accepts.
pub(crate) const INODE_NUMBERS: u64 = 1 << 48;

/// Longest record that the length in a pointer can express, in bytes.
pub(crate) const RECORD_MAX_BYTES: u32 = 255 * SECTOR_BYTES;

/// Checks a block whose stored bytes have the right checksum.
///
/// # Errors
/// `Corrupt`, naming the block, its place and its first impossible value.
pub(crate) fn block(geo: &Geometry, key: &BlockKey, ptr: &BlockPtr, bytes: &[u8]) -> Result<(), FsError> {
    let found = match key.ino {
        InodeNo::INODE_MAP | InodeNo::SEGMENT_USAGE if key.level > 0 => first_bad_node(geo, key.level, bytes),
        InodeNo::INODE_MAP => first_bad_entry(bytes, |e: &ImapEntry| {
            let sound =
                if e.ptr.is_hole() { !e.orphan } else { is_stored_well(geo, &e.ptr, RECORD_MAX_BYTES) };
            sound && e.ptr.kind != PtrKind::Reserved
        }),
        InodeNo::SEGMENT_USAGE => first_bad_entry(bytes, |e: &UsageEntry| {
            e.live_bytes <= if e.in_use { geo.segment_bytes } else { 0 }
        }),
        _ if key.level > 0 => first_bad_pointer(geo, key, bytes),
        _ => None,
    };
    found.map_or(Ok(()), |(slot, found)| {
        Err(FsError::Corrupt {
            what: describe(key),
            at: geo.place(ptr.addr),
            expected: format!("entry {slot} to be possible on a volume of {} segments", geo.segments),
            found,
        })
    })
}

/// Decodes the stored bytes of a record and checks every value that later code relies on.
///
/// # Errors
/// `Corrupt`, naming the inode and its place.
pub(in crate::lfs) fn record<'a>(
    geo: &Geometry,
    ino: InodeNo,
    at: &BlockPtr,
    bytes: &'a [u8],
) -> Result<Record<'a>, FsError> {
    let corrupt = |expected: String, found: String| FsError::Corrupt {
        what: format!("inode {ino}"),
        at: geo.place(at.addr),
        expected,
        found,
    };
    let record = decode_record(bytes).map_err(|e| corrupt(e.expected.clone(), e.to_string()))?;
    if record.raw.ino.get() != ino.0 {
        return Err(corrupt(format!("inode number {ino}"), record.raw.ino.to_string()));
    }
    let volume_bytes = geo.segments * u64::from(geo.segment_bytes);
    let charged_bytes = record.raw.charged_bytes.get();
    if charged_bytes > volume_bytes {
        return Err(corrupt(format!("at most {volume_bytes} bytes charged"), charged_bytes.to_string()));
    }
    for (fork, roots) in record.roots.iter().enumerate() {
        let is_data = fork == Fork::Data as usize;
        let direct = roots.direct.iter().map(|ptr| (ptr, is_data));
        let mut all = direct.chain(roots.indirect.iter().map(|ptr| (ptr, false)));
        if let Some((ptr, _)) = all.find(|&(ptr, is_data)| !is_possible(geo, ptr, is_data)) {
            return Err(corrupt(format!("pointers of fork {fork} within the volume"), told(geo, ptr)));
        }
    }
    Ok(record)
}

/// Whether a pointer to a block of a file is possible. Only data blocks can be reserved.
fn is_possible(geo: &Geometry, ptr: &BlockPtr, is_data: bool) -> bool {
    match ptr.kind {
        PtrKind::Hole => true,
        PtrKind::Reserved => is_data,
        // A kind of a later version: reading such a block fails, but the file can be opened.
        PtrKind::Unknown(_) => is_data && is_stored_well(geo, ptr, geo.block_bytes),
        PtrKind::Plain => is_stored_well(geo, ptr, geo.block_bytes),
    }
}

fn is_stored_well(geo: &Geometry, ptr: &BlockPtr, max_bytes: u32) -> bool {
    geo.is_inside(ptr) && ptr.stored_bytes() <= max_bytes
}

fn told(geo: &Geometry, ptr: &BlockPtr) -> String {
    format!("{:?}, {} sectors at {}", ptr.kind, ptr.len_sectors, geo.place(ptr.addr))
}

fn first_bad_pointer(geo: &Geometry, key: &BlockKey, bytes: &[u8]) -> Option<(usize, String)> {
    let is_data = key.level == 1 && key.fork == Fork::Data;
    (0..bytes.len() / POINTER_BYTES)
        .map(|slot| (slot, ptr_in(bytes, slot)))
        .find(|(_, ptr)| !is_possible(geo, ptr, is_data))
        .map(|(slot, ptr)| (slot, told(geo, &ptr)))
}

fn first_bad_node(geo: &Geometry, level: u8, bytes: &[u8]) -> Option<(usize, String)> {
    let fan = u64::from(geo.block_bytes) / TABLE_ENTRY_BYTES as u64;
    let capacity = fan.saturating_pow(u32::from(level));
    bytes.as_chunks().0.iter().map(Node::decode).enumerate().find_map(|(slot, node)| {
        let sums_ok = node.used <= capacity && node.special <= node.used;
        let sound = match node.ptr.kind {
            PtrKind::Hole => node.used == 0,
            PtrKind::Plain => is_stored_well(geo, &node.ptr, geo.block_bytes),
            PtrKind::Reserved | PtrKind::Unknown(_) => false,
        };
        let found = || format!("{}; {} in use, {} orphans", told(geo, &node.ptr), node.used, node.special);
        (!sound || !sums_ok).then(|| (slot, found()))
    })
}

fn first_bad_entry<E: TableEntry + std::fmt::Debug>(
    bytes: &[u8],
    sound: impl Fn(&E) -> bool,
) -> Option<(usize, String)> {
    let entries = bytes.as_chunks().0.iter().map(E::decode).enumerate();
    entries.into_iter().find(|(_, entry)| !sound(entry)).map(|(slot, entry)| (slot, format!("{entry:?}")))
}
