//! `FileDevice`: an image file or a raw block device, with O_DIRECT where the system allows it.
//!
//! * A single read runs on the thread that calls `wait`; several that one thread has submitted run together, see `reads`.
//! * Flushes and discards run on the thread that calls `wait`; `submit` only stores them.
//! * Writes start at once on a small pool of threads ([`FileOptions::writer_threads`]), so that several segments are
//!   written at a time. A thread that waits for a write that no pool thread has begun does it itself: a lone small write,
//!   such as an fsync makes, need not wait for a thread to wake.
//! * A flush is fdatasync(2). It runs in `wait` and blocks no other request: it covers the writes that completed before
//!   it, as the [`Device`] contract says, and does not wait for others that are still under way.
//! * A read into several buffers is one call (preadv), on the calling thread; see `long_reads`.
//! * A write in pieces is one call (pwritev; more calls beyond 1024 pieces), without a copy, if each piece lies on the device's logical blocks as O_DIRECT demands.
//! * Transfers that come back short are continued until the system reports a reason; the end of a truncated file is an
//!   error that names the place.
//!
//! `open` opens and locks the file and finds its sizes, `reads` and `writers` carry requests out, `long_reads` says when long ones go to the device, `rotational` says whether the
//! disk has a head.
//!
//! Callers: `firn` and every adapter, through [`FileDevice::open`] and [`FileDevice::create`].

mod long_reads;
mod open;
mod reads;
mod rotational;
mod writers;

pub use open::{Access, DirectIo, FileOptions, Lock, OpenError};
pub use reads::DeepReads;

use crate::buffer::AlignedBuf;
use crate::device::{Device, deal_out};
use crate::error::{DeviceError, FailureKind};
use crate::own_reads::OwnReads;
use crate::request::{Completion, Geometry, Request, Tag};
use crate::write_data::WriteData;
use long_reads::LongReads;
use reads::Reads;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use writers::Writers;

/// See the module's head.
pub struct FileDevice {
    target: Arc<Target>,
    /// Their tags are odd; those of `writers` are even.
    reads: Reads,
    long_reads: LongReads,
    writers: Writers,
    buffered_because: Option<String>,
}

/// The open file and its properties; shared with the threads and rings.
pub(crate) struct Target {
    file: File,
    name: Arc<str>,
    geometry: Geometry,
    /// The size now; `geometry` has the one at the opening.
    size_bytes: AtomicU64,
    is_block_device: bool,
    read_only: bool,
    /// The lock that was taken when it was opened.
    lock: Lock,
    /// Held open only to keep the kernel from using a block device.
    _claim: Option<File>,
}

