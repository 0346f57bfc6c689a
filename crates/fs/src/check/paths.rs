//! Names for findings: the path from the root to an inode, looked up once for the inodes with findings.

use super::state::Check;
use crate::dirent;
use crate::error::{FsError, Outcome};
use crate::inode::Body;
use crate::lfs::Lfs;
use crate::states::{local, within};
use crate::store::{Fork, Store};
use firnfs_format::{BlockIndex, InodeNo};
use rustc_hash::FxHashMap;

/// Findings that get a path; each may cost a few reads.
const PATHS_MAX: usize = 2000;
/// Directories that a path may pass through.
const DEPTH_MAX: usize = 256;

impl Check<'_> {
    /// Gives the findings their paths.
    pub fn name_findings(&mut self) {
        let mut names: FxHashMap<InodeNo, Option<(InodeNo, u32)>> = FxHashMap::default();
        let root = self.names.root;
        let is_here = |ino: &InodeNo| within(root, *ino) == *ino;
        let found = self.names.findings.iter().filter_map(|finding| finding.ino);
        for ino in found.filter(is_here).take(PATHS_MAX) {
            names.insert(local(ino), None);
        }
        if names.is_empty() {
            return;
        }
        for entry in &self.names.entries {
            if let Some(name) = names.get_mut(&entry.target) {
                name.get_or_insert((entry.dir, entry.place));
            }
        }
        let mut findings = std::mem::take(&mut self.names.findings);
        for finding in findings.iter_mut().take(PATHS_MAX) {
            let Some(ino) = finding.ino.filter(is_here).map(local) else {
                continue;
            };
            finding.path = self.path(ino, names.get(&ino).copied().flatten());
        }
        self.names.findings = findings;
    }

    /// The path of an inode that has a name at that place; `None` if no path leads there from the root.
    fn path(&mut self, ino: InodeNo, name: Option<(InodeNo, u32)>) -> Option<Vec<u8>> {
        if ino == InodeNo::ROOT {
            return Some([self.top.as_slice(), b"/"].concat());
        }
        let mut parts = Vec::new();
        let mut at = name?;
        for _ in 0..DEPTH_MAX {
            let place = self.names.place_of(at.0, at.1);
            let read = self.lfs.drive(self.sweep.read, |lfs| name_at(lfs, place.dir, place.at_bytes));
            parts.push(read.ok()?);
            if at.0 == InodeNo::ROOT {
                let path = parts.iter().rev().flat_map(|part| [b"/", part.as_slice()].concat());
                return Some(self.top.iter().copied().chain(path).collect());
            }
            at = self.names.dirs[self.dir_at(at.0)?].named_at?;
        }
        None
    }
}

/// The name of the entry at an offset of a directory's content.
pub fn name_at(lfs: &mut Lfs, dir: InodeNo, at_bytes: u64) -> Outcome<Vec<u8>> {
    let block_bytes = u64::from(lfs.facts().block_bytes);
    if let Body::Inline(content) = &lfs.inode(dir)?.body {
        return Ok(dirent::record(content, at_bytes as usize)?.name.to_vec());
    }
    let block = lfs.block(dir, Fork::Data, BlockIndex(at_bytes / block_bytes))?;
    let record = dirent::record(&block, (at_bytes % block_bytes) as usize)?;
    if record.is_free() { Err(FsError::NotFound.into()) } else { Ok(record.name.to_vec()) }
}
