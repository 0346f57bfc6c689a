//! The seam between UFS and the storage managers (`lfs`, `ffs`, `mem`).
//!
//! `ufs` and `vfs` decide *what* changes, a [`Store`] decides *where and when*. The contract:
//!
//! 1. An operation first looks ([`Store::inode`], [`Store::block`], [`Store::extent`]). Each of these may stop with
//!    [`Stop::Need`](crate::error::Stop); nothing has changed then, and the driver retries the operation from its start.
//! 2. It then declares all its changes in one [`Store::begin`]. The store makes sure that everything that the declared changes
//!    touch is in memory (else `Need`), that the volume has space (else `NoSpace`) and the log has room (else `Room`), and
//!    returns an [`Op`] token.
//! 3. It then makes the changes. Methods that take the token cannot stop: no I/O, no lack of space. An undeclared change is a
//!    bug, against which every store asserts (`declared`).
//! 4. It gives the token back ([`Store::end`]). Each store states what a crash leaves of an operation
//!    ([`StoreFacts::atomicity`]). A store that writes metadata synchronously returns a ticket; the caller waits for it before
//!    it answers.
//!
//! Everything runs under one lock held by the driver, so there is never more than one open `Op`.
//!
//! `operation`: what an operation declares, and its token. `reading`: how a read is carried out. `buf`: a block in memory. `content`:
//! bytes on their way into a file. `recharges`: what inodes are charged more or less since somebody looked. `retained`: older states
//! and clones, as a store lists them.

mod buf;
pub mod content;
pub(crate) mod declared;
mod operation;
mod reading;
pub(crate) mod recharges;
mod retained;

pub use buf::Buf;
pub use operation::{Charge, Intent, Op, OpKind, Owner, Recharge};
pub use reading::{Extent, Piece, ReadPlan};
pub use retained::{Branch, State, States, Title, time_of_next};

use crate::digest::Digest;
use crate::error::{FsError, Outcome};
use crate::inode::Inode;
use content::Content;
use firnfs_format::{BlockIndex, Epoch, InodeNo, TimeNs};

/// Zeros, as many as the largest block holds.
static ZEROS: [u8; 65536] = [0; 65536];

/// A block of zeros.
pub(crate) fn zero_buf(len_bytes: usize) -> Buf {
    ZEROS.get(..len_bytes).map_or_else(|| vec![0; len_bytes].into(), Buf::from)
}

/// A stored block in the form in which it is used: padded with zeros to the block size.
pub(crate) fn padded(stored: &[u8], block_bytes: u32) -> Buf {
    if stored.len() == block_bytes as usize {
        return Buf::from(stored);
    }
    let mut block = zero_buf(block_bytes as usize);
    block.make_mut()[..stored.len()].copy_from_slice(stored);
    block
}

/// The separate block spaces of one inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Fork {
    /// The file's content.
    Data = 0,
    /// A directory's hash index.
    Index = 1,
    /// Extended attributes too large for the inode.
    Xattr = 2,
}

/// Names a block without an address: a dirty LFS block has none yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey {
    /// The inode of the block.
    pub ino: InodeNo,
    /// Which fork.
    pub fork: Fork,
    /// 0 for data, 1 for single indirect blocks, and so on.
    pub level: u8,
    /// Index in the fork at that level.
    pub index: BlockIndex,
}

/// What a crash leaves of operations on names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomicity {
    /// Each operation is there as a whole or not at all, and in the order in which they were made.
    Whole,
    /// Parts of operations, written in an order from which a check can make the volume consistent again.
    Ordered,
    /// Nothing.
    Volatile,
}

/// Sizes and limits of a store, fixed while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFacts {
    /// Block size in bytes (power of two, 4096 to 65536).
    pub block_bytes: u32,
    /// Largest content kept in the inode, in bytes; 0 turns inlining off.
    pub inline_max_bytes: u32,
    /// Largest attribute set kept in the inode, in bytes.
    pub inline_xattr_max_bytes: u32,
    /// Largest file, in bytes.
    pub file_max_bytes: u64,
    /// Largest range of one write, punch or reserve operation, in bytes (a truncate to the end is exempt).
    pub op_max_bytes: u64,
    /// Longest range that one [`Store::read`] plans, in bytes; a driver divides longer reads.
    pub read_max_bytes: u64,
    /// How much of a directory block a crash leaves old or new as a whole, in bytes (a power of two, 512 to the block size).
    /// Records of directories do not cross its multiples.
    pub dir_unit_bytes: u32,
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
    /// What a crash leaves of an operation on names.
    pub atomicity: Atomicity,
    /// Blocks have checksums, so a read detects bytes that were changed without the store. Content that is prepared outside
    /// the lock includes them.
    pub has_checksums: bool,
    /// Written content may stay in memory when it is on the device, in a cache that counts its bytes. So a block must not keep more memory
    /// than that, and a buffer that somebody else made is copied ([`content::lent_blocks`]).
    pub keeps_content: bool,
}

