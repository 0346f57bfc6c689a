//! Phases 3 and 4: files and directories that the root does not reach, and link counts.

use super::finding::{Problem, Versus};
use super::namespace::Namespace;
use crate::inode::Kind;
use firnfs_format::InodeNo;

/// What is known about the path from the root to a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unknown,
    /// On the path that is being climbed.
    Climbing,
    Reached,
    Lost,
}

impl Namespace {
    /// Phase 3: trees and files that no path from the root leads to.
    pub fn phase_3(&mut self) {
        let mut ways = vec![Way::Unknown; self.dirs.len()];
        for at in 0..self.dirs.len() {
            self.climb(at, &mut ways);
        }
        for (dir, way) in self.dirs.iter_mut().zip(&ways) {
            dir.is_reached = *way == Way::Reached;
        }
        for at in 0..self.inodes.len() {
            let inode = self.inodes[at];
            let kind = Kind::from_code(inode.kind).filter(|kind| *kind != Kind::Directory);
            if let Some(kind) =
                kind.filter(|_| inode.names == 0 && inode.nlink > 0 && inode.ino >= InodeNo::FIRST_USER)
            {
                self.report(Some(inode.ino), Problem::LostFile { kind });
            }
        }
    }

    /// Climbs from a directory until it is known whether the root reaches it.
    fn climb(&mut self, start: usize, ways: &mut [Way]) {
        let mut path = Vec::new();
        let mut at = start;
        let end = loop {
            if ways[at] != Way::Unknown {
                break ways[at];
            }
            ways[at] = Way::Climbing;
            path.push(at);
            let dir = self.dirs[at];
            if dir.ino == InodeNo::ROOT {
                break Way::Reached;
            }
            match dir.named_at.and_then(|(parent, _)| self.dir_at(parent)) {
                Some(parent) => at = parent,
                None => {
                    self.lost_tree(at);
                    break Way::Lost;
                }
            }
        };
        if end == Way::Climbing {
            // A cycle: its lowest number represents it.
            let from = path.iter().position(|&on_path| on_path == at).unwrap_or(0);
            if let Some(&lowest) = path[from..].iter().min() {
                self.lost_tree(lowest);
            }
        }
        let way = if end == Way::Reached { Way::Reached } else { Way::Lost };
        path.into_iter().for_each(|on_path| ways[on_path] = way);
    }

    fn lost_tree(&mut self, at: usize) {
        let dir = self.dirs[at];
        let nlink = self.inode_at(dir.ino).map_or(0, |n| self.inodes[n].nlink);
        // A removed directory that is not freed yet is not lost; it has no entries.
        if nlink > 0 || dir.found_entries > 0 {
            let named_at = dir.named_at.map(|(dir, place)| self.place_of(dir, place));
            self.report(Some(dir.ino), Problem::LostTree { named_at });
        }
    }

    /// Phase 4: link counts.
    pub fn phase_4(&mut self) {
        for at in 0..self.inodes.len() {
            let inode = self.inodes[at];
            let found = match self.dir_at(inode.ino) {
                Some(dir) if self.dirs[dir].is_torn => continue,
                // A lost directory gets its name back, and its count with it.
                Some(dir) if self.dirs[dir].named_at.is_none() && inode.ino != InodeNo::ROOT => continue,
                Some(dir) => self.dirs[dir].subdirectories.saturating_add(2),
                None if inode.names == 0 => continue,
                None => inode.names,
            };
            if found != inode.nlink {
                self.report(Some(inode.ino), Problem::Links(Versus { stated: inode.nlink, found }));
            }
        }
    }
}
