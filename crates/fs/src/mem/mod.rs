//! `MemStore`: the memory storage manager. It shares all of UFS with LFS and so proves the seam between them.
//!
//! Blocks live in one ordered map per inode and fork (`blocks`). Nothing survives the process; `commit` is a counter.
//! Invariants:
//! - An operation changes only what it declared, and takes no more space than `begin` charged: this store enforces the rules
//!   of the seam.
//! - `used_bytes` is the sum of the charges of all inodes: a fixed size each, their inline bytes, and a whole block for each
//!   block present or reserved. It never exceeds the capacity.
//!
//! Callers: [`crate::vfs`] through [`Store`]; embedding programs and tests make it with [`MemStore::new`].

mod blocks;
#[cfg(test)]
mod tests;

use crate::digest::Digest;
use crate::engine::Engine;
use crate::error::{FsError, Outcome};
use crate::inode::{Inode, Kind};
use crate::store::content::Content;
use crate::store::declared::Declared;
use crate::store::{
    Atomicity, Buf, Charge, Extent, Fork, Intent, Op, OpKind, Owner, ReadPlan, Scope, Space, Store,
    StoreFacts, Ticket, zero_buf,
};
use blocks::Blocks;
use firnfs_format::{BlockIndex, InodeNo, TimeNs};

/// The fixed charge of an inode besides its content, in bytes.
pub const INODE_BYTES: u64 = 256;

/// Inode numbers that one [`Store::inodes_from`] looks at.
const LISTED_AT_ONCE: usize = 256;

/// How to make a [`MemStore`]. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemOptions {
    /// The most that all files together may take, with their inodes.
    pub capacity_bytes: u64,
    /// Block size (power of two, 512 to 65536: small ones make deep structures for tests).
    pub block_bytes: u32,
    /// Largest content kept in the inode; 0 turns inlining off. At most a block.
    pub inline_max_bytes: u32,
    /// Largest attribute set kept in the inode; 0 turns inlining off.
    pub inline_xattr_max_bytes: u32,
    /// Largest range of one operation.
    pub op_max_bytes: u64,
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// Permission bits of the root directory.
    pub root_mode: u16,
}

impl MemOptions {
    /// The usual sizes for a capacity in bytes.
    #[must_use]
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            block_bytes: 4096,
            inline_max_bytes: 512,
            inline_xattr_max_bytes: 512,
            op_max_bytes: 1 << 20,
            hash_key: [0x6669_726e_6673_2d6d, 0x656d_2d64_6972_7321],
            root_owner: (0, 0),
            root_mode: 0o755,
        }
    }
}

/// An inode with its blocks and its charge.
struct Node {
    inode: Inode,
    forks: [Blocks; 3],
    /// Inline bytes that are already part of `used_bytes`.
    charged_inline_bytes: u64,
}

impl Node {
    fn block_count(&self) -> u64 {
        self.forks.iter().map(Blocks::count).sum()
    }
}

/// See the module's head.
pub struct MemStore {
    facts: StoreFacts,
    capacity_bytes: u64,
    used_bytes: u64,
    /// By inode number.
    nodes: Vec<Option<Box<Node>>>,
    free_numbers: Vec<u64>,
    inodes_used: u64,
    next_generation: u64,
    commits: u64,
    open: Declared,
    /// What `used_bytes` may be at the end of the open operation.
    used_limit_bytes: u64,
}

impl MemStore {
    /// An empty volume with a root directory.
    ///
    /// # Panics
    /// If the options contradict their documented ranges.
    #[must_use]
    pub fn new(options: MemOptions, now: TimeNs) -> Self {
        let block_bytes = options.block_bytes;
        assert!(block_bytes.is_power_of_two() && (512..=65536).contains(&block_bytes), "block size");
        assert!(options.inline_max_bytes <= block_bytes, "inline content never exceeds a block");
        assert!(options.op_max_bytes >= u64::from(block_bytes), "an operation covers a block at least");
        let facts = StoreFacts {
            block_bytes,
            inline_max_bytes: options.inline_max_bytes,
            inline_xattr_max_bytes: options.inline_xattr_max_bytes,
            file_max_bytes: i64::MAX as u64,
            op_max_bytes: options.op_max_bytes,
            read_max_bytes: u64::MAX,
            dir_unit_bytes: block_bytes,
            hash_key: options.hash_key,
            atomicity: Atomicity::Volatile,
            has_checksums: false,
            keeps_content: true,
        };
        let mut store = Self {
            facts,
            capacity_bytes: options.capacity_bytes.max(INODE_BYTES),
            used_bytes: 0,
            nodes: (0..InodeNo::FIRST_USER.0).map(|_| None).collect(),
            free_numbers: Vec::new(),
            inodes_used: 0,
            next_generation: 1,
            commits: 0,
            open: Declared::default(),
            used_limit_bytes: 0,
        };
        let mut root = Inode::root(options.inline_max_bytes, now);
        (root.uid, root.gid) = options.root_owner;
        root.mode = options.root_mode;
        store.place(InodeNo::ROOT, root);
        store.used_bytes = INODE_BYTES;
        store
    }

