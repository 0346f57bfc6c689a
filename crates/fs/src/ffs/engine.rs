//! The seam towards the driver: fetched bytes to the caches, finished jobs to the writes; freed places to the groups.

use super::Ffs;
use super::wanted::Wanted;
use super::writes::Subject;
use crate::engine::{Engine, Job, JobId, Pressure, Step};
use crate::error::{FsError, Outcome};
use crate::fetch::{Fetched, Token};
use crate::store::{Buf, Ticket};
use firnfs_device::DeviceError;
use firnfs_format::TimeNs;

impl Engine for Ffs {
    /// Drops bytes that a write may have made stale: the operation that needs them requests them again.
    fn supply(&mut self, token: &Token, bytes: &Fetched) -> Result<(), FsError> {
        let (wanted, stamp) = Wanted::of(token);
        let addr = match wanted {
            Wanted::Blocks { addr, .. } | Wanted::Detached(addr) => addr,
            Wanted::InodeBlock(number) => self.geo.inode_block_addr(number),
            Wanted::Group(number) => self.geo.descriptor_addr(number),
        };
        if self.writes.is_stale(stamp, self.geo.device_bytes(addr), bytes.len() as u64) {
            return Ok(());
        }
        match wanted {
            Wanted::Blocks { key, addr } => self.supply_blocks(&key, addr, bytes),
            Wanted::InodeBlock(number) => self.inode_blocks.insert(number, Buf::from(&**bytes)),
            Wanted::Group(number) if !self.groups.is_loaded(number) => self.supply_group(number, bytes)?,
            Wanted::Group(_) => {}
            Wanted::Detached(addr) => self.releases.supply(addr, Buf::from(&**bytes)),
        }
        Ok(())
    }

    /// A block that was fetched with the ones after it is fetched alone before its error counts: one of the others may be bad.
    fn fetch_failed(&mut self, token: &Token, error: FsError) -> Result<(), FsError> {
        match Wanted::of(token).0 {
            Wanted::Blocks { key, .. } if self.is_first_failure(&key) => Ok(()),
            _ => Err(error),
        }
    }

    fn next_job(&mut self) -> Option<Job> {
        self.writes.next()
    }

    /// A failed write or flush turns the volume read-only.
    fn job_done(&mut self, id: JobId, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            self.writes.failed(id);
            self.damaged(format!("the volume could not be written: {error}"));
            return;
        }
        let finished = self.writes.done(id);
        if let Some((write, subjects)) = finished.landed {
            for subject in subjects {
                match subject {
                    Subject::Block(key) => self.cache.landed(&key, write),
                    Subject::InodeBlock(number) => self.inode_blocks.landed(number, write),
                    Subject::Group(number) => self.groups.written(number, write),
                }
            }
        }
        self.releases.push(finished.freed);
        self.release_ready();
    }

    fn durable(&self) -> Ticket {
        Ticket(self.writes.durable().0)
    }

    fn is_drained(&self) -> bool {
        self.writes.is_idle()
    }

    fn step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.background_step(now, pressed)
    }

    fn pressure(&self) -> Pressure {
        // 4.4BSD started the write of a full cluster at once (`cluster_write`).
        let is_due = self.is_work_due() || self.writes.wants_start();
        if is_due { Pressure::Due } else { Pressure::None }
    }

    fn due_in_ms(&self, now: TimeNs) -> u64 {
        self.due_in(now)
    }

    fn shrink_caches(&mut self) {
        self.shrink_memory();
    }

    fn broken(&self) -> Option<&str> {
        self.standing.read_only.as_deref().filter(|_| self.standing.is_broken)
    }

    fn close(&mut self, now: TimeNs) -> Outcome<()> {
        self.close_volume(now)
    }
}
