//! The core without the driver: a program that does the I/O itself, in its own way and at its own time.
//!
//! `firnfs` blocks on nothing. An operation either completes or returns the blocks that have to be read; its writes come
//! out as jobs. This program has one thread and calls a device in between; an event loop would do the same with its own
//! requests. `firnfs_volume::Volume` does this for several threads. Run it with `cargo run -p firnfs-manage --example
//! sans_io`; `cargo test` runs it too.

use firnfs::engine::{Engine, Step, Verify};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options, mkfs, read_superblock};
use firnfs::store::{Piece, Scope, Store};
use firnfs::vfs::{AtimeMode, Caller, NewNode, Vfs};
use firnfs::{Fetch, FsError, Outcome, Stop};
use firnfs_device::{AlignedBuf, Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use std::error::Error;
use std::sync::Arc;

const SIZE_BYTES: u64 = 64 << 20;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn device_failed(e: impl ToString) -> FsError {
    FsError::Io(e.to_string())
}

/// The core, the device, and the time, which this program invents.
struct Driver {
    vfs: Vfs<Lfs>,
    verifier: Arc<dyn Verify>,
    device: MemDevice,
    now: TimeNs,
}

impl Driver {
    /// Opening reads through a closure: superblock, checkpoint, the log's tail.
    fn open(device: MemDevice, now: TimeNs) -> Result<Self, Box<dyn Error>> {
        let mut read = |at_bytes, len_bytes| read_range(&device, at_bytes, len_bytes);
        let superblock = read_superblock(&mut read, SIZE_BYTES)?;
        let lfs = Lfs::open(&mut read, superblock, Options::default(), now)?;
        let verifier = lfs.verifier();
        Ok(Self { vfs: Vfs::new(lfs, AtimeMode::Relatime), verifier, device, now })
    }

    /// Calls an operation until it completes.
    fn run<T>(&mut self, mut op: impl FnMut(&mut Vfs<Lfs>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        loop {
            match op(&mut self.vfs, self.now) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
                Err(Stop::Room) => self.step(true)?,
            }
        }
    }

    /// Reads the blocks that the core requested, verifies them, and supplies them.
    fn fetch(&mut self, fetches: &[Fetch]) -> Result<(), FsError> {
        for fetch in fetches {
            let bytes = read_range(&self.device, fetch.at_bytes, fetch.len_bytes)?;
            self.verifier.verify(&fetch.token, &bytes)?;
            self.vfs.store_mut().supply(&fetch.token, &bytes.into())?;
        }
        Ok(())
    }

    /// One step of background work: commits, checkpoints, cleaning.
    fn step(&mut self, pressed: bool) -> Result<(), FsError> {
        let step = self.vfs.store_mut().step(self.now, pressed);
        match step {
            Ok(Step::Stuck) => return Err(FsError::NoSpace),
            Ok(_) | Err(Stop::Room) => {}
            Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
            Err(Stop::Fail(e)) => return Err(e),
        }
        self.carry_out_jobs();
        Ok(())
    }

    /// Writes, flushes and discards: in the order in which they come, any number at a time.
    fn carry_out_jobs(&mut self) {
        while let Some(job) = self.vfs.store_mut().next_job() {
            let tag = self.device.submit(job.request());
            let result = self.device.wait(tag).map(drop);
            self.vfs.store_mut().job_done(job.id, result);
        }
    }

    /// Reads a range of a file according to its plan: from memory, from the device, or zeros.
    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        let plan = self.run(|vfs, now| vfs.read(now, ino, at_bytes, len_bytes))?;
        let mut out = Vec::with_capacity(plan.len_bytes());
        for piece in &plan.pieces {
            let end = out.len() + piece.len_bytes();
            match piece {
                Piece::Zeros { .. } => {}
                Piece::Memory { buf, start, len_bytes } => {
                    out.extend_from_slice(&buf[*start..*start + *len_bytes]);
                }
                Piece::Stored { token, at_bytes, stored_bytes, start, len_bytes } => {
                    let stored = read_range(&self.device, *at_bytes, *stored_bytes)?;
                    self.verifier.verify(token, &stored)?;
                    let stop = stored.len().min(start + len_bytes);
                    out.extend_from_slice(stored.get(*start..stop).unwrap_or(&[]));
                }
            }
            // Bytes beyond the stored length of a block are zero.
            out.resize(end, 0);
        }
        self.vfs.store_mut().unpin(plan.pin);
        Ok(out)
    }

    /// Makes everything durable: the commit returns a ticket, and jobs are carried out until it is durable.
    fn sync(&mut self) -> Result<(), FsError> {
        let ticket = self.run(|vfs, now| vfs.commit(now, Scope::All))?;
        while self.vfs.store().durable() < ticket {
            self.carry_out_jobs();
            if let Some(why) = self.vfs.store().read_only() {
                return Err(FsError::ReadOnly(why.to_owned()));
            }
        }
        Ok(())
    }
}

/// A range of any length and place: the device wants whole sectors.
fn read_range(device: &MemDevice, at_bytes: u64, len_bytes: u32) -> Result<Vec<u8>, FsError> {
    let start = at_bytes / 512 * 512;
    let end = (at_bytes + u64::from(len_bytes)).next_multiple_of(512);
    let data = device.read(start, (end - start) as u32).map_err(device_failed)?;
    let from = (at_bytes - start) as usize;
    Ok(data[from..from + len_bytes as usize].to_vec())
}

fn empty_volume() -> Result<MemDevice, FsError> {
    let device = MemDevice::new(SIZE_BYTES);
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: *b"sans-I/O example",
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    for (at_bytes, bytes) in mkfs(&options)? {
        device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&bytes))).map_err(device_failed)?;
    }
    Ok(device)
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = b"written by whoever owns the loop".repeat(1000);
    let mut driver = Driver::open(empty_volume()?, TimeNs(1_000_000_000))?;
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let ino = driver.run(|vfs, now| vfs.make(now, CALLER, InodeNo::ROOT, b"file", node, false))?.ino;
    let mut done = 0;
    while done < text.len() {
        done += driver.run(|vfs, now| vfs.write(now, ino, done as u64, &text[done..], false))?;
    }
    driver.sync()?;

    // No clean unmount: the next mount rolls forward through the log.
    let image = driver.device.image();
    let mut driver = Driver::open(MemDevice::from_image(image), TimeNs(2_000_000_000))?;
    let ino = driver.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"file", false))?.ino;
    let found = driver.read(ino, 0, text.len() as u64)?;
    if found != text {
        return Err("read back something else".into());
    }
    println!("{} bytes read back; roll-forward: {:?}", found.len(), driver.vfs.store().recovered());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_reads_back_what_it_wrote() {
        super::main().unwrap();
    }
}