impl FileDevice {
    /// Opens an image file or a block device that exists.
    ///
    /// # Errors
    /// [`OpenError`], for example if another process holds the lock.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        Ok(Self::start(open::open(path, options)?, options))
    }

    /// Makes a sparse image file of `size_bytes` (a multiple of 512) and opens it.
    ///
    /// # Errors
    /// [`OpenError::Exists`] if the name is taken, and those of [`FileDevice::open`].
    pub fn create(path: &Path, size_bytes: u64, options: &FileOptions) -> Result<Self, OpenError> {
        Ok(Self::start(open::create(path, size_bytes, options)?, options))
    }

    /// Why O_DIRECT is not in use although it was asked for; `None` if it is in use or was not wanted.
    #[must_use]
    pub fn buffered_because(&self) -> Option<&str> {
        self.buffered_because.as_deref()
    }

    /// How several reads at a time are carried out now; see [`FileOptions::deep_reads`]. The device falls back to the
    /// next method at the first such reads if the system refuses.
    #[must_use]
    pub fn deep_reads(&self) -> DeepReads {
        self.reads.deep()
    }

    /// Whether the device that holds the file, or the block device, has a head that moves; `None` if the kernel does not
    /// say. Virtual disks often claim to have one.
    #[must_use]
    pub fn is_rotational(&self) -> Option<bool> {
        rotational::ask(&self.target.file)
    }

    fn start(opened: open::Opened, options: &FileOptions) -> Self {
        let target = Arc::new(opened.target);
        let threads = if target.read_only { 0 } else { options.writer_threads };
        let writers = Writers::start(target.clone(), threads);
        let reads = Reads::new(target.clone(), options.deep_reads);
        let buffered_because = opened.buffered_because;
        Self { target, reads, long_reads: LongReads::default(), writers, buffered_because }
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.target.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        match request {
            Request::Read { .. } => Tag(self.reads.submit(request).0 << 1 | 1),
            _ => Tag(self.writers.submit(request).0 << 1),
        }
    }
    fn start_reads(&self) {
        self.reads.start();
    }
    fn wait(&self, tag: Tag) -> Completion {
        let lower = Tag(tag.0 >> 1);
        if tag.0 & 1 == 1 { self.reads.wait(lower) } else { self.writers.wait(lower) }
    }
    fn read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, DeviceError> {
        let request = Request::Read { at_bytes, len_bytes };
        self.target.geometry().check(&request, &self.target.name)?;
        self.target.read(&request)
    }
    fn read_parts(&self, at_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let len_bytes = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        let request = Request::Read { at_bytes, len_bytes };
        self.target.geometry().check(&request, &self.target.name)?;
        let _under_way = self.long_reads.begin(len_bytes.into());
        self.target.read_slices(&request, parts)
    }
    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        self.reads.own()
    }
    fn describe(&self) -> Arc<str> {
        self.target.name.clone()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        open::prove_lock(&self.target)
    }
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.target.grow(size_bytes)
    }
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.target.cut(size_bytes)
    }
}