    fn place(&mut self, ino: InodeNo, mut inode: Inode) {
        inode.generation = self.next_generation;
        self.next_generation += 1;
        self.inodes_used += 1;
        let node = Node { inode, forks: Default::default(), charged_inline_bytes: 0 };
        self.nodes[ino.0 as usize] = Some(Box::new(node));
    }

    fn node(&self, ino: InodeNo) -> Result<&Node, FsError> {
        let slot = usize::try_from(ino.0).ok().and_then(|at| self.nodes.get(at));
        slot.and_then(|node| node.as_deref()).ok_or(FsError::NotFound)
    }

    /// For changes, which name only existing inodes.
    fn node_mut(&mut self, ino: InodeNo) -> &mut Node {
        self.nodes[ino.0 as usize].as_deref_mut().expect("an operation declares inodes it has looked at")
    }

    fn blocks(&self, ino: InodeNo, fork: Fork) -> Result<&Blocks, FsError> {
        Ok(&self.node(ino)?.forks[fork as usize])
    }

    /// The most that an operation can add to `used_bytes`, by the owner who pays.
    fn charges(&self, intents: &[Intent]) -> Result<Vec<Charge>, FsError> {
        let mut charges = Vec::new();
        for intent in intents {
            let charge = self.charge(intent)?;
            if charge.bytes > 0 {
                charges.push(charge);
            }
        }
        Ok(charges)
    }

    fn charge(&self, intent: &Intent) -> Result<Charge, FsError> {
        let block_bytes = u64::from(self.facts.block_bytes);
        let inline_max = u64::from(self.facts.inline_max_bytes.min(self.facts.inline_xattr_max_bytes));
        let mut inline_bytes = 0;
        let (ino, bytes) = match *intent {
            Intent::Create { bytes, owner, .. } => {
                let in_blocks = if bytes <= inline_max { 0 } else { bytes.div_ceil(block_bytes) + 1 };
                let allocated_bytes = in_blocks * block_bytes;
                let bytes = INODE_BYTES + bytes + allocated_bytes;
                return Ok(Charge { owner, bytes, allocated_bytes, inodes: 1 });
            }
            Intent::Change { ino, grow_bytes } => {
                inline_bytes = grow_bytes;
                (ino, grow_bytes)
            }
            Intent::Write { ino, fork, at_bytes, len_bytes } => {
                (ino, self.blocks(ino, fork)?.absent(at_bytes, len_bytes, block_bytes) * block_bytes)
            }
            // A punch declared together with it (zero range) only returns space.
            Intent::Reserve { ino, at_bytes, len_bytes } => {
                (ino, self.blocks(ino, Fork::Data)?.absent(at_bytes, len_bytes, block_bytes) * block_bytes)
            }
            Intent::Edit { ino, .. }
            | Intent::Punch { ino, .. }
            | Intent::Resize { ino, .. }
            | Intent::Free { ino } => (ino, 0),
        };
        let Inode { uid, gid, .. } = self.node(ino)?.inode;
        Ok(Charge { owner: Owner { uid, gid }, bytes, allocated_bytes: bytes - inline_bytes, inodes: 0 })
    }

    fn inline_bytes(inode: &Inode) -> u64 {
        inode.inline_bytes() as u64
    }
}

impl Engine for MemStore {}

impl Store for MemStore {
    fn facts(&self) -> StoreFacts {
        self.facts
    }

    fn space(&self) -> Space {
        let free_bytes = self.capacity_bytes - self.used_bytes;
        Space {
            total_bytes: self.capacity_bytes,
            free_bytes,
            inodes_used: self.inodes_used,
            inodes_free: free_bytes / INODE_BYTES,
        }
    }

