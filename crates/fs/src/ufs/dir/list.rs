//! Lists a directory from a cookie on.
//!
//! The cookie after an entry is its offset plus one unit: even if the records around it change, a listing from
//! there finds exactly the entries that follow. A block is always read from its start, so a cookie may point into
//! merged space.
//!
//! Callers: `vfs` through [`super`].

use super::{DirView, block, in_block, inline, place_of};
use crate::dirent::{self, Record};
use crate::error::{Outcome, Stop};
use crate::inode::Kind;
use crate::states::within;
use crate::store::Store;

/// Cookies of `.` and `..` are 0 and 1; the entry at unit `u` has cookie `u + 2`.
const COOKIE_BASE: u64 = 2;

/// An entry, as [`list`] hands it out.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The entry.
    pub record: Record<'a>,
    /// Its file type.
    pub kind: Kind,
    /// Cookie to continue after it.
    pub next: u64,
}

/// The cookie at which [`list`] starts.
pub const FIRST_COOKIE: u64 = COOKIE_BASE;

/// Hands out the entries from a cookie on, in order, until `visit` returns false. If blocks are missing after the first
/// entry was handed out, the call ends there: call again to continue. A call that hands out nothing has reached the
/// end.
///
/// # Errors
/// `Need` and `Corrupt`, before anything was handed out.
pub fn list<S: Store>(
    store: &mut S,
    dir: &DirView,
    cookie: u64,
    visit: &mut dyn FnMut(Listed<'_>) -> bool,
) -> Outcome<()> {
    let from_bytes = cookie.saturating_sub(COOKIE_BASE).saturating_mul(dirent::UNIT_BYTES as u64);
    if dir.is_inline {
        let content = inline(store, dir.ino)?.to_vec();
        return list_block(dir, 0, &content, from_bytes, visit).map(|_| ()).map_err(|(stop, _)| stop);
    }
    let mut visited = false;
    let mut at = dir.split(from_bytes).0;
    while at < dir.blocks() {
        let step = block(store, dir, at).map_err(|stop| (stop, false)).and_then(|bytes| {
            let (go_on, any) = list_block(dir, at, &bytes, from_bytes, visit)?;
            Ok((go_on, any, dirent::is_zero(&bytes)))
        });
        match step {
            Ok((false, ..)) => return Ok(()),
            Ok((true, any, is_hole)) => {
                visited |= any;
                at = if is_hole { behind_hole(store, dir, at, visited)? } else { at + 1 };
            }
            Err((_, any)) if visited || any => return Ok(()),
            Err((stop, _)) => return Err(stop),
        }
    }
    Ok(())
}

/// The next block that may hold entries. Once an entry was handed out, a stop only ends the skipping.
fn behind_hole<S: Store>(store: &mut S, dir: &DirView, at: u64, visited: bool) -> Outcome<u64> {
    let block_bytes = u64::from(dir.block_bytes);
    let at_bytes = at * block_bytes;
    match store.extent(dir.ino, at_bytes, dir.size_bytes - at_bytes) {
        Ok(extent) if !extent.is_data => Ok((at + extent.len_bytes / block_bytes).max(at + 1)),
        Ok(_) => Ok(at + 1),
        Err(_) if visited => Ok(at + 1),
        Err(stop) => Err(stop),
    }
}

/// Hands out the entries of one block; returns whether to continue, and whether there were any. An error comes with
/// whether any entries were handed out before.
fn list_block(
    dir: &DirView,
    at: u64,
    bytes: &[u8],
    from_bytes: u64,
    visit: &mut dyn FnMut(Listed<'_>) -> bool,
) -> Result<(bool, bool), (Stop, bool)> {
    let mut any = false;
    for record in dirent::records(bytes) {
        let checked = record.and_then(|record| {
            let kind = if record.is_free() { Kind::Regular } else { record.kind()? };
            record.check_name()?;
            Ok((record, kind))
        });
        let (record, kind) = in_block(checked, dir.ino, at).map_err(|stop| (stop, any))?;
        let at_bytes = at * u64::from(dir.block_bytes) + record.at as u64;
        if record.is_free() || at_bytes < from_bytes {
            continue;
        }
        any = true;
        let next = u64::from(place_of(at_bytes)) + 1 + COOKIE_BASE;
        // Number 0 stays what says that a record is free.
        let record = Record { ino: within(dir.ino, record.ino), ..record };
        if !visit(Listed { record, kind, next }) {
            return Ok((false, any));
        }
    }
    Ok((true, any))
}
