//! `Record`: the world after each operation of a run, and the judgement of the tree that a mount finds after a crash.
//!
//! Let `worlds[n]` be the world after the first n operations. At a cut, `begun` operations had begun and `ended` ones had
//! ended. A tree is allowed if there is a k with
//!
//! 1. names(k) = names of the tree, `names_floor <= k <= begun`, where `names_floor` is the end of the last operation
//!    among the `ended` ones that makes names durable (any sync; an fsync flushes every earlier name operation);
//! 2. for each name, its file f in `worlds[k]` and some floor(f, k): owner, mode and attributes are those of one version of f
//!    in `worlds[floor..=begun]` (where names are only ordered, owner and mode are of one version, attributes of another); the size is
//!    that of a version; and each block, cut at that size, is that of a version;
//! 3. limits, and whether quotas are on, are those of `worlds[k]`: they change with the names. Where names are only ordered, they are those of
//!    a world since the last sync of the root directory or of everything.
//!
//! floor(f, k) is the end of the last sync of f (or of everything), or of the last rename of f among the first k operations
//! if that is later: a rename never appears before data that was accepted earlier, and neither does the first name of a
//! file that was made without one.
//!
//! `automatic` has the points that the volume makes by itself, `alike` contents that were compared in earlier states.

mod alike;
mod automatic;

pub use automatic::Loss;

use super::BLOCK_BYTES;
use super::op::Op;
use super::streams::Streams;
use super::subject::Promise;
use super::tree::{Entry, NodeKind, Tree};
use super::world::{FileId, Node, ROOT, World};
use alike::Alike;
use automatic::Watched;
use siphasher::sip::SipHasher13;
use siphasher::sip128::Hasher128 as _;
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// The progress of a run when the power was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Operations that had certainly ended.
    pub ended: usize,
    /// Operations that may have had an effect.
    pub begun: usize,
}

/// A sector in bytes.
const SECTOR_BYTES: usize = 512;

/// See the module's head.
#[derive(Clone)]
pub struct Record {
    promise: Promise,
    ops: Vec<Op>,
    worlds: Vec<World>,
    /// [`World::names`] of each world; shared by those that follow each other with the same names.
    names: Vec<Arc<Vec<(String, FileId)>>>,
    signatures: Vec<u64>,
    /// For each n, a hash of the first n operations and their outcomes.
    prefixes: Vec<u64>,
    /// For each n, the operation (counted from 1) that last made names durable among the first n; 0 is the beginning.
    names_floor: Vec<usize>,
    /// Operations that made one file durable, in order: (counted from 1, file).
    file_syncs: Vec<(usize, FileId)>,
    /// Operations that made everything durable, counted from 1.
    full_syncs: Vec<usize>,
    /// Operations that renamed a file, or gave it its first name: (counted from 1, file).
    renames: Vec<(usize, FileId)>,
    points: Vec<PointLife>,
    automatic: Watched,
    alike: Alike,
    /// What was sent of the points.
    pub(super) streams: Streams,
    /// Clean unmounts, counted from 1.
    unmounts: Vec<usize>,
    /// Operations that waited until a checkpoint was durable, counted from 1.
    checkpointed: Vec<usize>,
}

/// A retained point, with the operations that made it and began to drop it, counted from 1; 0 is the beginning.
#[derive(Clone)]
struct PointLife {
    name: String,
    tree: Arc<Tree>,
    made: usize,
    dropped: Option<usize>,
}