/// Space as statfs shows it, in bytes and inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Total that users can fill.
    pub total_bytes: u64,
    /// The part of it that is not used.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes_used: u64,
    /// Inodes that can still be made.
    pub inodes_free: u64,
}

/// The changes that a commit must cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One file with its data, and every earlier name operation.
    File(InodeNo),
    /// Everything.
    All,
}

/// How far a caller of [`Store::prepare_commit`] has come; the store's own business.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Preparation {
    /// The place in the order of changes where it began.
    pub(crate) start: Option<u64>,
    /// The batch that has everything up to there.
    pub(crate) batch: Option<u64>,
    /// Dirty blocks of content that it may still take.
    pub(crate) content_blocks: Option<usize>,
}

/// The result of [`Store::prepare_commit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// A part was done, and there may be more.
    Part,
    /// What is left is short: [`Store::commit`] does it.
    Rest,
    /// Everything that the scope had when the preparation began is on its way; durable as after a commit.
    Whole(Ticket),
}

/// A point in the order of changes; a commit returns it, and it becomes durable later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Ticket(pub u64);

/// A storage manager. See the module's head for the order in which the methods are used.
pub trait Store: Send {
    /// Sizes and limits.
    fn facts(&self) -> StoreFacts;

    /// Space now.
    fn space(&self) -> Space;

    /// Looks at an inode.
    ///
    /// # Errors
    /// `Need`; `NotFound` if the number is not in use; `Corrupt`.
    fn inode(&mut self, ino: InodeNo) -> Outcome<&Inode>;

    /// Looks at one whole block ([`StoreFacts::block_bytes`] long; a hole gives zeros).
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    fn block(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Outcome<Buf>;

    /// The digest that [`Store::keep_digest`] left with a block, if the block is in memory and unchanged since.
    fn digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Option<&Digest>;

    /// Leaves a digest of its content with a block; the store keeps it while the block is in memory and unchanged.
    fn keep_digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex, digest: Digest);

    /// Plans a read of the data fork (never of inline content: `ufs::file` does that). The range lies within the
    /// file's size and is at most [`StoreFacts::read_max_bytes`] long.
    ///
    /// # Errors
    /// `Need` (for indirect blocks; for content only in a store that keeps what it reads), `Corrupt`, `NotFound`.
    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan>;

    /// The kind of a byte of the data fork, and how far it extends (the store may cut it short at `limit_bytes`, a length, or
    /// where it stops looking).
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    fn extent(&mut self, ino: InodeNo, at_bytes: u64, limit_bytes: u64) -> Outcome<Extent>;

    /// Fails in advance if [`Intent::Reserve`] of that many blocks would fail, even if divided into several operations. A
    /// caller asks before the first of them, whose space would otherwise stay taken.
    ///
    /// # Errors
    /// `NoSpace`; `Room` if background work may free enough.
    fn refuse_growth(&mut self, blocks: u64) -> Outcome<()>;

    /// Declares an operation. See the module's head.
    ///
    /// # Errors
    /// `Need`, `Room`, `NoSpace`, `ReadOnly`, `Corrupt`.
    fn begin(&mut self, now: TimeNs, kind: OpKind, intents: &[Intent]) -> Outcome<Op>;

    /// Makes the inode declared with [`Intent::Create`]. The store sets its generation.
    fn inode_alloc(&mut self, op: &mut Op, inode: Inode) -> InodeNo;

    /// Changes an inode declared with [`Intent::Change`] (or any of the other intents that name it, or just made).
    fn inode_mut(&mut self, op: &mut Op, ino: InodeNo) -> &mut Inode;

    /// Frees an inode declared with [`Intent::Free`], with all its blocks (perhaps later, in the background). The number is not
    /// reused before that is done.
    fn inode_free(&mut self, op: &mut Op, ino: InodeNo);

    /// Writes bytes declared with [`Intent::Write`], or into a fork of the inode just made. Does not touch the size.
    fn write(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>);

    /// One whole block, to change in place; a part of it was declared with [`Intent::Write`] or [`Intent::Edit`]. A hole gives
    /// zeros.
    fn block_mut(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, index: BlockIndex) -> &mut [u8];

    /// Drops bytes declared with [`Intent::Punch`]: whole blocks become holes, parts of blocks zeros.
    /// Does not touch the size.
    fn punch(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64);

    /// Charges the holes of a range declared with [`Intent::Reserve`] to the file. They continue to read as zeros.
    fn reserve(&mut self, op: &mut Op, ino: InodeNo, at_bytes: u64, len_bytes: u64);

    /// Ends the operation. Returns a ticket if metadata is written synchronously: the caller must wait for it before it reports
    /// success. The ticket is durable once [`Engine::durable`](crate::engine::Engine::durable) reaches it.
    fn end(&mut self, op: Op) -> Option<Ticket>;

    /// Ends an operation of which no change was made: its charges exceed a quota.
    fn abandon(&mut self, op: Op) {
        let _nothing_to_wait_for = self.end(op);
    }

