//! The requests that the core hands out, carried out by hand: slow discards, failing flushes.

use crate::common::{CALLER, START_NS, mount, new_device, pattern};
use firnfs::engine::Engine;
use firnfs::engine::{Job, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options, read_superblock};
use firnfs::store::content::{Content, ready_blocks};
use firnfs::store::{Piece, Scope, Store, Ticket};
use firnfs::vfs::{Allocate, AtimeMode, NewNode, Vfs};
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{Device, DeviceError, FailureKind, Request, WriteData};
use firnfs_format::{InodeNo, TimeNs};
use std::sync::Arc;

/// Carries out every request at once, except discards, which it holds until [`Hand::let_go`].
struct Hand {
    vfs: Vfs<Lfs>,
    device: Arc<dyn Device>,
    held: Vec<Job>,
    discarded: usize,
    fail_next_flush: bool,
}

const NOW: TimeNs = TimeNs(START_NS);

impl Hand {
    fn open(device: Arc<dyn Device>, options: Options) -> Self {
        let mut read = |at_bytes: u64, len_bytes: u32| {
            let data = device.read(at_bytes, len_bytes).map_err(|e| FsError::Io(e.to_string()))?;
            Ok(data.to_vec())
        };
        let sb = read_superblock(&mut read, device.geometry().size_bytes).unwrap();
        let lfs = Lfs::open(&mut read, sb, options, NOW).unwrap();
        let vfs = Vfs::new(lfs, AtimeMode::Noatime);
        let mut hand = Self { vfs, device, held: Vec::new(), discarded: 0, fail_next_flush: false };
        hand.pump();
        hand
    }

    fn pump(&mut self) {
        while let Some(job) = self.vfs.store_mut().next_job() {
            let request = job.request();
            if let Request::Discard { .. } = request {
                self.held.push(job);
                continue;
            }
            if let Request::Write { at_bytes, data } = &request {
                self.assert_no_discard_under_way(*at_bytes, data.len_bytes() as u64);
            }
            let failure =
                || DeviceError::of(&request, FailureKind::Io, Arc::from("test"), "the device failed");
            let fails = self.fail_next_flush && matches!(request, Request::Flush);
            self.fail_next_flush &= !fails;
            let result = if fails {
                Err(failure())
            } else {
                self.device.wait(self.device.submit(request.clone())).map(drop)
            };
            self.vfs.store_mut().job_done(job.id, result);
        }
    }

    fn assert_no_discard_under_way(&self, from: u64, len: u64) {
        for job in &self.held {
            let Request::Discard { at_bytes, len_bytes } = job.request() else { continue };
            let apart = from >= at_bytes + len_bytes || from + len <= at_bytes;
            assert!(apart, "bytes {from} are written while {at_bytes}..+{len_bytes} is being discarded");
        }
    }

    /// Completes the discards.
    fn let_go(&mut self) {
        for job in std::mem::take(&mut self.held) {
            self.device.wait(self.device.submit(job.request())).unwrap();
            self.vfs.store_mut().job_done(job.id, Ok(()));
            self.discarded += 1;
        }
    }

    fn run<T>(&mut self, mut op: impl FnMut(&mut Vfs<Lfs>) -> Outcome<T>) -> Result<T, FsError> {
        for round in 0..100_000 {
            let stop = match op(&mut self.vfs) {
                Ok(value) => {
                    self.pump();
                    return Ok(value);
                }
                Err(Stop::Room) => match self.vfs.store_mut().step(NOW, true) {
                    Ok(Step::Stuck | Step::Waiting) if round > 50_000 => return Err(FsError::NoSpace),
                    Ok(Step::Stuck | Step::Waiting) => {
                        self.pump();
                        self.let_go();
                        continue;
                    }
                    Ok(_) => {
                        self.pump();
                        continue;
                    }
                    Err(stop) => stop,
                },
                Err(stop) => stop,
            };
            self.overcome(stop)?;
        }
        panic!("the core does not finish");
    }

    fn overcome(&mut self, stop: Stop) -> Result<(), FsError> {
        match stop {
            Stop::Fail(e) => Err(e),
            Stop::Room => Ok(()),
            Stop::Need(fetches) => {
                for fetch in fetches {
                    let data = self.device.read(fetch.at_bytes, fetch.len_bytes).unwrap();
                    self.vfs.store_mut().supply(&fetch.token, &data.into())?;
                }
                Ok(())
            }
        }
    }

    fn checkpoint(&mut self) {
        self.run(|vfs| vfs.store_mut().checkpoint_now(NOW)).unwrap();
    }