impl Record {
    /// A record before the first operation; the given world is durable.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self::of(world, Promise::Whole)
    }

    /// The same, of a file system with that promise.
    #[must_use]
    pub fn of(world: World, promise: Promise) -> Self {
        let life = |(name, tree): (&String, &Arc<Tree>)| PointLife {
            name: name.clone(),
            tree: tree.clone(),
            made: 0,
            dropped: None,
        };
        Self {
            points: world.points().iter().map(life).collect(),
            automatic: Watched::default(),
            alike: Alike::default(),
            streams: Streams::default(),
            unmounts: Vec::new(),
            checkpointed: Vec::new(),
            promise,
            ops: Vec::new(),
            signatures: vec![world.signature()],
            names: vec![Arc::new(world.names())],
            prefixes: vec![0],
            worlds: vec![world],
            names_floor: vec![0],
            file_syncs: Vec::new(),
            full_syncs: Vec::new(),
            renames: Vec::new(),
        }
    }

    /// The world now.
    #[must_use]
    pub fn world(&self) -> &World {
        self.worlds.last().expect("never empty")
    }

    /// Whether quotas were ever on.
    #[must_use]
    pub fn has_quotas(&self) -> bool {
        self.worlds.iter().any(|world| world.quotas().are_on == Some(true))
    }

    /// Whether there were ever retained points.
    #[must_use]
    pub fn has_points(&self) -> bool {
        !self.points.is_empty() || self.has_retention()
    }

    /// Operations so far.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Adds an operation that ended with this world. A refused operation is added too, with the world unchanged, and
    /// promises nothing.
    pub fn push(&mut self, op: Op, succeeded: bool, world: World) {
        let number = self.ops.len() + 1;
        let before = self.world().clone();
        let mut names_floor = *self.names_floor.last().expect("never empty");
        if succeeded {
            match &op {
                Op::Fsync(path) => self.file_syncs.extend(before.find(path).map(|id| (number, id))),
                Op::FsyncUnnamed => self.file_syncs.extend(before.unnamed().iter().map(|id| (number, *id))),
                Op::LinkUnnamed { .. } => {
                    self.renames.extend(before.unnamed().first().map(|id| (number, *id)))
                }
                Op::Sync
                | Op::Retain(_)
                | Op::MakePoint(_)
                | Op::HeldBack { .. }
                | Op::MakeClone { .. }
                | Op::DropClone(_)
                | Op::Remount => self.full_syncs.push(number),
                // A rename between two names of one file does nothing, and so promises nothing.
                Op::Rename { from, to } | Op::Exchange { from, to }
                    if before.find(from) == before.find(to) => {}
                Op::Rename { from, .. } => self.renames.extend(before.find(from).map(|id| (number, id))),
                Op::Exchange { from, to } => {
                    let files = [from, to].into_iter().filter_map(|path| before.find(path));
                    self.renames.extend(files.map(|id| (number, id)));
                }
                _ => {}
            }
            self.note_points(&op, number, &world);
            // Names that are written synchronously are durable at once.
            if op.is_sync() || self.promise == Promise::Ordered {
                names_floor = number;
            }
        }
        self.names_floor.push(names_floor);
        let mut hasher = SipHasher13::new();
        (self.prefixes.last(), format!("{op:?}"), succeeded).hash(&mut hasher);
        self.prefixes.push(hasher.finish());
        let names = world.names();
        self.signatures.push(world.signature_of(&names));
        let same = self.names.last().filter(|last| ***last == names).cloned();
        self.names.push(same.unwrap_or_else(|| Arc::new(names)));
        self.worlds.push(world);
        self.ops.push(op);
    }

    fn note_points(&mut self, op: &Op, number: usize, world: &World) {
        match op {
            Op::MakePoint(name) | Op::HeldBack { name, .. } => self.points.push(PointLife {
                name: name.clone(),
                tree: world.points()[name].clone(),
                made: number,
                dropped: None,
            }),
            Op::DropPoint(name) => {
                let life = self.points.iter_mut().find(|life| life.name == *name);
                life.expect("the world had it").dropped = Some(number);
            }
            Op::Remount => self.unmounts.push(number),
            _ => {}
        }
        if op.is_sync() && !matches!(op, Op::Fsync(_) | Op::FsyncUnnamed | Op::Sync) {
            self.checkpointed.push(number);
        }
    }

    /// The part that must be durable after that many operations, of names and of automatic points: equal states of the disk need to be
    /// judged once for each value.
    #[must_use]
    pub fn floors(&self, ended: usize) -> (usize, usize) {
        (self.floor(ended), self.automatic_floor(ended))
    }

    fn floor(&self, ended: usize) -> usize {
        self.names_floor[ended]
    }

    /// The promise that a state is held to, as a number: equal in every record with the same operations before it and the
    /// same `base`.
    #[must_use]
    pub fn promise(&self, base: u128, window: Window) -> u128 {
        let mut hasher = siphasher::sip128::SipHasher13::new();
        (base, self.prefixes[window.begun], self.floors(window.ended)).hash(&mut hasher);
        hasher.finish128().as_u128()
    }

    /// Judges the tree that a mount found.
    ///
    /// # Errors
    /// What is not allowed, as text.
    pub fn judge(&self, tree: &Tree, window: Window, loss: Loss) -> Result<(), String> {
        let window = self.with_held_back(tree, window);
        self.judge_points(tree, window)?;
        self.requires_points(tree, window)?;
        self.judge_automatic(tree, window, loss)?;
        self.judge_present(tree, window, loss)
    }

    /// Judges a tree that a mount found with a rotten bit: what it shows was written there, but it may be older than promised, and points
    /// may be missing.
    ///
    /// # Errors
    /// What was never written there, as text.
    pub fn judge_rotten(&self, tree: &Tree, begun: usize) -> Result<(), String> {
        let window = Window { ended: 0, ..self.with_held_back(tree, Window { ended: 0, begun }) };
        self.judge_points(tree, window)?;
        self.judge_automatic(tree, window, Loss::Slot)?;
        self.judge_present(tree, window, Loss::Slot)
    }

    /// Changes that were held back, if they were under way: all of them are there if their point is, else none.
    fn with_held_back(&self, tree: &Tree, window: Window) -> Window {
        let last = window.begun.checked_sub(1).map(|at| &self.ops[at]);
        match last {
            Some(Op::HeldBack { name, .. }) if window.begun > window.ended => {
                let is_there = tree.points().contains_key(name);
                let (ended, begun) = (window.ended, window.begun);
                if is_there { Window { ended: begun, begun } } else { Window { ended, begun: begun - 1 } }
            }
            _ => window,
        }
    }

    /// Each point shows what the world was when it was made.
    fn judge_points(&self, tree: &Tree, window: Window) -> Result<(), String> {
        for (name, found) in tree.points() {
            let known = self.points.iter().find(|life| life.name == *name && life.made <= window.begun);
            let life = known.ok_or_else(|| format!("point {name:?} was never made"))?;
            let made = life.made;
            life.tree
                .same_files_by(found, &|known, found| self.alike.are(known, found))
                .map_err(|why| format!("point {name:?} of operation {made}: {why}"))?;
            let is_gone = |unmount: &usize| life.dropped < Some(*unmount) && *unmount <= window.ended;
            if life.dropped.is_some() && self.unmounts.iter().any(is_gone) {
                return Err(format!("point {name:?} is there, but was dropped before an unmount"));
            }
        }
        Ok(())
    }

    /// Each point is there whose making has ended, and whose drop has not begun.
    fn requires_points(&self, tree: &Tree, window: Window) -> Result<(), String> {
        let is_required = |life: &&PointLife| {
            life.made <= window.ended && life.dropped.is_none_or(|dropped| dropped > window.begun)
        };
        match self.points.iter().filter(is_required).find(|life| !tree.points().contains_key(&life.name)) {
            Some(life) => Err(format!("point {:?} of operation {} is missing", life.name, life.made)),
            None => Ok(()),
        }
    }

    fn judge_present(&self, tree: &Tree, window: Window, loss: Loss) -> Result<(), String> {
        self.judge_state(tree, window, &|k, window| {
            self.judge_quotas(tree, k, window)?;
            let is_any = loss == Loss::Slot;
            let mut worlds = self.worlds[if is_any { 0 } else { k }..=k].iter();
            match worlds.any(|world| world.retention() == tree.retention()) {
                true => Ok(()),
                false => Err(format!("the retention is {:?}", tree.retention())),
            }
        })
    }

    /// Judges files and their names; `also` judges what changes with the names, by the number of the world, and of the operations that may
    /// have had an effect.
    fn judge_state(
        &self,
        tree: &Tree,
        window: Window,
        also: &dyn Fn(usize, Window) -> Result<(), String>,
    ) -> Result<(), String> {
        link_counts_agree(tree)?;
        let signature = tree.signature();
        let floor = self.floor(window.ended);
        // A sync with nothing to write ended without any change of the disk after its beginning.
        let window = Window { begun: window.begun.max(floor), ..window };
        let mut reason = None;
        // The newest first, which is usually the one.
        for k in (floor..=window.begun).rev().filter(|k| self.signatures[*k] == signature) {
            match also(k, window).and_then(|()| self.judge_files(tree, k, window)) {
                Ok(()) => return Ok(()),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        if self.half_done(window).is_some_and(|half| half.signature() == signature) {
            return also(window.begun - 1, window);
        }
        Err(reason.unwrap_or_else(|| self.explain_names(tree, signature, window)))
    }

    /// What an interrupted rename may leave where names are only ordered: both of them.
    fn half_done(&self, window: Window) -> Option<World> {
        let is_under_way = self.promise == Promise::Ordered && window.begun > window.ended;
        let Op::Rename { from, to } = self.ops.get(window.begun.checked_sub(1)?)? else { return None };
        let mut half = self.worlds.get(window.begun - 1).filter(|_| is_under_way)?.clone();
        let _replaced = half.apply(&Op::Unlink(to.clone()));
        half.apply(&Op::Link { from: from.clone(), to: to.clone() }).ok()?;
        Some(half)
    }

    fn explain_names(&self, tree: &Tree, signature: u64, window: Window) -> String {
        let floor = self.floor(window.ended);
        let when = match self.signatures.iter().rposition(|known| *known == signature) {
            Some(k) if k < floor => format!("those after operation {k}, older than the last sync"),
            Some(k) => format!("those after operation {k}, which had not begun"),
            None => "those of no moment of the run".to_owned(),
        };
        format!(
            "the names are {when} (operations {floor} to {} are allowed); found {}",
            window.begun,
            tree.names()
        )
    }

    fn judge_quotas(&self, tree: &Tree, k: usize, window: Window) -> Result<(), String> {
        let versions = match self.promise {
            Promise::Whole => k..=k,
            Promise::Ordered => self.file_floor(ROOT, k, window.ended)..=window.begun,
        };
        let mut reasons = versions.clone().rev().map(|n| self.worlds[n].quotas().same(tree.quotas()));
        let last = reasons.next().expect("a range with an end");
        if last.is_ok() || reasons.any(|same| same.is_ok()) {
            return Ok(());
        }
        last.map_err(|why| format!("{why} (as after operations {versions:?})"))
    }

    fn judge_files(&self, tree: &Tree, k: usize, window: Window) -> Result<(), String> {
        let names = &self.names[k];
        debug_assert_eq!(names.len(), tree.entries().len(), "equal signatures");
        for ((path, id), entry) in names.iter().zip(tree.entries()) {
            debug_assert_eq!(*path, entry.path, "equal signatures");
            self.judge_file(entry, *id, k, window)
                .map_err(|why| format!("{why} (names as after operation {k})"))?;
        }
        Ok(())
    }

    fn judge_file(&self, entry: &Entry, id: FileId, k: usize, window: Window) -> Result<(), String> {
        let floor = self.file_floor(id, k, window.ended);
        let mut versions: Vec<&Node> =
            self.worlds[floor..=window.begun].iter().filter_map(|world| world.node(id)).collect();
        // Most operations change other files.
        versions.dedup_by(|next, last| std::ptr::eq(*next, *last));
        let allowed = |what: &str| {
            format!("{what} of {:?} is of no moment from operation {floor} to {}", entry.path, window.begun)
        };
        let same_inode = |node: &Node| (node.mode, node.owner) == (entry.mode, entry.owner);
        let same_xattrs = |node: &Node| node.xattrs == entry.xattrs;
        let is_known = match self.promise {
            Promise::Whole => versions.iter().any(|node| same_inode(node) && same_xattrs(node)),
            // An inode that is written before its new blocks has the old set.
            Promise::Ordered => {
                versions.iter().any(|node| same_inode(node)) && versions.iter().any(|node| same_xattrs(node))
            }
        };
        if !is_known {
            return Err(format!(
                "{}: mode {:o}, owner {:?}, {} xattrs",
                allowed("the set of attributes"),
                entry.mode,
                entry.owner,
                entry.xattrs.len()
            ));
        }
        if entry.kind != NodeKind::File {
            return Ok(());
        }
        if !versions.iter().any(|node| node.content.len() == entry.content.len()) {
            return Err(format!("{}: {} bytes", allowed("the size"), entry.content.len()));
        }
        // Most files are of one version.
        if versions.iter().rev().any(|node| self.alike.are(&node.content, &entry.content)) {
            return Ok(());
        }
        let unit_bytes = match self.promise {
            Promise::Whole => BLOCK_BYTES,
            Promise::Ordered => SECTOR_BYTES,
        };
        // Most blocks are of the version that the block before is of.
        let mut last = versions.len() - 1;
        for (index, block) in entry.content.chunks(unit_bytes).enumerate() {
            let start = index * unit_bytes;
            let of = |at: &usize| holds(&versions[*at].content, start, block);
            if let Some(version) = std::iter::once(last).chain(0..versions.len()).find(of) {
                last = version;
            } else {
                return Err(format!(
                    "{}: {}",
                    allowed(&format!("the content at byte {start}")),
                    self.explain_block(id, start, block)
                ));
            }
        }
        Ok(())
    }

    /// The operation from whose end on versions of a file are allowed.
    fn file_floor(&self, id: FileId, k: usize, ended: usize) -> usize {
        let full = self.full_syncs.iter().rev().find(|n| **n <= ended);
        let own = self.file_syncs.iter().rev().find(|(n, file)| *n <= ended && *file == id);
        let renames = if self.promise == Promise::Whole { &self.renames[..] } else { &[] };
        let renamed = renames.iter().rev().find(|(n, file)| *n <= k && *file == id);
        let own = own.map(|(n, _)| n).into_iter().chain(renamed.map(|(n, _)| n));
        own.chain(full).copied().max().unwrap_or(0)
    }

    /// The origin of a block, as far as the record knows it.
    fn explain_block(&self, id: FileId, start: usize, block: &[u8]) -> String {
        if block.iter().all(|byte| *byte == 0) {
            return "found zeros".into();
        }
        for (n, world) in self.worlds.iter().enumerate() {
            for (path, other) in world.names() {
                let node = world.node(other).expect("named");
                if other == id && holds(&node.content, start, block) {
                    return format!("found that of operation {n}");
                }
                let mut starts = (0..node.content.len()).step_by(BLOCK_BYTES);
                if let Some(place) = starts.find(|at| holds(&node.content, *at, block)) {
                    return format!("found block {} of {path:?} as of operation {n}", place / BLOCK_BYTES);
                }
            }
        }
        "found bytes that nobody wrote".into()
    }
}

/// Whether `content`, extended with zeros, holds these bytes at an offset.
fn holds(content: &[u8], start: usize, block: &[u8]) -> bool {
    let present = content.get(start..).unwrap_or(&[]);
    let common = present.len().min(block.len());
    present[..common] == block[..common] && block[common..].iter().all(|byte| *byte == 0)
}

/// Checks that link counts and directory entries agree, which must hold after any cut.
fn link_counts_agree(tree: &Tree) -> Result<(), String> {
    let mut names: BTreeMap<u64, u32> = BTreeMap::new();
    for entry in tree.entries() {
        match entry.kind {
            // A directory counts itself, its name, and the `..` of each directory in it.
            NodeKind::Directory => {
                *names.entry(entry.ino).or_default() += 2;
                if let Some(parent) = parent(tree, &entry.path) {
                    *names.entry(parent.ino).or_default() += 1;
                }
            }
            _ => *names.entry(entry.ino).or_default() += 1,
        }
    }
    match tree.entries().iter().find(|entry| names[&entry.ino] != entry.nlink) {
        None => Ok(()),
        Some(e) => Err(format!("{:?} has {} links, its inode says {}", e.path, names[&e.ino], e.nlink)),
    }
}

fn parent<'t>(tree: &'t Tree, path: &str) -> Option<&'t Entry> {
    if path.is_empty() {
        return None;
    }
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let position = tree.entries().binary_search_by(|entry| entry.path.as_str().cmp(parent)).ok()?;
    Some(&tree.entries()[position])
}
