//! Reading the device: aligned, coalesced, with read-ahead along the log.
//!
//! What was written together lies together in the log, so small reads close to each other are served from *windows*: a
//! stretch of the log read at once. A window may be older than the log (its segment was written again); the checksum in
//! every pointer tells, and then the device is asked.

use crate::sync::Mutex;
use firnfs::lfs::{Geometry, verify_stored};
use firnfs::store::{Fork, Piece, ReadPlan};
use firnfs::{Fetch, FetchKind, FsError};
use firnfs_device::{AlignedBuf, Device};
use firnfs_format::BlockPtr;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Length of a window in bytes, unless [`Reader::set_window`] says otherwise: the indirect blocks of 64 MiB of content, and what lies between them.
const WINDOW_BYTES: u64 = 320 << 10;
/// Windows kept.
const WINDOWS: usize = 16;
/// Reads at least this long are not worth a window.
const LARGE_BYTES: u64 = 64 << 10;
/// Longest single read of file data.
const READ_MAX_BYTES: u64 = 1 << 20;

/// Where what is read next is likely to lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Behind,
    /// The log has what a block refers to before the block.
    Before,
    /// Nodes of a directory's index are written together and looked for in any order.
    Around,
}

struct Window {
    at_bytes: u64,
    data: Arc<AlignedBuf>,
}

#[derive(Default)]
struct Ahead {
    /// Those used last at the end: one of a directory outlives those of its files that come and go.
    windows: VecDeque<Window>,
    /// Ends of recent small reads: another one close behind is a sequence.
    recent: VecDeque<u64>,
}

/// See the module's head.
pub struct Reader {
    device: Arc<dyn Device>,
    geo: Geometry,
    unit_bytes: u64,
    size_bytes: u64,
    ahead: Mutex<Ahead>,
    window_bytes: AtomicU64,
    before_blocking: Arc<OnceLock<fn()>>,
}

impl Reader {
    /// Reads `device` for a store of that geometry. `before_blocking`, once set, is called before each wait.
    pub fn new(device: Arc<dyn Device>, geo: Geometry, before_blocking: Arc<OnceLock<fn()>>) -> Self {
        let shape = device.geometry();
        let unit_bytes = u64::from(shape.logical_block_bytes.max(512));
        Self {
            device,
            geo,
            unit_bytes,
            size_bytes: shape.size_bytes,
            ahead: Mutex::default(),
            window_bytes: AtomicU64::new(WINDOW_BYTES),
            before_blocking,
        }
    }

    /// Reads ahead by so many bytes: where nothing has to move to what is read, less is enough.
    pub fn set_window(&self, window_bytes: u64) {
        self.window_bytes.store(window_bytes, Ordering::Relaxed);
    }

    fn device_read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, FsError> {
        if let Some(hook) = self.before_blocking.get() {
            hook();
        }
        self.device.read(at_bytes, len_bytes).map_err(|e| FsError::Io(e.to_string()))
    }

