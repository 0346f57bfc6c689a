//! The smallest volume that some options allow, for people who asked for a smaller one.

use super::impossible;
use crate::failure::{Done, Failure};
use crate::sizes::{Bytes, Count};
use firnfs::FsError;
use firnfs::ffs;
use firnfs::lfs::{self, MkfsOptions};

/// Sizes of logs are tried in steps of this many bytes.
const LOG_STEP_BYTES: u64 = 1 << 20;
/// Sizes of Fast File Systems.
const FAST_STEP_BYTES: u64 = 4 << 10;
/// A size that is large enough for all options that are valid otherwise, in bytes: 28 of the largest segments are 1.75 GiB.
const ENOUGH_BYTES: u64 = 4 << 30;
/// Only below this size it is worth trying whether a Fast File System fits: making one takes time.
const FAST_TRIED_BYTES: u64 = 64 << 20;
/// The smallest segment.
const SEGMENT_MIN_BYTES: u32 = 256 << 10;

/// The smallest size of a log with these options, in bytes; `None` if their size will do.
///
/// # Errors
/// Usage: they make no log of any size.
pub fn least_log(options: &MkfsOptions, data_logs: Option<u8>) -> Done<Option<u64>> {
    let makes =
        |size_bytes| lfs::mkfs_with_logs(&MkfsOptions { size_bytes, ..options.clone() }, data_logs).map(drop);
    let Err(error) = makes(options.size_bytes) else { return Ok(None) };
    if options.size_bytes >= ENOUGH_BYTES || makes(ENOUGH_BYTES).is_err() {
        return Err(impossible(&error));
    }
    Ok(Some(least_bytes((LOG_STEP_BYTES, ENOUGH_BYTES), |size_bytes| makes(size_bytes).is_ok())))
}

/// Refuses options that make no log; if only the size is too small, says which one is not.
///
/// # Errors
/// Usage.
pub fn check_log(options: &MkfsOptions, data_logs: Option<u8>) -> Done {
    let Some(least) = least_log(options, data_logs)? else { return Ok(()) };
    let of_small_segments = MkfsOptions { segment_bytes: SEGMENT_MIN_BYTES, ..options.clone() };
    let advice = if lfs::mkfs_with_logs(&of_small_segments, data_logs).is_ok() {
        format!("use --size {}M, or --segment-size 256K", least / LOG_STEP_BYTES)
    } else {
        format!("use --size {}M or more", least / LOG_STEP_BYTES)
    };
    let segment = Bytes(options.segment_bytes.into());
    let logs = data_logs
        .map_or(String::new(), |logs| format!(" and {} for data", Count(logs.into()).of("log", "logs")));
    let size = match options.size_bytes {
        0 => "less than a sector".to_owned(),
        size_bytes => Bytes(size_bytes).to_string(),
    };
    let message = format!("{size} is too small: segments of {segment}{logs} need at least {}", Bytes(least));
    Err(Failure::usage(message).advise(advice))
}

/// The same for a Fast File System.
///
/// # Errors
/// Usage.
pub fn check_fast(options: &ffs::MkfsOptions) -> Done {
    if options.size_bytes >= FAST_TRIED_BYTES {
        return Ok(());
    }
    let makes = |size_bytes| {
        let options = ffs::MkfsOptions { size_bytes, ..options.clone() };
        let outside = FsError::Invalid("the device is too small for these sizes");
        let mut write = |at_bytes: u64, bytes: &[u8]| {
            let is_inside = at_bytes + bytes.len() as u64 <= size_bytes;
            if is_inside { Ok(()) } else { Err(outside.clone()) }
        };
        ffs::mkfs(&options, &mut write).map(drop)
    };
    let Err(error) = makes(options.size_bytes) else { return Ok(()) };
    if makes(FAST_TRIED_BYTES).is_err() {
        return Err(impossible(&error));
    }
    let least = least_bytes((FAST_STEP_BYTES, FAST_TRIED_BYTES), |size_bytes| makes(size_bytes).is_ok());
    let (size, least_text) = (Bytes(options.size_bytes), Bytes(least));
    let message =
        format!("{size} is too small: a Fast File System with these sizes needs at least {least_text}");
    Err(Failure::usage(message).advise(format!("use --size {}K or more", least >> 10)))
}

/// The smallest size that will do, in steps, up to one that does.
fn least_bytes((step_bytes, enough_bytes): (u64, u64), mut will_do: impl FnMut(u64) -> bool) -> u64 {
    let (mut too_small, mut enough) = (0, enough_bytes / step_bytes);
    while enough - too_small > 1 {
        let middle = too_small.midpoint(enough);
        *(if will_do(middle * step_bytes) { &mut enough } else { &mut too_small }) = middle;
    }
    enough * step_bytes
}
