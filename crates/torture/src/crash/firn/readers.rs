//! Slow readers: a read is planned at once, but its blocks are read from the disk only after everything else may have been
//! rewritten.

use super::OpenVolume;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::store::{Piece, ReadPlan};
use firnfs_device::Device;

/// A read under way.
pub(super) struct SlowRead {
    path: String,
    plan: ReadPlan,
    /// The planned blocks as they were when the read began.
    blocks: Vec<Vec<u8>>,
}

impl<S: Engine> OpenVolume<S> {
    /// Plans to read a whole file.
    pub(super) fn begin_read(&mut self, path: &str) -> Result<(), FsError> {
        let ino = self.find(path)?;
        let size_bytes = self.volume.run(|vfs, _| vfs.getattr(ino))?.size_bytes;
        let plan = self.volume.run(|vfs, now| vfs.read(now, ino, 0, size_bytes))?;
        let blocks = blocks_of(&plan, &*self.device)?;
        self.reads.push(SlowRead { path: path.to_owned(), plan, blocks });
        Ok(())
    }

    /// Reads the planned blocks, and releases them.
    pub(super) fn finish_reads(&mut self) -> Result<(), FsError> {
        for SlowRead { path, plan, blocks } in std::mem::take(&mut self.reads) {
            let found = blocks_of(&plan, &*self.device)?;
            self.volume.run(|vfs, _| {
                vfs.store_mut().unpin(plan.pin);
                Ok(())
            })?;
            if found != blocks {
                return Err(FsError::Io(format!("{path:?} was written over while it was read")));
            }
        }
        Ok(())
    }
}

/// The blocks that a plan reads from the disk.
fn blocks_of(plan: &ReadPlan, device: &dyn Device) -> Result<Vec<Vec<u8>>, FsError> {
    let stored = plan.pieces.iter().filter_map(|piece| match piece {
        Piece::Stored { at_bytes, stored_bytes, .. } => Some((*at_bytes, *stored_bytes)),
        _ => None,
    });
    let read = |(at_bytes, len_bytes)| device.read(at_bytes, len_bytes).map(|block| block.to_vec());
    stored.map(read).collect::<Result<_, _>>().map_err(|e| FsError::Io(e.to_string()))
}
