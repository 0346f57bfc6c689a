//! The copies of the superblock: all but the first say what mkfs wrote, for ever.

use super::FfsProblem;
use super::walk::Walk;
use crate::device_reader::Extent;
use crate::error::FsError;
use crate::ffs::{FoundSuperblock, places_of_superblocks};
use firnfs_format::ffs::Superblock;
use firnfs_format::ffs::superblock::{COPY_AT_BYTES, HEAD_BYTES, SUPERBLOCK_BYTES};
use std::ops::ControlFlow;

impl Walk<'_> {
    /// Compares all copies.
    pub fn superblocks(&mut self, found: &FoundSuperblock) {
        if let Some(reason) = &found.first_damaged {
            self.damaged_copy(0, COPY_AT_BYTES, reason.clone(), &found.sb);
        }
        let right = found.sb.as_made();
        let layout = found.sb.layout;
        let places = (0..).zip(places_of_superblocks(&layout)).skip(1);
        let mut damaged: Vec<(u32, u64, String)> = Vec::new();
        self.read.read_in_order(
            places.map(|(group, at)| (Extent::new(at, SUPERBLOCK_BYTES as u32), (group, at))),
            |_, (group, at_bytes), bytes| {
                if let Some(why) = why_wrong(bytes.as_deref(), &right) {
                    damaged.push((group, at_bytes, why));
                }
                ControlFlow::<()>::Continue(())
            },
        );
        for (group, at_bytes, why) in damaged {
            self.damaged_copy(group, at_bytes, why, &right);
        }
    }

    fn damaged_copy(&mut self, group: u32, at_bytes: u64, reason: String, right: &Superblock) {
        let mut bytes = right.encode().to_vec();
        bytes.resize(HEAD_BYTES as usize - COPY_AT_BYTES as usize, 0);
        self.mend.writes.insert(at_bytes, bytes);
        self.report(None, FfsProblem::Superblock { group, reason });
    }
}

/// Why bytes are not the copy that they should be.
fn why_wrong(bytes: Result<&[u8], &FsError>, right: &Superblock) -> Option<String> {
    match bytes.map(Superblock::decode) {
        Ok(Ok(copy)) if copy == *right => None,
        Ok(Ok(_)) => Some("it differs from the first copy".to_owned()),
        Ok(Err(why)) => Some(why.to_string()),
        Err(why) => Some(why.to_string()),
    }
}