    /// Reads what the core asked for and verifies it.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn fetch(&self, fetch: &Fetch) -> Result<Vec<u8>, FsError> {
        let (at, len) = (fetch.at_bytes, u64::from(fetch.len_bytes));
        let next = match fetch.what {
            FetchKind::Block(key, _) if key.level >= 2 => Next::Before,
            FetchKind::Block(key, _) if key.fork == Fork::Index => Next::Around,
            _ => Next::Behind,
        };
        if len < LARGE_BYTES
            && let Some(bytes) = self.windowed(at, len, next)
            && firnfs::lfs::verify(&fetch.what, &self.geo, &bytes).is_ok()
        {
            return Ok(bytes);
        }
        let bytes = self.exact(at, len)?;
        firnfs::lfs::verify(&fetch.what, &self.geo, &bytes)?;
        Ok(bytes)
    }

    /// Small reads in sequence: from a window, read now if this continues a sequence.
    fn windowed(&self, at: u64, len: u64, next: Next) -> Option<Vec<u8>> {
        let inside = |w: &Window| at >= w.at_bytes && at + len <= w.at_bytes + w.data.len() as u64;
        let cut = |w: &Window| {
            let from = (at - w.at_bytes) as usize;
            w.data[from..from + len as usize].to_vec()
        };
        {
            let mut ahead = self.ahead.lock();
            if let Some(found) = ahead.windows.iter().position(inside) {
                let window = ahead.windows.remove(found)?;
                let bytes = cut(&window);
                ahead.windows.push_back(window);
                return Some(bytes);
            }
            let close = |&end: &u64| at.abs_diff(end) <= self.window_bytes.load(Ordering::Relaxed);
            // What begins in a window and ends behind it, or begins where one ends, goes on with its sequence.
            let goes_on = |w: &Window| (w.at_bytes..=w.at_bytes + w.data.len() as u64).contains(&at);
            let in_sequence = ahead.recent.iter().any(close) || ahead.windows.iter().any(goes_on);
            if ahead.recent.len() >= 8 {
                ahead.recent.pop_front();
            }
            ahead.recent.push_back(at + len);
            if !in_sequence {
                return None;
            }
        }
        let (start, window_len) = self.window_around(at, len, next);
        let data = Arc::new(self.device_read(start, window_len as u32).ok()?);
        let window = Window { at_bytes: start, data };
        let bytes = inside(&window).then(|| cut(&window));
        let mut ahead = self.ahead.lock();
        if ahead.windows.len() >= WINDOWS {
            ahead.windows.pop_front();
        }
        ahead.windows.push_back(window);
        bytes
    }

    /// Start and length of a window with that range in it, in bytes.
    fn window_around(&self, at: u64, len: u64, next: Next) -> (u64, u64) {
        let window_len = self.window_bytes.load(Ordering::Relaxed).max(len + 4096);
        let start = match next {
            // No further back than it must: the head is where the read before ended.
            Next::Behind => at,
            Next::Around => at.saturating_sub(window_len / 2),
            Next::Before => (at + len).next_multiple_of(self.unit_bytes).saturating_sub(window_len),
        };
        let start = start / self.unit_bytes * self.unit_bytes;
        (start, window_len.min(self.size_bytes - start) / self.unit_bytes * self.unit_bytes)
    }

    /// Exactly that range, aligned outwards to the device's blocks.
    ///
    /// # Errors
    /// `Io`.
    pub fn exact(&self, at: u64, len: u64) -> Result<Vec<u8>, FsError> {
        let start = at / self.unit_bytes * self.unit_bytes;
        let end = (at + len).next_multiple_of(self.unit_bytes);
        if start == at && end == at + len {
            if let Some(hook) = self.before_blocking.get() {
                hook();
            }
            let mut bytes = vec![0; len as usize];
            self.device.read_into(at, &mut bytes).map_err(|e| FsError::Io(e.to_string()))?;
            return Ok(bytes);
        }
        let data = self.device_read(start, (end - start) as u32)?;
        let from = (at - start) as usize;
        Ok(data[from..from + len as usize].to_vec())
    }

    /// Carries out a read plan: stretches that lie together on the device are read at once. Every block is verified.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn carry_out(&self, plan: &ReadPlan, out: &mut [u8]) -> Result<(), FsError> {
        let mut done = 0;
        let mut at = 0;
        while at < plan.pieces.len() {
            let run = run_length(&plan.pieces[at..]);
            let pieces = &plan.pieces[at..at + run.max(1)];
            let len: usize = pieces.iter().map(Piece::len_bytes).sum();
            self.read_run(pieces, &mut out[done..done + len])?;
            done += len;
            at += run.max(1);
        }
        Ok(())
    }

    /// Carries out a plan of a store without a device.
    ///
    /// # Errors
    /// `Io` if the plan refers to one nevertheless.
    pub fn from_memory(plan: &ReadPlan, out: &mut [u8]) -> Result<(), FsError> {
        let mut done = 0;
        for piece in &plan.pieces {
            let part = &mut out[done..done + piece.len_bytes()];
            if !copy_memory(piece, part) {
                return Err(FsError::Io("the store has no device".to_owned()));
            }
            done += part.len();
        }
        Ok(())
    }

    fn read_run(&self, pieces: &[Piece], out: &mut [u8]) -> Result<(), FsError> {
        let Piece::Stored { at_bytes: start, .. } = pieces[0] else {
            copy_memory(&pieces[0], out);
            return Ok(());
        };
        let len: u64 = pieces.iter().filter_map(stored).map(|(ptr, _)| u64::from(ptr.stored_bytes())).sum();
        if len < LARGE_BYTES
            && let Some(bytes) = self.windowed(start, len, Next::Behind)
            && self.copy_out(pieces, start, &bytes, out).is_ok()
        {
            return Ok(());
        }
        if len >= LARGE_BYTES
            && let Some((pieces_done, bytes_done)) = self.begin_in_window(pieces, start, out)
        {
            // The head is behind the window: reading its part again would send it back.
            let rest = &pieces[pieces_done..];
            return if rest.is_empty() { Ok(()) } else { self.read_run(rest, &mut out[bytes_done..]) };
        }
        let unit_start = start / self.unit_bytes * self.unit_bytes;
        let unit_end = (start + len).next_multiple_of(self.unit_bytes);
        let data = self.device_read(unit_start, (unit_end - unit_start) as u32)?;
        self.copy_out(pieces, unit_start, &data, out)
    }

    /// Serves the first blocks of a run from the window that they are in; returns how many they are, and their bytes.
    fn begin_in_window(&self, pieces: &[Piece], start: u64, out: &mut [u8]) -> Option<(usize, usize)> {
        let (at_bytes, data) = {
            let ahead = self.ahead.lock();
            let window = ahead
                .windows
                .iter()
                .rev()
                .find(|w| (w.at_bytes..w.at_bytes + w.data.len() as u64).contains(&start))?;
            (window.at_bytes, window.data.clone())
        };
        let end = at_bytes + data.len() as u64;
        let is_inside =
            |piece: &&Piece| stored(piece).is_some_and(|(ptr, at)| at + u64::from(ptr.stored_bytes()) <= end);
        let inside = &pieces[..pieces.iter().take_while(is_inside).count()];
        let len_bytes: usize = inside.iter().map(Piece::len_bytes).sum();
        let copied = self.copy_out(inside, at_bytes, &data, &mut out[..len_bytes]);
        (!inside.is_empty() && copied.is_ok()).then_some((inside.len(), len_bytes))
    }

    /// Verifies the blocks of a run in `bytes`, which start at `from` on the device, and copies what was asked for.
    fn copy_out(&self, pieces: &[Piece], from: u64, bytes: &[u8], out: &mut [u8]) -> Result<(), FsError> {
        let mut done = 0;
        for piece in pieces {
            let Piece::Stored { key, ptr, at_bytes, start, len_bytes } = piece else { continue };
            let at = (at_bytes - from) as usize;
            let block = &bytes[at..at + ptr.stored_bytes() as usize];
            verify_stored(ptr, &self.geo, block, || format!("inode {} block {}", key.ino, key.index))?;
            let target = &mut out[done..done + len_bytes];
            // What lies beyond the stored length is zero.
            let tail = block.get(*start..).unwrap_or(&[]);
            let have = tail.len().min(*len_bytes);
            target[..have].copy_from_slice(&tail[..have]);
            target[have..].fill(0);
            done += len_bytes;
        }
        Ok(())
    }
}

/// Copies a stretch that is not on the device; false if it is.
fn copy_memory(piece: &Piece, out: &mut [u8]) -> bool {
    match piece {
        Piece::Zeros { .. } => out.fill(0),
        Piece::Memory { buf, start, len_bytes } => out.copy_from_slice(&buf[*start..*start + *len_bytes]),
        Piece::Stored { .. } => return false,
    }
    true
}

fn stored(piece: &Piece) -> Option<(&BlockPtr, u64)> {
    match piece {
        Piece::Stored { ptr, at_bytes, .. } => Some((ptr, *at_bytes)),
        _ => None,
    }
}

/// How many pieces from the first on lie one behind the other on the device; 0 if the first is not on the device.
fn run_length(pieces: &[Piece]) -> usize {
    let Some((first, start)) = pieces.first().and_then(stored) else { return 0 };
    let mut end = start + u64::from(first.stored_bytes());
    let mut run = 1;
    while let Some((ptr, at)) = pieces.get(run).and_then(stored)
        && at == end
        && end - start < READ_MAX_BYTES
    {
        end += u64::from(ptr.stored_bytes());
        run += 1;
    }
    run
}
