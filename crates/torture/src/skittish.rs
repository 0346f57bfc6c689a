//! A store that stops at random, wherever the seam allows it.
//!
//! It wraps any other store. Every look and every `begin` may answer `Need` or `Room` first. An operation that then
//! continues differently, or that has already changed anything, ends in another state than an undisturbed one, and a test
//! that compares both detects it. Between `begin` and `end` a look is a violation of the seam and panics.

use crate::ops::Rng;
use firnfs::digest::Digest;
use firnfs::inode::Inode;
use firnfs::store::content::Content;
use firnfs::store::{
    Buf, Extent, Fork, Intent, Op, OpKind, Preparation, Prepared, ReadPlan, Recharge, Scope, Space, States,
    Store, StoreFacts, Ticket,
};
use firnfs::{Outcome, Stop};
use firnfs_format::{BlockIndex, Epoch, InodeNo, TimeNs};

/// See the module's head.
pub struct Skittish<S> {
    inner: S,
    rng: Rng,
    /// Looks until the next stop.
    calm_looks: u64,
    is_open: bool,
    /// How often it stopped.
    pub stops: u64,
    /// Number of looks, and of operations begun.
    pub looks: u64,
    /// Orphans listed, each counted as often as it was listed.
    pub orphans_listed: u64,
}

impl<S: Store> Skittish<S> {
    /// Stops at places drawn from `seed`.
    pub fn new(inner: S, seed: u64) -> Self {
        Self {
            inner,
            rng: Rng::new(seed),
            calm_looks: 0,
            is_open: false,
            stops: 0,
            looks: 0,
            orphans_listed: 0,
        }
    }

    /// Never stops; only counts and checks.
    pub fn steady(inner: S) -> Self {
        Self { calm_looks: u64::MAX, ..Self::new(inner, 0) }
    }

    /// The wrapped store.
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn pause(&mut self) -> Outcome<()> {
        assert!(!self.is_open, "a look between begin and end");
        self.looks += 1;
        if self.calm_looks > 0 {
            self.calm_looks -= 1;
            return Ok(());
        }
        // Mostly soon, so that short operations stop at each look; sometimes late, so that long ones end.
        let reach = if self.rng.below(200) == 0 { 5_000 } else { self.rng.pick(&[3, 6, 12]) };
        self.calm_looks = self.rng.below(reach);
        self.stops += 1;
        Err(if self.rng.percent(50) { Stop::Need(Vec::new()) } else { Stop::Room })
    }
}

impl<S: Store> Store for Skittish<S> {
    fn facts(&self) -> StoreFacts {
        self.inner.facts()
    }

    fn space(&self) -> Space {
        self.inner.space()
    }

    fn inode(&mut self, ino: InodeNo) -> Outcome<&Inode> {
        self.pause()?;
        self.inner.inode(ino)
    }

    fn block(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Outcome<Buf> {
        self.pause()?;
        self.inner.block(ino, fork, index)
    }

    fn digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Option<&Digest> {
        self.inner.digest(ino, fork, index)
    }

    fn keep_digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex, digest: Digest) {
        self.inner.keep_digest(ino, fork, index, digest);
    }

    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        self.pause()?;
        self.inner.read(ino, at_bytes, len_bytes)
    }

    fn extent(&mut self, ino: InodeNo, at_bytes: u64, limit_bytes: u64) -> Outcome<Extent> {
        self.pause()?;
        self.inner.extent(ino, at_bytes, limit_bytes)
    }

    fn refuse_growth(&mut self, blocks: u64) -> Outcome<()> {
        self.inner.refuse_growth(blocks)
    }

    fn begin(&mut self, now: TimeNs, kind: OpKind, intents: &[Intent]) -> Outcome<Op> {
        self.pause()?;
        let op = self.inner.begin(now, kind, intents)?;
        self.is_open = true;
        Ok(op)
    }

    fn inode_alloc(&mut self, op: &mut Op, inode: Inode) -> InodeNo {
        self.inner.inode_alloc(op, inode)
    }

    fn inode_mut(&mut self, op: &mut Op, ino: InodeNo) -> &mut Inode {
        self.inner.inode_mut(op, ino)
    }

    fn inode_free(&mut self, op: &mut Op, ino: InodeNo) {
        self.inner.inode_free(op, ino);
    }

    fn write(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>) {
        self.inner.write(op, ino, fork, at_bytes, content);
    }

    fn block_mut(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, index: BlockIndex) -> &mut [u8] {
        self.inner.block_mut(op, ino, fork, index)
    }

    fn punch(&mut self, op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64) {
        self.inner.punch(op, ino, fork, at_bytes, len_bytes);
    }

    fn reserve(&mut self, op: &mut Op, ino: InodeNo, at_bytes: u64, len_bytes: u64) {
        self.inner.reserve(op, ino, at_bytes, len_bytes);
    }

    fn end(&mut self, op: Op) -> Option<Ticket> {
        self.is_open = false;
        self.inner.end(op)
    }

    fn abandon(&mut self, op: Op) {
        self.is_open = false;
        self.inner.abandon(op);
    }

    fn may_have_quotas(&self) -> bool {
        self.inner.may_have_quotas()
    }

    fn note_quotas(&mut self) {
        self.inner.note_quotas();
    }

    fn follow_charges(&mut self, follow: bool) {
        self.inner.follow_charges(follow);
    }

    fn take_recharges(&mut self) -> Vec<Recharge> {
        self.inner.take_recharges()
    }

    fn inodes_from(&mut self, from: InodeNo, found: &mut Vec<InodeNo>) -> Outcome<Option<InodeNo>> {
        self.pause()?;
        self.inner.inodes_from(from, found)
    }

    fn note_access(&mut self, dir: InodeNo, ino: InodeNo) {
        self.inner.note_access(dir, ino);
    }

    fn set_atime(&mut self, ino: InodeNo, atime: TimeNs) {
        self.inner.set_atime(ino, atime);
    }

    fn allocated_bytes(&self, ino: InodeNo) -> u64 {
        self.inner.allocated_bytes(ino)
    }

    fn prepare_commit(
        &mut self,
        now: TimeNs,
        scope: Scope,
        preparation: &mut Preparation,
    ) -> Outcome<Prepared> {
        self.pause()?;
        self.inner.prepare_commit(now, scope, preparation)
    }

    fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        self.pause()?;
        self.inner.commit(now, scope)
    }

    fn hears_of_closes(&self) -> bool {
        self.inner.hears_of_closes()
    }

    fn file_closed(&mut self, ino: InodeNo) -> Outcome<Option<Ticket>> {
        self.pause()?;
        self.inner.file_closed(ino)
    }

    fn orphans(&mut self) -> Outcome<Vec<InodeNo>> {
        self.pause()?;
        let orphans = self.inner.orphans()?;
        self.orphans_listed += orphans.len() as u64;
        Ok(orphans)
    }

    fn is_nameless(&mut self, ino: InodeNo) -> Outcome<bool> {
        self.pause()?;
        self.inner.is_nameless(ino)
    }

    fn read_only(&self) -> Option<&str> {
        self.inner.read_only()
    }

    fn states(&mut self, from: Epoch) -> Outcome<Option<States<'_>>> {
        self.inner.states(from)
    }

    fn look_into(&mut self, epoch: Epoch) -> Outcome<InodeNo> {
        self.pause()?;
        self.inner.look_into(epoch)
    }

    fn root_looked_into(&self, epoch: Epoch) -> Option<InodeNo> {
        self.inner.root_looked_into(epoch)
    }
}
