//! The rules by which one image is judged.
//!
//! 1. Before anything writes to it, fsck finds no damage, and a read-only mount finds a state that a crash may leave.
//! 2. A read-write mount finds the same, to the last byte. If the history had quotas, they are on if they should be, usage is what the files
//!    add up to, and hard limits hold.
//! 3. After it fsck finds no damage. This is checked always if the mount wrote to the log, else every [`CHECK_AGAIN_EVERY`]-th
//!    time (a mount that only writes what is stored twice leaves the log as the first check found it).
//! 4. Every [`SETTLE_EVERY`]-th time, if the history had retained points: drops that had begun come to their end, and nothing is held
//!    besides what the others hold.
//!
//! 5. Every [`SEND_EVERY`]-th time, if the history had retained points: the points are sent as they were in the run; every other time the
//!    cleaner works on then, and the rest of streams that were cut is sent.
//!
//! The first check may share the recovery of the read-only mount; every [`CHECK_AGAIN_EVERY`]-th time it also recovers by
//! itself. What was read in one view, another view and a later state may take over if the image has the same pages there, except
//! every [`READ_ANEW_EVERY`]-th time: the bytes that the device returns ([`Recall`]), and the contents of files whose reads are
//! planned in the same way ([`Contents`]).
//!
//! With a rotten bit in the log, the volume may be older than promised, or unreadable; but every successful read still returns
//! bytes that were written there.

use super::contents::{Contents, Shared};
use super::recall::{READ_ANEW_EVERY, Reads, Recall};
use super::record::{Loss, Record, Window};
use super::subject::{Replica, Subject};
use super::totals::Rot;
use super::tree::Tree;
use firnfs_device::{Completion, Device, DeviceError, Geometry, ReadOnlyDevice, Request, SparseImage, Tag};
use firnfs_sim::crash::{SECTOR_BYTES, range_hash};
use firnfs_sim::fill_garbage;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module's head.
pub const CHECK_AGAIN_EVERY: u64 = 8;

/// On every n-th state of a history with points, their drops are done to the end; every other time all are dropped. The check of
/// rule 3 then recounts what is held.
const SETTLE_EVERY: u64 = 4;

/// On every n-th state of a history with points, they are sent again; every other time, the rest of their streams once more after some
/// cleaning.
const SEND_EVERY: u64 = 24;

/// What a state was that broke no promise.
pub(super) struct Found {
    /// There were retained points in it.
    pub has_points: bool,
    /// Streams that were compared.
    pub sent: u64,
}

/// See the module's head.
pub(super) struct Verdict<'s> {
    subject: &'s dyn Subject,
    check: bool,
    log: Range<u64>,
    replicated: Vec<Replica>,
    contents: Contents,
    reads: Arc<Reads>,
}

impl<'s> Verdict<'s> {
    pub fn new(subject: &'s dyn Subject, check: bool) -> Self {
        Self {
            subject,
            check,
            log: subject.log(),
            replicated: subject.replicated(),
            contents: Contents::default(),
            reads: Arc::default(),
        }
    }

    pub fn replicated(&self) -> &[Replica] {
        &self.replicated
    }

    /// Judges an image that a crash left; `number` counts the judgements.
    pub fn of_crash(
        &self,
        image: &SparseImage,
        record: &Record,
        (window, loss): (Window, Loss),
        number: u64,
    ) -> Result<Found, String> {
        self.of_state(image, number, &|tree| record.judge(tree, window, loss), record)
    }

    /// Judges an image by what `judge` says of each tree.
    fn of_state(
        &self,
        image: &SparseImage,
        number: u64,
        judge: &dyn Fn(&Tree) -> Result<(), String>,
        record: &Record,
    ) -> Result<Found, String> {
        let is_turn = self.check && number.is_multiple_of(CHECK_AGAIN_EVERY);
        let is_anew = number.is_multiple_of(READ_ANEW_EVERY);
        let reads = || (!is_anew).then(|| self.reads.clone());
        let in_raw = |why: String| format!("before it is mounted: {why}");
        if is_turn {
            let checked = self.subject.check(raw(image, reads()));
            checked.map_err(|why| in_raw(format!("the check finds: {why}")))?;
        }
        let before = match (self.check, is_anew) {
            (false, _) => self.subject.look(raw(image, reads())),
            (true, true) => self.subject.inspect(raw(image, reads())),
            (true, false) => {
                let shared = Shared { contents: &self.contents, image: &|| image.clone() };
                self.subject.inspect_sharing(raw(image, reads()), &shared)
            }
        };
        let before = before.map_err(in_raw)?;
        judge(&before)?;
        let device = Arc::new(Watched::new(Recall::new(image.clone(), reads()), self.log.clone()));
        let mut mounted =
            self.subject.mount(device.clone()).map_err(|why| format!("does not mount: {why}"))?;
        let after = if self.check && !is_anew {
            let shared = Shared { contents: &self.contents, image: &|| device.inner.image() };
            mounted.tree_sharing(&shared)
        } else {
            mounted.tree()
        };
        let after = after.map_err(|why| format!("cannot be walked: {why}"))?;
        let enforced = if record.has_quotas() {
            // A read-only mount does not say whether quotas are on.
            judge(&after).and_then(|()| mounted.enforce_quotas())
        } else {
            Ok(())
        };
        enforced.map_err(|why| format!("mounted read-write: {why}"))?;
        before.same(&after).map_err(|why| format!("read-write it is not what it was read-only: {why}"))?;
        let sent = if record.has_points() && number.is_multiple_of(SEND_EVERY) {
            let is_cut = number.is_multiple_of(2 * SEND_EVERY);
            record.streams.judge(mounted.as_mut(), is_cut).map_err(|why| format!("sent again: {why}"))?
        } else {
            0
        };
        if record.has_points() && number.is_multiple_of(SETTLE_EVERY) {
            let all = number.is_multiple_of(2 * SETTLE_EVERY);
            mounted.settle_points(all).map_err(|why| format!("after points were dropped: {why}"))?;
        }
        drop(mounted);
        if is_turn || self.check && device.wrote_to_log.load(Relaxed) {
            let device = Arc::new(Recall::new(device.inner.image(), reads()));
            self.subject.check(device).map_err(|why| format!("the check after recovery finds: {why}"))?;
        }
        Ok(Found { sent, has_points: !before.points().is_empty() || !before.automatic().is_empty() })
    }

