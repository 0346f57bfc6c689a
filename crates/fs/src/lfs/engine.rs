//! The seam towards the driver: [`Engine`] for the log-structured storage manager.
//!
//! It passes fetched bytes to the caches or the cleaner, and finished jobs to the log; these decide what happens then.

use super::Lfs;
use super::map::inode::CoreInode;
use super::map::wanted::Wanted;
use super::write::jobs::Landed;
use crate::engine::{Engine, Job, JobId, Pressure, Step, Verify};
use crate::error::{FsError, Outcome};
use crate::fetch::{Fetched, Token};
use crate::store::{BlockKey, Buf, Scope, Store, Ticket, padded};
use firnfs_device::DeviceError;
use firnfs_format::{BlockPtr, Epoch, InodeNo, TimeNs};
use std::sync::Arc;

impl Engine for Lfs {
    fn verifier(&self) -> Arc<dyn Verify> {
        self.shelf.verifier.clone()
    }

    fn supply(&mut self, token: &Token, bytes: &Fetched) -> Result<(), FsError> {
        match Wanted::of(token) {
            Wanted::Block(key, ptr) => self.supply_block(key, ptr, bytes),
            Wanted::Inode(ino, ptr) => self.supply_inode(ino, ptr, bytes)?,
            Wanted::Past(ptr) => self.past_blocks.insert(&ptr, bytes),
            Wanted::Part(segment, run) => self.supply_victim(segment, run, bytes)?,
        }
        Ok(())
    }

    fn fetch_failed(&mut self, token: &Token, error: FsError) -> Result<(), FsError> {
        self.shelf.note_failure(Wanted::of(token), error);
        Ok(())
    }

    fn unpin(&mut self, pin: u64) -> bool {
        self.writer.pins.unpin(pin)
    }

    fn next_job(&mut self) -> Option<Job> {
        self.writer.jobs.next()
    }

    /// A failed log write or flush turns the volume read-only.
    fn job_done(&mut self, id: JobId, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => match self.writer.jobs.done(id) {
                Landed::Partial(addr) => self.shelf.landed(addr),
                Landed::Checkpoint(epoch) => self.checkpoint_durable(epoch),
                Landed::Nothing => {}
            },
            Err(e) => {
                if self.writer.jobs.failed(id) {
                    self.standing.log_failed(format!("the log could not be written: {e}"));
                } else {
                    self.note_refused_discard(e.to_string());
                }
            }
        }
    }

    fn durable(&self) -> Ticket {
        self.writer.jobs.durable()
    }

    fn is_drained(&self) -> bool {
        self.writer.jobs.is_idle()
    }

    /// Damage that it cannot go around makes the volume read-only.
    fn step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.background_step(now, pressed)
    }

    fn pressure(&self) -> Pressure {
        self.work_pressure()
    }

    fn note_request(&mut self, now: TimeNs) {
        self.note_user(now);
    }

    fn due_in_ms(&self, now: TimeNs) -> u64 {
        self.work_due_in_ms(now)
    }

    fn gives_way(&self, now: TimeNs) -> bool {
        self.gives_way_to_users(now)
    }

    fn holds_commit(&self, scope: Scope) -> bool {
        self.is_point(scope) && self.writer.jobs.checkpoint_under_way()
    }

    fn shrink_caches(&mut self) {
        self.shrink_memory();
    }

    fn broken(&self) -> Option<&str> {
        // A volume that was found damaged when it was opened has accepted nothing.
        self.read_only().filter(|_| !self.options.read_only && self.recovered.lost.is_none())
    }

    fn close(&mut self, now: TimeNs) -> Outcome<()> {
        self.clean_checkpoint(now)
    }
}

impl Lfs {
    fn supply_block(&mut self, key: BlockKey, ptr: BlockPtr, bytes: &[u8]) {
        let level = u32::from(key.level);
        let current = match key.ino {
            InodeNo::INODE_MAP => self.tables.imap.table.peek_ptr(&self.shelf, level, key.index.0),
            InodeNo::SEGMENT_USAGE => self.tables.usage.table.peek_ptr(&self.shelf, level, key.index.0),
            _ => self.peek_ptr(&key),
        };
        // What a point has never changes, wherever it is.
        let is_moved = |now: &BlockPtr| {
            self.views.has(key.ino) || now.birth == ptr.birth && self.tables.branches.is_shared(key.ino, now)
        };
        let is_current = current.is_some_and(|now| now == ptr || is_moved(&now));
        if is_current && self.shelf.cache.peek(&key).is_none() {
            let buf: Buf = padded(bytes, self.geo.block_bytes);
            self.shelf.cache.insert_clean(key, buf);
        }
    }

    fn supply_inode(&mut self, ino: InodeNo, ptr: BlockPtr, bytes: &[u8]) -> Result<(), FsError> {
        let entry = self.tables.imap.get(&mut self.shelf, ino);
        if let Ok(entry) = entry
            && entry.ptr == ptr
            && !self.files.has(ino)
        {
            let core = CoreInode::decode(ino, &entry, bytes, &self.geo)?;
            self.files.insert(ino, core);
            self.upkeep.coalescing.seams.note_fetched(ino);
        }
        Ok(())
    }

    fn checkpoint_durable(&mut self, epoch: Epoch) {
        self.accounts.counters.checkpoints += 1;
        if let Some(again) = self.tables.slots.landed(epoch) {
            self.push_checkpoint(&again);
            return;
        }
        self.writer.jobs.release_partials();
        self.discard_emptied(epoch);
        self.settle_growth(epoch);
    }
}