    /// Notes that a user came from a directory to an inode, which the caller has just looked at. Changes nothing; the store
    /// learns from it which blocks are read together, for its fetches and its layout.
    fn note_access(&mut self, dir: InodeNo, ino: InodeNo);

    /// Notes an access time. Lazy: a crash may lose it, and it needs no operation. The caller has just looked at the inode.
    fn set_atime(&mut self, ino: InodeNo, atime: TimeNs);

    /// Bytes of live space charged to the inode (st_blocks * 512). The caller has just looked at the inode.
    fn allocated_bytes(&self, ino: InodeNo) -> u64;

    /// False if the store knows, without reading anything, that quotas have not been turned on.
    fn may_have_quotas(&self) -> bool {
        true
    }

    /// Quotas are on, so that [`Store::may_have_quotas`] says so at the next mount too.
    fn note_quotas(&mut self) {}

    /// From now on, notes each change of [`Store::allocated_bytes`] of inodes in use, or stops that. A store that changes them only
    /// in operations, between [`Store::begin`] and [`Store::end`], has nothing to note.
    fn follow_charges(&mut self, _follow: bool) {}

    /// The changes noted since the last call, also those that operations made.
    fn take_recharges(&mut self) -> Vec<Recharge> {
        Vec::new()
    }

    /// Looks at a bounded number of inode numbers from `from` on, and lists in `found` those in use, ascending. Returns where the
    /// rest starts; `None` if that was all. Damaged parts of the store's maps are passed over.
    ///
    /// # Errors
    /// `Need`.
    fn inodes_from(&mut self, from: InodeNo, found: &mut Vec<InodeNo>) -> Outcome<Option<InodeNo>>;

    /// Does a short part of what [`Store::commit`] of that scope would do at once. A caller whom others wait for calls it as
    /// long as it returns [`Prepared::Part`] and lets them in between. It ends however fast others write: `preparation`, new
    /// at the beginning, says how far it has come.
    ///
    /// # Errors
    /// `Need`, `Room`, `ReadOnly`, `Io`.
    fn prepare_commit(
        &mut self,
        _now: TimeNs,
        _scope: Scope,
        _preparation: &mut Preparation,
    ) -> Outcome<Prepared> {
        Ok(Prepared::Rest)
    }

    /// Starts to make a scope durable: freezes the dirty blocks and queues them for writing. The scope is durable once
    /// [`Engine::durable`](crate::engine::Engine::durable) reaches the ticket.
    ///
    /// # Errors
    /// `Need`, `Room`, `ReadOnly`, `Io`.
    fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket>;

    /// True if the store wants to know when a program closes a file: see [`Store::file_closed`].
    fn hears_of_closes(&self) -> bool {
        false
    }

    /// A program closed a file, which may be open elsewhere. Returns a ticket to wait for if the store wrote something because of it.
    ///
    /// # Errors
    /// `Need`, `Io`.
    fn file_closed(&mut self, _ino: InodeNo) -> Outcome<Option<Ticket>> {
        Ok(None)
    }

    /// Inodes that a crash or an unmount may have left without names, ascending; [`Store::is_nameless`] decides for each.
    /// Searches everything known about orphans: call it once, not again for each of them.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    fn orphans(&mut self) -> Outcome<Vec<InodeNo>>;

    /// Whether that inode exists and has no names, so that it should be freed.
    ///
    /// # Errors
    /// `Need`; `Corrupt`, `Io`: a check has to handle a damaged inode.
    fn is_nameless(&mut self, ino: InodeNo) -> Outcome<bool>;

    /// The reason why the volume is read-only, if it is.
    fn read_only(&self) -> Option<&str>;

    /// Older states of the volume that it retains, oldest first, from that epoch on; `None` if the store retains none, ever.
    ///
    /// # Errors
    /// `Need`.
    fn states(&mut self, _from: Epoch) -> Outcome<Option<States<'_>>> {
        Ok(None)
    }

    /// The clones of older states, in the order of their numbers; `None` if the store has none, ever.
    fn branches(&self) -> Option<Vec<Branch>> {
        None
    }

    /// The root directory of an older state, as it was then: an inode that nobody can change, like all that it leads to (see
    /// [`crate::states`]).
    ///
    /// # Errors
    /// `NotFound` if that state is not retained; `NotPermitted` if too many are looked into.
    fn look_into(&mut self, _epoch: Epoch) -> Outcome<InodeNo> {
        Err(FsError::NotFound.into())
    }

    /// The root directory of an older state that somebody has looked into.
    fn root_looked_into(&self, _epoch: Epoch) -> Option<InodeNo> {
        None
    }
}

/// For callers that mutate: the error when the volume is read-only.
pub(crate) fn refuse_read_only(store: &dyn Store) -> Result<(), FsError> {
    store.read_only().map_or(Ok(()), |why| Err(FsError::ReadOnly(why.to_owned())))
}
