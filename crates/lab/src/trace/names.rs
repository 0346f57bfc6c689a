//! `Names`: which file each name of each directory stands for, as far as a trace has told. Callers: `survey` and `replay`.

use firnfs_workload::FileId;
use rustc_hash::FxHashMap;

/// See the module's head.
#[derive(Default)]
pub(super) struct Names {
    directories: FxHashMap<FileId, FxHashMap<Box<[u8]>, FileId>>,
}

impl Names {
    /// The file of a name.
    pub fn find(&self, dir: FileId, name: &[u8]) -> Option<FileId> {
        self.directories.get(&dir)?.get(name).copied()
    }

    /// From now on the name stands for this file.
    pub fn insert(&mut self, dir: FileId, name: &[u8], file: FileId) {
        let names = self.directories.entry(dir).or_default();
        match names.get_mut(name) {
            Some(known) => *known = file,
            None => drop(names.insert(name.into(), file)),
        }
    }

    /// Removes a name; returns its file.
    pub fn remove(&mut self, dir: FileId, name: &[u8]) -> Option<FileId> {
        self.directories.get_mut(&dir)?.remove(name)
    }
}

/// The number of a file that only has a name: its record gave none. The same name gets the same number.
pub(crate) fn nameless(dir: FileId, name: &[u8]) -> FileId {
    FileId::of_bytes(&[b"name".as_slice(), &dir.0.to_le_bytes(), name].concat())
}