impl Target {
    /// Sizes as they are now.
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes.load(Ordering::Acquire), ..self.geometry }
    }

    /// A file grows by a hole at its end. A block device is asked how large it is now.
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let refused = |e: std::io::Error| DeviceError::growth_refused(size_bytes, self.name.clone(), &e);
        let block_bytes = u64::from(self.geometry.logical_block_bytes);
        let wanted_bytes = size_bytes.next_multiple_of(block_bytes);
        let mut has_bytes = (&self.file).seek(SeekFrom::End(0)).map_err(refused)?;
        if has_bytes < wanted_bytes && !self.is_block_device {
            self.file.set_len(wanted_bytes).and_then(|()| self.file.sync_all()).map_err(refused)?;
            has_bytes = wanted_bytes;
        }
        self.size_bytes.fetch_max(has_bytes / block_bytes * block_bytes, Ordering::AcqRel);
        if self.geometry().size_bytes < size_bytes {
            let reason = format!("it has {has_bytes} bytes; make the device larger first");
            return Err(DeviceError::of_growth(size_bytes, self.name.clone(), reason));
        }
        Ok(())
    }

    /// A file loses its end; a block device keeps its size.
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let refused = |e: std::io::Error| DeviceError::cut_refused(size_bytes, self.name.clone(), &e);
        let wanted_bytes = size_bytes.next_multiple_of(u64::from(self.geometry.logical_block_bytes));
        if self.is_block_device || wanted_bytes >= self.geometry().size_bytes {
            return Ok(());
        }
        self.file.set_len(wanted_bytes).and_then(|()| self.file.sync_all()).map_err(refused)?;
        self.size_bytes.store(wanted_bytes, Ordering::Release);
        Ok(())
    }

    /// Carries out a request on this thread.
    pub(crate) fn run(&self, request: &Request) -> Completion {
        self.geometry().check(request, &self.name)?;
        match request {
            Request::Read { .. } => self.read(request).map(Some),
            Request::Flush => self.flush(request).map(|()| None),
            _ if self.read_only => {
                Err(self.failure(request, FailureKind::ReadOnly, "opened for reading only"))
            }
            Request::Write { at_bytes, data } => self.write_all(request, *at_bytes, data).map(|()| None),
            Request::Discard { at_bytes, len_bytes } => {
                self.discard(request, *at_bytes, *len_bytes).map(|()| None)
            }
        }
    }

    /// Carries out a read that has been checked.
    fn read(&self, request: &Request) -> Result<AlignedBuf, DeviceError> {
        let mut buf = AlignedBuf::to_read_into(request.len_bytes() as usize);
        self.read_rest(request, &mut buf, 0)?;
        Ok(buf)
    }

    /// Continues a read whose first `done` bytes are in `out`.
    fn read_rest(&self, request: &Request, out: &mut [u8], mut done: usize) -> Result<(), DeviceError> {
        while done < out.len() {
            let at = request.at_bytes() + done as u64;
            match self.file.read_at(&mut out[done..], at) {
                Ok(0) => {
                    let reason = format!("the file ends at byte {at}: it was truncated");
                    return Err(self.failure(request, FailureKind::Io, reason));
                }
                Ok(count) => done += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(DeviceError::system(request, self.name.clone(), &e)),
            }
        }
        Ok(())
    }

    /// Carries out a read that has been checked, into slices one behind the other. They need not be aligned.
    fn read_slices(&self, request: &Request, slices: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let unit_bytes = self.geometry.logical_block_bytes as usize;
        let is_aligned = |slice: &IoSliceMut<'_>| {
            slice.as_ptr().align_offset(unit_bytes) == 0 && slice.len().is_multiple_of(unit_bytes)
        };
        if !slices.iter().all(is_aligned) {
            deal_out(&self.read(request)?, slices);
            return Ok(());
        }
        let (mut done, mut rest) = (0, slices);
        while !rest.is_empty() {
            let at_bytes = request.at_bytes() + done;
            match rustix::io::preadv(&self.file, rest, at_bytes) {
                Ok(0) => {
                    let reason = format!("the file ends at byte {at_bytes}: it was truncated");
                    return Err(self.failure(request, FailureKind::Io, reason));
                }
                Ok(count) => {
                    done += count as u64;
                    IoSliceMut::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.system_failure(request, e)),
            }
        }
        Ok(())
    }

    fn write_all(&self, request: &Request, at_bytes: u64, data: &WriteData) -> Result<(), DeviceError> {
        let unit_bytes = self.geometry.logical_block_bytes as usize;
        match data {
            WriteData::Pieces(pieces) if pieces.are_aligned(unit_bytes) => {
                let all: Vec<IoSlice<'_>> = pieces.iter().map(IoSlice::new).collect();
                self.write_slices(request, at_bytes, all)
            }
            _ => self.write_slices(request, at_bytes, vec![IoSlice::new(&data.whole())]),
        }
    }

    /// Writes slices one behind the other.
    fn write_slices(
        &self,
        request: &Request,
        at_bytes: u64,
        mut slices: Vec<IoSlice<'_>>,
    ) -> Result<(), DeviceError> {
        let (mut done, mut rest) = (0, &mut slices[..]);
        while !rest.is_empty() {
            // Of more slices than the system takes, rustix hands over as many as it does.
            match rustix::io::pwritev(&self.file, rest, at_bytes + done) {
                Ok(0) => {
                    let reason = format!("only {done} of {} bytes were taken", request.len_bytes());
                    return Err(self.failure(request, FailureKind::Io, reason));
                }
                Ok(count) => {
                    done += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.system_failure(request, e)),
            }
        }
        Ok(())
    }

    fn flush(&self, request: &Request) -> Result<(), DeviceError> {
        rustix::fs::fdatasync(&self.file)
            .map_err(|e| DeviceError::system(request, self.name.clone(), &e.into()))
    }

    /// Punches a hole. On a block device the kernel turns that into a discard that zeroes (or refuses it).
    fn discard(&self, request: &Request, at_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, at_bytes, len_bytes)
            .map_err(|e| DeviceError::system(request, self.name.clone(), &e.into()))
    }

    fn system_failure(&self, request: &Request, error: Errno) -> DeviceError {
        DeviceError::system(request, self.name.clone(), &error.into())
    }

    fn failure(&self, request: &Request, kind: FailureKind, reason: impl Into<String>) -> DeviceError {
        DeviceError::of(request, kind, self.name.clone(), reason)
    }
}
