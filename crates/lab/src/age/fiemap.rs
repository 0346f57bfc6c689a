//! Asks the kernel where a file's blocks lie (FIEMAP), and for the generation of its inode. This file holds the only `unsafe` code of
//! the crate: rustix has no function for either request.
//!
//! The kernel writes into the structure that it is given for the length of the call only. Its answer is data of another program: lengths
//! and counts in it are compared with the structure before they are used.

#![allow(unsafe_code, reason = "two requests of ioctl(2); see the head of this file")]

use super::snapshot::{Extent, push_extent};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

/// Extents asked for at a time.
const EXTENTS: usize = 256;
/// Write dirty content first, so that it has a place.
const FLAG_SYNC: u32 = 1;
const LAST: u32 = 1;
/// It has no place: unknown, not allocated yet, or within the inode or another file's block.
const PLACELESS: u32 = 0x2 | 0x4 | 0x200 | 0x400;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

const HEAD_BYTES: usize = 32;
const FIEMAP: rustix::ioctl::Opcode = opcode::read_write::<[u8; HEAD_BYTES]>(b'f', 11);
const GET_VERSION: rustix::ioctl::Opcode = opcode::read::<u64>(b'v', 1);

/// The extents of a file in its order; those without a place of their own are left out.
///
/// # Errors
/// The file system does not say, or fails.
pub(super) fn extents(file: impl AsFd) -> Result<Vec<Extent>, Errno> {
    let mut found = Vec::new();
    let empty =
        RawExtent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };
    let mut start = 0;
    loop {
        let mut request = Box::new(Request {
            start,
            length: u64::MAX - start,
            flags: FLAG_SYNC,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [empty; EXTENTS],
        });
        // SAFETY: FIEMAP takes a `struct fiemap` followed by room for `extent_count` extents, which `Request` is; the reference
        // outlives the call, and any bytes are valid in it.
        unsafe { ioctl(&file, Updater::<FIEMAP, Request>::new(&mut request))? };
        let mapped = (request.mapped_extents as usize).min(EXTENTS);
        for raw in &request.extents[..mapped] {
            if raw.flags & PLACELESS == 0 && raw.length > 0 {
                let (file_at_bytes, disk_at_bytes) = (raw.logical, raw.physical);
                push_extent(&mut found, Extent { file_at_bytes, disk_at_bytes, len_bytes: raw.length });
            }
        }
        let Some(last) = request.extents[..mapped].last() else { return Ok(found) };
        let next = last.logical.saturating_add(last.length);
        // A file system whose answer does not advance would be asked for ever.
        if last.flags & LAST != 0 || next <= start {
            return Ok(found);
        }
        start = next;
    }
}

/// The generation of a file's inode.
///
/// # Errors
/// The file system does not say.
pub(super) fn generation(file: impl AsFd) -> Result<u64, Errno> {
    let mut version = 0u64;
    // SAFETY: the kernel writes an `int` or a `long` to the address; both fit, and any bits are a valid number.
    unsafe { ioctl(file, Updater::<GET_VERSION, u64>::new(&mut version))? };
    Ok(version)
}