    fn create(&mut self, name: &str) -> InodeNo {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        self.run(|vfs| vfs.make(NOW, CALLER, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap().ino
    }

    /// Reserves a block.
    fn reserve(&mut self, ino: InodeNo, at_bytes: u64) -> Result<Option<u64>, FsError> {
        self.run(|vfs| vfs.fallocate(NOW, ino, Allocate::Grow, at_bytes, 4096, false))
    }

    fn write(&mut self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = at_bytes + done as u64;
            done += self.run(|vfs| vfs.write(NOW, ino, at, &bytes[done..], false)).unwrap();
            self.run(|vfs| vfs.commit(NOW, Scope::All)).unwrap();
        }
    }
}

#[test]
fn a_segment_being_discarded_is_not_written() {
    let device = new_device(16 << 20, 0);
    let mut hand = Hand::open(device, Options { discard: true, ..Options::default() });
    for round in 0..12 {
        let name = format!("file{round}");
        let ino = hand.create(&name);
        hand.write(ino, 0, &pattern(round, 3 << 20));
        hand.run(|vfs| vfs.unlink(NOW, InodeNo::ROOT, name.as_bytes())).unwrap();
        // The first finds the segments empty, the second lets them be used again.
        hand.checkpoint();
        hand.checkpoint();
    }
    hand.let_go();
    assert!(hand.discarded > 20, "{} discards", hand.discarded);
}

#[test]
fn blocks_of_a_large_write_go_to_the_device_from_where_they_were_first_copied() {
    let mut hand = Hand::open(new_device(16 << 20, 0), Options::default());
    let ino = hand.create("file");
    let (facts, bytes) = (hand.vfs.facts(), pattern(1, 5 * 4096));
    let ready = ready_blocks(0, &bytes, &facts);
    let content = Content::prepared(0, &bytes, &ready, facts.block_bytes);
    hand.run(|vfs| vfs.write_content(NOW, ino, 0, content, false)).unwrap();
    hand.vfs.commit(NOW, Scope::All).unwrap();
    let is_lent = |request: &Request| match request {
        Request::Write { data: WriteData::Pieces(pieces), .. } => {
            pieces.iter().any(|piece| piece.as_ptr() == ready[0].buf.as_ptr() && piece.len() == 4 * 4096)
        }
        _ => false,
    };
    let mut lent = 0;
    while let Some(job) = hand.vfs.store_mut().next_job() {
        let request = job.request();
        lent += usize::from(is_lent(&request));
        hand.device.wait(hand.device.submit(request)).unwrap();
        hand.vfs.store_mut().job_done(job.id, Ok(()));
    }
    assert_eq!(lent, 1, "four blocks in one piece, not copied; the fifth stands alone");
    let device = hand.device.clone();
    drop(hand);
    let mut hand = Hand::open(device, Options::default());
    let found = hand.run(|vfs| vfs.lookup(NOW, InodeNo::ROOT, b"file", false)).unwrap();
    let plan = hand.run(|vfs| vfs.read(NOW, found.ino, 0, bytes.len() as u64)).unwrap();
    let mut end = 0;
    for piece in &plan.pieces {
        let &Piece::Stored { at_bytes, stored_bytes, len_bytes, .. } = piece else { panic!("{piece:?}") };
        let stored = hand.device.read(at_bytes, stored_bytes).unwrap();
        assert_eq!(stored[..len_bytes], bytes[end..end + len_bytes]);
        end += len_bytes;
    }
    assert_eq!(end, bytes.len());
}

#[test]
fn a_segment_that_a_reader_holds_is_not_discarded() {
    let device = new_device(16 << 20, 0);
    let mut hand = Hand::open(device, Options { discard: true, cache_bytes: 4 << 20, ..Options::default() });
    let ino = hand.create("file");
    let len = 1 << 20;
    hand.write(ino, 0, &pattern(1, len));
    let filler = hand.create("filler");
    hand.write(filler, 0, &pattern(2, 5 << 20));
    let plan = hand.run(|vfs| vfs.read(NOW, ino, 0, len as u64)).unwrap();
    let places: Vec<u64> = plan
        .pieces
        .iter()
        .filter_map(|p| match p {
            Piece::Stored { at_bytes, .. } => Some(*at_bytes),
            _ => None,
        })
        .collect();
    assert!(places.len() > 50, "the file should have left memory");
    hand.run(|vfs| vfs.unlink(NOW, InodeNo::ROOT, b"file")).unwrap();
    for _ in 0..4 {
        hand.checkpoint();
    }
    let held = |job: &Job| match job.request() {
        Request::Discard { at_bytes, len_bytes } => {
            places.iter().any(|at| (at_bytes..at_bytes + len_bytes).contains(at))
        }
        _ => false,
    };
    assert!(!hand.held.iter().any(held), "a reader still needs what is discarded");
    hand.vfs.store_mut().unpin(plan.pin);
}

/// A volume that has room only in segments that a reader holds is not full: a writer that needs them waits for the
/// reader.
#[test]
fn a_writer_that_needs_segments_that_readers_hold_waits_for_the_readers() {
    let options = Options { cache_bytes: 2 << 20, write_threshold_bytes: 256 << 10, ..Options::default() };
    let mut hand = Hand::open(new_device(128 << 20, 0), options);
    let read = hand.create("read");
    let len = 80 << 20;
    hand.write(read, 0, &pattern(1, len));
    let filler = hand.create("filler");
    let mut filled = 0;
    while let Ok(more) = hand.run(|vfs| vfs.write(NOW, filler, filled, &pattern(2, 64 << 10), false)) {
        filled += more as u64;
        hand.run(|vfs| vfs.commit(NOW, Scope::All)).unwrap();
    }
    let (mut pins, mut at) = (Vec::new(), 0);
    while at < len as u64 {
        let plan = hand.run(|vfs| vfs.read(NOW, read, at, len as u64 - at)).unwrap();
        at += plan.len_bytes() as u64;
        pins.push(plan.pin);
    }
    hand.run(|vfs| vfs.unlink(NOW, InodeNo::ROOT, b"read")).unwrap();
    while matches!(hand.vfs.store_mut().step(NOW, false), Ok(Step::Worked)) {
        hand.pump();
    }
    for _ in 0..3 {
        hand.checkpoint();
    }

    let late = hand.create("late");
    let mut written = 0;
    let last = loop {
        assert!(written < len as u64, "all of it was written although readers hold the room");
        let piece = pattern(3, 64 << 10);
        let one = hand.vfs.write(NOW, late, written, &piece, false);
        let both = one.and_then(|more| {
            written += more as u64;
            hand.vfs.commit(NOW, Scope::All)
        });
        hand.pump();
        let stop = match both {
            Ok(_) => continue,
            Err(Stop::Room) => match hand.vfs.store_mut().step(NOW, true) {
                Ok(Step::Worked) => continue,
                Ok(step) => break step,
                Err(stop) => stop,
            },
            Err(stop) => stop,
        };
        hand.overcome(stop).unwrap();
    };
    assert_eq!(last, Step::Waiting, "after {written} bytes");
    assert!(hand.vfs.store_mut().unpin(pins.remove(0)), "a writer waits for the readers");
    pins.into_iter().for_each(|pin| _ = hand.vfs.store_mut().unpin(pin));
    hand.write(late, written, &pattern(3, 512 << 10));
}

/// A batch ends with a mark; after a crash one without it does not count.
#[test]
fn a_batch_whose_last_inodes_an_operation_declares_ends_though_that_operation_fails() {
    let device = new_device(16 << 20, 0);
    let options = Options { commit_step_items: 2, ..Options::default() };
    let mut hand = Hand::open(device.clone(), options);
    let (first, last, filler) = (hand.create("first"), hand.create("last"), hand.create("filler"));
    hand.write(first, 0, &pattern(1, 4096));
    hand.write(last, 0, &pattern(2, 4 * 4096));
    let full = (0..).find_map(|n| hand.reserve(filler, n << 12).err());
    assert!(matches!(full, Some(FsError::NoSpace)), "{full:?}");
    hand.checkpoint();

    let bytes = pattern(3, 4 * 4096);
    hand.run(|vfs| vfs.write(NOW, first, 0, &bytes[..4096], false)).unwrap();
    hand.run(|vfs| vfs.write(NOW, last, 0, &bytes, false)).unwrap();
    let due = TimeNs(NOW.0 + 6_000_000_000);
    hand.run(|vfs| vfs.store_mut().step(due, false)).unwrap();
    hand.reserve(last, 1 << 20).unwrap_err();
    let ticket = hand.run(|vfs| vfs.commit(due, Scope::All)).unwrap();
    assert!(hand.vfs.store().durable() >= ticket);
    drop(hand);

    let (volume, _) = mount(&device, options);
    let mut found = vec![0; bytes.len()];
    volume.read(last, 0, &mut found).unwrap();
    assert!(found == bytes, "what was synced survives a crash");
}

#[test]
fn a_later_flush_does_not_make_up_for_a_failed_one() {
    let device = new_device(16 << 20, 0);
    let mut hand = Hand::open(device, Options::default());
    hand.create("file");
    hand.fail_next_flush = true;
    let ticket: Ticket = hand.run(|vfs| vfs.commit(NOW, Scope::All)).unwrap();
    hand.pump();
    assert!(hand.vfs.store().read_only().is_some());
    assert!(hand.vfs.store().durable() < ticket, "what the device may have dropped counts as durable");
}