    fn inode(&mut self, ino: InodeNo) -> Outcome<&Inode> {
        Ok(&self.node(ino)?.inode)
    }

    fn block(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Outcome<Buf> {
        let blocks = self.blocks(ino, fork)?;
        let zeros = || zero_buf(self.facts.block_bytes as usize);
        Ok(blocks.get(index.0).cloned().unwrap_or_else(zeros))
    }

    fn digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Option<&Digest> {
        self.blocks(ino, fork).ok()?.digest(index.0)
    }

    fn keep_digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex, digest: Digest) {
        if self.node(ino).is_ok() {
            self.node_mut(ino).forks[fork as usize].keep_digest(index.0, digest);
        }
    }

    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        let pieces =
            self.blocks(ino, Fork::Data)?.read(at_bytes, len_bytes, u64::from(self.facts.block_bytes));
        Ok(ReadPlan { pieces, ..ReadPlan::default() })
    }

    fn extent(&mut self, ino: InodeNo, at_bytes: u64, limit_bytes: u64) -> Outcome<Extent> {
        let block_bytes = u64::from(self.facts.block_bytes);
        Ok(self.blocks(ino, Fork::Data)?.extent(at_bytes, limit_bytes, block_bytes))
    }

    fn refuse_growth(&mut self, blocks: u64) -> Outcome<()> {
        let growth_bytes = blocks.saturating_mul(u64::from(self.facts.block_bytes));
        if growth_bytes > self.capacity_bytes - self.used_bytes {
            return Err(FsError::NoSpace.into());
        }
        Ok(())
    }

    fn begin(&mut self, now: TimeNs, kind: OpKind, intents: &[Intent]) -> Outcome<Op> {
        let charges = self.charges(intents)?;
        let charge_bytes = charges.iter().fold(0u64, |sum, charge| sum.saturating_add(charge.bytes));
        if charge_bytes > 0 && charge_bytes > self.capacity_bytes - self.used_bytes {
            return Err(FsError::NoSpace.into());
        }
        self.used_limit_bytes = self.used_bytes + charge_bytes;
        self.open.start(intents);
        Ok(Op::granted(now, kind, charges))
    }

    fn inode_alloc(&mut self, _op: &mut Op, inode: Inode) -> InodeNo {
        let ino = InodeNo(self.free_numbers.pop().unwrap_or(self.nodes.len() as u64));
        if ino.0 as usize == self.nodes.len() {
            self.nodes.push(None);
        }
        self.place(ino, inode);
        self.used_bytes += INODE_BYTES;
        self.open.created(ino);
        ino
    }

    fn inode_mut(&mut self, _op: &mut Op, ino: InodeNo) -> &mut Inode {
        let node =
            self.nodes[ino.0 as usize].as_deref_mut().expect("an operation declares what it looked at");
        self.open.check_inode(ino, &node.inode);
        &mut node.inode
    }

    fn inode_free(&mut self, _op: &mut Op, ino: InodeNo) {
        self.open.check_free(ino);
        let node = self.nodes[ino.0 as usize].take().expect("an inode is freed once");
        let block_bytes = u64::from(self.facts.block_bytes);
        self.used_bytes -= INODE_BYTES + node.charged_inline_bytes + node.block_count() * block_bytes;
        self.inodes_used -= 1;
        self.free_numbers.push(ino.0);
    }

    fn write(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>) {
        self.open.check_write(ino, fork, at_bytes, content.len_bytes() as u64);
        let block_bytes = u64::from(self.facts.block_bytes);
        let added = self.node_mut(ino).forks[fork as usize].write(at_bytes, content, block_bytes);
        self.used_bytes += added * block_bytes;
    }

    fn block_mut(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, index: BlockIndex) -> &mut [u8] {
        let block_bytes = u64::from(self.facts.block_bytes);
        self.open.check_in_place(ino, fork, index, block_bytes);
        let blocks =
            &mut self.nodes[ino.0 as usize].as_deref_mut().expect("checked above").forks[fork as usize];
        let (block, added) = blocks.get_mut(index.0, block_bytes);
        self.used_bytes += added * block_bytes;
        block
    }

    fn punch(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64) {
        self.open.check_punch(ino, fork, at_bytes, len_bytes);
        let block_bytes = u64::from(self.facts.block_bytes);
        let removed = self.node_mut(ino).forks[fork as usize].punch(at_bytes, len_bytes, block_bytes);
        self.used_bytes -= removed * block_bytes;
    }

    fn reserve(&mut self, _op: &mut Op, ino: InodeNo, at_bytes: u64, len_bytes: u64) {
        self.open.check_reserve(ino, at_bytes, len_bytes);
        let block_bytes = u64::from(self.facts.block_bytes);
        let added = self.node_mut(ino).forks[Fork::Data as usize].reserve(at_bytes, len_bytes, block_bytes);
        self.used_bytes += added * block_bytes;
    }

    fn end(&mut self, _op: Op) -> Option<Ticket> {
        let nodes = &self.nodes;
        self.open.finish(|ino| nodes[ino.0 as usize].as_deref().map(|node| &node.inode));
        for ino in self.open.inodes() {
            // Freed in the same operation: its charge went with it.
            let Some(node) = self.nodes[ino.0 as usize].as_deref_mut() else { continue };
            check_sizes(&node.inode, &self.facts);
            let inline_bytes = Self::inline_bytes(&node.inode);
            self.used_bytes = self.used_bytes + inline_bytes - node.charged_inline_bytes;
            node.charged_inline_bytes = inline_bytes;
        }
        assert!(
            self.used_bytes <= self.used_limit_bytes,
            "an operation took {} bytes more than it declared: {:?}",
            self.used_bytes - self.used_limit_bytes,
            self.open.intents()
        );
        None
    }

    fn note_access(&mut self, _dir: InodeNo, _ino: InodeNo) {}

    fn set_atime(&mut self, ino: InodeNo, atime: TimeNs) {
        if let Some(Some(node)) = self.nodes.get_mut(ino.0 as usize) {
            node.inode.atime = atime;
        }
    }

    fn allocated_bytes(&self, ino: InodeNo) -> u64 {
        self.node(ino).map_or(0, |node| node.block_count() * u64::from(self.facts.block_bytes))
    }

    fn inodes_from(&mut self, from: InodeNo, found: &mut Vec<InodeNo>) -> Outcome<Option<InodeNo>> {
        let end = self
            .nodes
            .len()
            .min(usize::try_from(from.0).unwrap_or(usize::MAX).saturating_add(LISTED_AT_ONCE));
        let used = |at: &u64| self.nodes[*at as usize].is_some();
        found.extend((from.0..end as u64).filter(used).map(InodeNo));
        Ok((end < self.nodes.len()).then_some(InodeNo(end as u64)))
    }

    fn commit(&mut self, _now: TimeNs, _scope: Scope) -> Outcome<Ticket> {
        self.commits += 1;
        Ok(Ticket(self.commits))
    }

    fn orphans(&mut self) -> Outcome<Vec<InodeNo>> {
        let nameless = |node: &Option<Box<Node>>| node.as_ref().is_some_and(|n| n.inode.nlink == 0);
        let numbers = self.nodes.iter().enumerate().filter(|(_, node)| nameless(node));
        Ok(numbers.map(|(ino, _)| InodeNo(ino as u64)).collect())
    }

    fn is_nameless(&mut self, ino: InodeNo) -> Outcome<bool> {
        let node = self.nodes.get(ino.0 as usize).and_then(Option::as_ref);
        Ok(node.is_some_and(|node| node.inode.nlink == 0))
    }

    fn read_only(&self) -> Option<&str> {
        None
    }
}

/// Checks the sizes of an inode's inline parts, which UFS guarantees to every store.
fn check_sizes(inode: &Inode, facts: &StoreFacts) {
    use crate::inode::{Body, Xattrs};
    if let Body::Inline(body) = &inode.body {
        assert!(body.len() <= facts.inline_max_bytes as usize, "inline content of {} bytes", body.len());
        assert_eq!(body.len() as u64, inode.size_bytes, "inline content is as long as the file");
    }
    if let Xattrs::Inline(set) = &inode.xattrs {
        assert!(
            set.len() <= facts.inline_xattr_max_bytes as usize,
            "inline attributes of {} bytes",
            set.len()
        );
    }
    assert!(inode.kind == Kind::Directory || inode.index_blocks == 0, "only directories have an index");
}