    /// Judges an image that a crash left, with rot added.
    pub fn of_rot(
        &self,
        image: &SparseImage,
        rot: Rot,
        record: &Record,
        window: Window,
        number: u64,
    ) -> Result<(), String> {
        match rot {
            Rot::Bit(_) => self.of_damage(image, &mut |tree| record.judge_rotten(tree, window.begun)),
            Rot::Place(place) | Rot::PlaceBit(place, _) => {
                let judge = |tree: &Tree| record.judge(tree, window, Loss::Slot);
                self.of_state(image, number, &judge, record)?;
                if !self.replicated.get(place).is_some_and(|replica| replica.is_told) {
                    return Ok(());
                }
                match self.subject.tells_rot(raw(image, Some(self.reads.clone())), place)? {
                    true => Ok(()),
                    false => Err("damage in a replicated place is not reported".to_owned()),
                }
            }
        }
    }

    /// Judges an image with any damage: everything readable must pass `judge`, the rest is an error. Nothing panics.
    pub fn of_damage(
        &self,
        image: &SparseImage,
        judge: &mut dyn FnMut(&Tree) -> Result<(), String>,
    ) -> Result<(), String> {
        let shared = Shared { contents: &self.contents, image: &|| image.clone() };
        match self.subject.look_sharing(raw(image, Some(self.reads.clone())), &shared) {
            Ok(tree) => judge(&tree),
            Err(_told) => Ok(()),
        }
    }

    pub fn log(&self) -> &Range<u64> {
        &self.log
    }

    /// The image with rot, and its hash if `hash` is that of the image; `None` if there is no such place.
    pub fn rotten(&self, image: &SparseImage, hash: u128, rot: Rot) -> Option<(SparseImage, u128)> {
        let replica = |place: usize| self.replicated.get(place).map(|replica| replica.range.clone());
        let bits = |range: &Range<u64>| (range.end - range.start) * 8;
        let (range, bit) = match rot {
            Rot::Place(place) => (replica(place)?, None),
            Rot::PlaceBit(place, bit) => {
                let range = replica(place)?;
                let bit = bit % bits(&range);
                (range, Some(bit))
            }
            Rot::Bit(bit) => {
                let sector = bit / 8 / SECTOR_BYTES * SECTOR_BYTES;
                (sector..sector + SECTOR_BYTES, Some(bit - sector * 8))
            }
        };
        if range.end > image.size_bytes() {
            return None;
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        image.read(range.start, &mut bytes);
        let sound = range_hash(range.start, &bytes);
        match bit {
            None => fill_garbage(0, range.start, &mut bytes),
            Some(bit) => bytes[(bit / 8) as usize] ^= 1 << (bit % 8),
        }
        let mut image = image.clone();
        image.write(range.start, &bytes);
        Some((image, hash ^ sound ^ range_hash(range.start, &bytes)))
    }
}

/// The image on a device that nobody can write to, with the reads that it shares.
pub(super) fn raw(image: &SparseImage, reads: Option<Arc<Reads>>) -> Arc<dyn Device> {
    Arc::new(ReadOnlyDevice::new(Recall::new(image.clone(), reads)))
}

/// Notes whether the log was written to.
struct Watched {
    inner: Recall,
    log: Range<u64>,
    wrote_to_log: AtomicBool,
}

impl Watched {
    fn new(inner: Recall, log: Range<u64>) -> Self {
        Self { inner, log, wrote_to_log: AtomicBool::new(false) }
    }
}

impl Device for Watched {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let writes = matches!(request, Request::Write { .. } | Request::Discard { .. });
        if writes && self.log.contains(&request.at_bytes()) {
            self.wrote_to_log.store(true, Relaxed);
        }
        self.inner.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_into(at_bytes, out)
    }
}
