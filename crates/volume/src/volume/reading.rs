//! Reads of content: into the caller's memory, or left where the bytes lie; and reads of the device by a caller that serves others meanwhile.
//!
//! A read is planned under the lock and carried out outside of it. Invariant: what a plan pins is given back once the read has ended, whatever
//! became of it.
//!
//! Callers: adapters, and programs that embed the library.

use super::Volume;
use crate::never_waiting::{Landed, Missing};
use crate::scattered::Scattered;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs_device::{Completion, OwnReads};
use firnfs_format::InodeNo;

impl<S: Engine> Volume<S> {
    /// Reads that the calling thread starts and is told of; see [`firnfs_device::Device::own_reads`].
    #[must_use]
    pub fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        self.device.as_ref()?.own_reads()
    }

    /// Takes up what became of a read that an operation would have waited for, for the next [`attempt`](crate::attempt).
    /// `None` if it failed: an operation that may wait meets the error.
    #[must_use]
    pub fn landed(&self, missing: &Missing, completion: Completion) -> Option<Landed> {
        self.reader.landed(missing, completion)
    }

    /// Reads bytes of the device; does not verify them.
    ///
    /// # Errors
    /// `Io`.
    pub fn read_raw(&self, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        self.reader.exact(at_bytes, len_bytes)
    }

    /// Reads into `out`; returns how much (less than asked for only at the end of the file).
    ///
    /// # Errors
    /// `Corrupt`, `Io`, and those of `Vfs::read`.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError> {
        let mut done = 0;
        self.read_parts(ino, at_bytes, out.len(), &mut [], |part| {
            part.copy_to(&mut out[done..]);
            done += part.len_bytes();
        })?;
        Ok(done)
    }

    /// Reads so many bytes (fewer only at the end of the file), and leaves them where they lie in memory. Those that are only on the device
    /// may be read into `room`, if it is as long.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read_scattered(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        len_bytes: usize,
        room: &mut [u8],
    ) -> Result<Scattered, FsError> {
        let mut read = Scattered::default();
        self.read_parts(ino, at_bytes, len_bytes, room, |part| read.append(part))?;
        Ok(read)
    }

    /// Reads in parts, each as long as one plan covers.
    fn read_parts(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        len_bytes: usize,
        room: &mut [u8],
        mut take: impl FnMut(Scattered),
    ) -> Result<(), FsError> {
        let part_bytes = usize::try_from(self.facts.read_max_bytes).unwrap_or(usize::MAX);
        let mut done = 0_usize;
        loop {
            let wanted = part_bytes.min(len_bytes - done);
            let part = self.read_part(
                ino,
                at_bytes.saturating_add(done as u64),
                wanted as u64,
                room.get_mut(done..).unwrap_or_default(),
            )?;
            let have = part.len_bytes();
            take(part);
            done += have;
            // Reading nothing tells whether the file can be read.
            if have < wanted || done == len_bytes {
                return Ok(());
            }
        }
    }

    /// A read that one plan covers.
    fn read_part(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        len_bytes: u64,
        room: &mut [u8],
    ) -> Result<Scattered, FsError> {
        let plan = self.run(|vfs, now| {
            let plan = vfs.read(now, ino, at_bytes, len_bytes)?;
            if plan.pin != 0 {
                self.reading_begun();
            }
            Ok(plan)
        })?;
        let result = self.reader.carry_out(&plan, room);
        if plan.pin != 0 {
            let mut core = self.core.lock();
            let is_awaited = core.store_mut().unpin(plan.pin);
            self.reading_done(core, is_awaited);
        }
        result
    }
}
