//! Which file each descriptor of each process means, and where its next read or write begins.
//!
//! Duplicates and inherited descriptors share the place in the file, as in the kernel. Threads share the table of their process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Descriptors that are followed; a trace with more open at a time loses track of all of them, which costs offsets (and, without
/// `-y`, files) until they are opened again.
const DESCRIPTORS_MAX: usize = 16_384;

/// An open file.
#[derive(Debug)]
pub struct Open {
    /// Its path, absolute if that is known.
    pub path: Vec<u8>,
    /// Where the next read or write begins; `None` if not known.
    pub place: Option<u64>,
    /// Writes go to the end of the file.
    pub appends: bool,
}

/// A descriptor's open file.
pub type Shared = Rc<RefCell<Open>>;

/// See the module's head.
#[derive(Default)]
pub struct Descriptors {
    open: HashMap<(u32, i32), Shared>,
    /// Descriptors of each table, so that a fork need not search.
    of_table: HashMap<u32, Vec<i32>>,
    /// The process whose table a thread uses.
    table_of: HashMap<u32, u32>,
    directories: HashMap<u32, Vec<u8>>,
}

impl Descriptors {
    fn table(&self, pid: u32) -> u32 {
        self.table_of.get(&pid).copied().unwrap_or(pid)
    }

    pub fn get(&self, pid: u32, fd: i32) -> Option<Shared> {
        self.open.get(&(self.table(pid), fd)).cloned()
    }

    pub fn set(&mut self, pid: u32, fd: i32, open: Shared) {
        if self.open.len() >= DESCRIPTORS_MAX {
            self.open.clear();
            self.of_table.clear();
        }
        let table = self.table(pid);
        if self.open.insert((table, fd), open).is_none() {
            self.of_table.entry(table).or_default().push(fd);
        }
    }

    pub fn close(&mut self, pid: u32, fd: i32) {
        let table = self.table(pid);
        if self.open.remove(&(table, fd)).is_some()
            && let Some(all) = self.of_table.get_mut(&table)
        {
            all.retain(|other| *other != fd);
            if all.is_empty() {
                self.of_table.remove(&table);
            }
        }
    }

    /// The working directory, if known.
    pub fn directory(&self, pid: u32) -> Option<&[u8]> {
        self.directories.get(&self.table(pid)).map(Vec::as_slice)
    }

    pub fn set_directory(&mut self, pid: u32, path: Vec<u8>) {
        let table = self.table(pid);
        if self.directories.len() < DESCRIPTORS_MAX || self.directories.contains_key(&table) {
            self.directories.insert(table, path);
        }
    }

    /// A process makes another one, or a thread that shares its descriptors.
    pub fn fork(&mut self, parent: u32, child: u32, shares: bool) {
        if parent == child || self.table_of.len() >= DESCRIPTORS_MAX {
            return;
        }
        let from = self.table(parent);
        if shares {
            self.table_of.insert(child, from);
            return;
        }
        // Lines of the child may come before this one; what it has opened since stays.
        for fd in self.of_table.get(&from).cloned().unwrap_or_default() {
            if let Some(open) = self.open.get(&(from, fd)).cloned()
                && !self.open.contains_key(&(child, fd))
            {
                self.set(child, fd, open);
            }
        }
        if let Some(path) = self.directories.get(&from).cloned() {
            self.set_directory(child, path);
        }
    }

    /// A process or thread ended.
    pub fn exited(&mut self, pid: u32) {
        if self.table_of.remove(&pid).is_some() {
            return;
        }
        for fd in self.of_table.remove(&pid).unwrap_or_default() {
            self.open.remove(&(pid, fd));
        }
        self.directories.remove(&pid);
    }
}
