//! The daemon's side of snapshots: the operation `locate` of the control socket says where files lie.

use crate::socket::{self, answer, arguments};
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_lab::age::take::{Facts, Located, Mapped};
use firnfs_volume::Volume;
use serde::{Deserialize, Serialize};
use std::sync::Weak;

/// Most files in one request.
const FILES_MAX: usize = 4096;

#[derive(Deserialize)]
struct Request {
    inodes: Vec<u64>,
}

/// The answer to `locate`.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    /// The volume.
    pub facts: Facts,
    /// Those of the files that exist.
    pub located: Vec<Located>,
}

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register<S: Mapped + 'static>(registry: &mut Registry, volume: Weak<Volume<S>>) {
    registry.register("locate", "says where the blocks of 'inodes' lie, at most 4096", move |request| {
        let Request { inodes } = arguments(request)?;
        if inodes.len() > FILES_MAX {
            return Err(OpError::new(ErrorKind::InvalidArgument, "more than 4096 inodes"));
        }
        let volume = socket::open(&volume)?;
        let facts = S::volume_facts(&volume).map_err(|e| OpError::from(&e))?;
        let located = Located::all(&volume, &inodes).map_err(|e| OpError::from(&e))?;
        answer(&Answer { facts, located })
    });
}
