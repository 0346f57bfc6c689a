//! Dropped fragments and inodes, and when they are free for others.
//!
//! When a pointer disappears from an inode or an indirect block, its target becomes free: a run of fragments, a whole tree of
//! indirect blocks, the inode itself. As long as the *holder* on disk still has the pointer, no other file may get the target
//! (rule R3). So it is held with the holder ([`Ffs::hold`]), goes with the holder's next write, and arrives here when that is
//! durable. A target that nothing on disk ever referred to arrives at once.
//!
//! A run needs the group's bitmaps, a tree its indirect blocks: the background requests missing ones ([`Ffs::release_some`]).
//!
//! Invariant: `outstanding` counts targets that were dropped and are not free yet.

use super::Ffs;
use super::alloc::{Miss, Run};
use super::base::{BlockPlace, addr_of, is_written};
use super::map::pointer_at;
use super::wanted::Wanted;
use crate::error::{Outcome, Stop};
use crate::store::Buf;
use firnfs_format::InodeNo;
use std::collections::{BTreeMap, VecDeque};

/// Steps of one round of background work.
const STEPS_AT_ONCE: usize = 4096;

/// A place that no file has any more.
#[derive(Clone, Debug)]
pub enum Freed {
    /// Fragments.
    Run(Run),
    /// An indirect block, with all blocks below it.
    Tree(Tree),
    /// An inode.
    Inode {
        /// Its number.
        ino: InodeNo,
        /// It was a directory.
        is_dir: bool,
    },
}

/// See [`Freed::Tree`].
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where its top is.
    pub addr: u32,
    /// Level of its top, at least 1.
    pub level: u8,
    /// The file whose fragments are still counted with its blocks.
    pub ino: InodeNo,
    /// That file's generation.
    pub generation: u64,
    /// Its top's content, if memory had it.
    pub content: Option<Buf>,
}

/// See the module's head.
#[derive(Default)]
pub struct Releases {
    queue: VecDeque<Freed>,
    outstanding: u64,
    /// Indirect blocks of detached trees, as they were read.
    fetched: BTreeMap<u32, Buf>,
}

impl Releases {
    /// True if something that was dropped is not free yet.
    pub fn are_outstanding(&self) -> bool {
        self.outstanding > 0
    }

    /// True if something may be freed now.
    pub fn are_due(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes in an indirect block of a detached tree.
    pub fn supply(&mut self, addr: u32, content: Buf) {
        let is_awaited = |freed: &Freed| matches!(freed, Freed::Tree(tree) if tree.addr == addr);
        if self.queue.front().is_some_and(is_awaited) {
            self.fetched.insert(addr, content);
        }
    }

    /// Takes over targets to be freed.
    pub fn push(&mut self, freed: impl IntoIterator<Item = Freed>) {
        self.queue.extend(freed);
    }
}

impl Ffs {
    /// Holds something with the inode or one of its indirect blocks until that is written.
    pub(super) fn hold(&mut self, ino: InodeNo, holder: Option<BlockPlace>, freed: Freed) {
        self.releases.outstanding += 1;
        self.files.core_mut(ino).held.entry(holder).or_default().push(freed);
    }

    /// Frees something that nothing on disk refers to.
    pub(super) fn free_now(&mut self, freed: Freed) {
        self.releases.outstanding += 1;
        self.releases.queue.push_back(freed);
    }

    /// Frees what can be freed without reading.
    pub(super) fn release_ready(&mut self) {
        let _needs = self.release_some();
    }

    /// Frees what may be freed; true if that was anything.
    ///
    /// # Errors
    /// `Need`.
    pub(super) fn release_some(&mut self) -> Outcome<bool> {
        let mut any = false;
        for _ in 0..STEPS_AT_ONCE {
            let Some(freed) = self.releases.queue.front().cloned() else { break };
            match freed {
                Freed::Run(run) => match self.groups.give(run) {
                    Ok(true) => {}
                    Ok(false) => self.damaged(format!("fragment {} was free already", run.addr)),
                    Err(miss) => return Err(self.missed(miss)),
                },
                Freed::Inode { ino, is_dir } => match self.groups.give_inode(ino.0 as u32, is_dir) {
                    Ok(true) => self.files.remove(ino),
                    Ok(false) => self.damaged(format!("inode {ino} was free already")),
                    Err(miss) => return Err(self.missed(miss)),
                },
                Freed::Tree(tree) => {
                    self.take_apart(tree)?;
                    any = true;
                    continue;
                }
            }
            any = true;
            self.releases.queue.pop_front();
            self.releases.outstanding -= 1;
        }
        Ok(any)
    }

    fn missed(&self, miss: Miss) -> Stop {
        match miss {
            Miss::Load(_) => self.overcome_miss(miss),
            Miss::Full => unreachable!("giving back needs no room"),
        }
    }

    /// Replaces a tree, the first in the queue, by its parts.
    fn take_apart(&mut self, tree: Tree) -> Outcome<()> {
        let content = match tree.content.clone() {
            Some(content) => content,
            None => match self.releases.fetched.remove(&tree.addr) {
                Some(content) => content,
                None => {
                    return Err(self.ask(
                        Wanted::Detached(tree.addr),
                        tree.addr,
                        self.geo.layout.block_bytes,
                    ));
                }
            },
        };
        self.releases.queue.pop_front();
        self.releases.outstanding -= 1;
        let block_frags = self.geo.block_frags();
        let (mut runs, mut trees) = (1, 0);
        for ptr in (0..self.geo.pointers()).map(|slot| pointer_at(&content, slot)).filter(|ptr| *ptr != 0) {
            let addr = addr_of(ptr);
            if self.geo.check(addr, block_frags, String::new).is_err() {
                self.damaged(format!("an indirect block at fragment {} leads to fragment {addr}", tree.addr));
                continue;
            }
            if tree.level > 1 && is_written(ptr) {
                let below = Tree { addr, level: tree.level - 1, content: None, ..tree };
                self.releases.queue.push_front(Freed::Tree(below));
                trees += 1;
            } else {
                self.releases.queue.push_front(Freed::Run(Run { addr, frags: block_frags }));
                runs += 1;
            }
        }
        self.releases.queue.push_front(Freed::Run(Run { addr: tree.addr, frags: block_frags }));
        self.releases.outstanding += u64::from(runs + trees);
        if let Some(core) = self.files.get(tree.ino)
            && core.inode.generation == tree.generation
        {
            core.trees = core.trees + trees - 1;
            let is_freed = core.is_freed;
            self.count_frags(tree.ino, -i64::from(runs * block_frags));
            if !is_freed {
                self.files.mark(tree.ino);
            }
        }
        Ok(())
    }
}
