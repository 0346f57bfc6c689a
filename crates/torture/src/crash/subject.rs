//! The interface between the explorer and the file system that it explores.

use super::contents::Shared;
use super::op::Op;
use super::tree::Tree;
use firnfs::engine::Engine;
use firnfs::store::Atomicity;
use firnfs_device::{Device, SparseImage};
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The volume that a scenario needs, if a file system can be made in several ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// Small.
    Small,
    /// As small as possible, with hardly any spare segments.
    Tiny,
    /// Small; it collects more before it writes.
    CommitsLate,
    /// Small; steps of background work are short.
    ShortSteps,
}

/// A place that is stored twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    /// Where it is, in bytes.
    pub range: Range<u64>,
    /// Whether a check must report rot there, because no crash leaves it so.
    pub is_told: bool,
}

/// The promise of a file system about its state after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Promise {
    /// Names are an exact prefix of the order of operations; data is, per block, a version since the last sync, also that of a rename;
    /// a sector that was being written may hold anything.
    #[default]
    Whole,
    /// Once it was recovered: names are those after every operation on names that ended, and perhaps the one that was under way, or half
    /// of it; data is, per sector, a version since the last sync. A sector that was being written is old or new.
    Ordered,
}

impl Promise {
    /// What a store states of itself ([`StoreFacts::atomicity`](firnfs::store::StoreFacts)).
    ///
    /// # Panics
    /// If it states that a crash leaves nothing.
    pub fn stated_by<S: Engine>(volume: &Volume<S>) -> Self {
        let facts = volume.run(|vfs, _| Ok(vfs.facts())).expect("facts are known without a request");
        match facts.atomicity {
            Atomicity::Whole => Self::Whole,
            Atomicity::Ordered => Self::Ordered,
            Atomicity::Volatile => panic!("there is nothing to explore"),
        }
    }
}

/// A file system: firnfs, or a small one that proves that the explorer detects errors.
pub trait Subject: Sync {
    /// A freshly made volume.
    fn format(&self) -> SparseImage;

    /// Its promise.
    fn promise(&self) -> Promise {
        Promise::Whole
    }

    /// Mounts the volume on a device, and recovers it if necessary.
    ///
    /// # Errors
    /// Why it does not mount, as text.
    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String>;

    /// The same file system on another volume, if it makes a difference.
    fn made(&self, _made: Made) -> Option<Box<dyn Subject + '_>> {
        None
    }

    /// Walks a read-only mount.
    ///
    /// # Errors
    /// Why it does not mount, or cannot be read.
    fn look(&self, device: Arc<dyn Device>) -> Result<Tree, String>;

    /// The same; contents of files that are known to be the same need not be read again.
    ///
    /// # Errors
    /// As [`Subject::look`].
    fn look_sharing(&self, device: Arc<dyn Device>, _shared: &Shared<'_>) -> Result<Tree, String> {
        self.look(device)
    }

    /// Runs both on an image that nobody has mounted: [`Subject::check`] and [`Subject::look`].
    ///
    /// # Errors
    /// Those of both.
    fn inspect(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.check(device.clone()).map_err(|why| format!("the check finds: {why}"))?;
        self.look(device)
    }

    /// The same; contents of files that are known to be the same need not be read again.
    ///
    /// # Errors
    /// As [`Subject::inspect`].
    fn inspect_sharing(&self, device: Arc<dyn Device>, _shared: &Shared<'_>) -> Result<Tree, String> {
        self.inspect(device)
    }

    /// Whether a check reports damage in that place of [`Subject::replicated`].
    ///
    /// # Errors
    /// It cannot be checked.
    fn tells_rot(&self, _device: Arc<dyn Device>, _place: usize) -> Result<bool, String> {
        Ok(false)
    }

    /// Whether a write of these bytes to the device comes from the cleaner.
    fn is_cleaning(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// The range of the data that is stored only once, in bytes.
    fn log(&self) -> Range<u64> {
        0..0
    }

    /// Places that are stored twice; any one of them may rot without loss.
    fn replicated(&self) -> Vec<Replica> {
        Vec::new()
    }

    /// Checks the structure of a volume that is not mounted, as fsck does, changing nothing.
    ///
    /// # Errors
    /// The errors that it finds.
    fn check(&self, device: Arc<dyn Device>) -> Result<(), String>;

    /// Damages an intact volume that is not mounted, at places drawn from `seed`; returns the places as text.
    ///
    /// # Errors
    /// It cannot be read, or the subject has no repair.
    fn damage(&self, _image: &mut SparseImage, _seed: u64) -> Result<String, String> {
        Err("this file system has no repair".to_owned())
    }

    /// What a new volume shows after it has received these streams, one after another, each with the name of its point; `None` if the
    /// file system receives nothing.
    ///
    /// # Errors
    /// A stream was not received, or the volume is damaged, as text.
    fn receive(&self, _streams: &[(String, Vec<u8>)]) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    /// Repairs a volume that is not mounted, as fsck does, and accepts every repair.
    ///
    /// # Errors
    /// Why it could not, as text.
    fn repair(&self, _device: Arc<dyn Device>) -> Result<(), String> {
        Err("this file system has no repair".to_owned())
    }
}

/// Why an operation was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The operation is invalid now (no such file, exists, not empty ...): the model must refuse it too.
    Invalid(String),
    /// The volume is full: the model cannot know that.
    NoSpace,
    /// The file system failed, which must not happen.
    Broken(String),
}

/// Automatic points by their epochs, with what they show unless that is known.
pub type Found = BTreeMap<u32, Option<Arc<Tree>>>;

/// A mounted volume.
pub trait Mounted {
    /// Carries out one operation to its end. Never [`Op::Remount`].
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then, except that a part of a write refused with `NoSpace` may have been
    /// done.
    fn apply(&mut self, op: &Op) -> Result<(), Refusal>;

    /// Walks the whole volume, reading every byte.
    ///
    /// # Errors
    /// What could not be read, as text.
    fn tree(&mut self) -> Result<Tree, String>;

    /// The same; contents of files that are known to be the same need not be read again.
    ///
    /// # Errors
    /// As [`Mounted::tree`].
    fn tree_sharing(&mut self, _shared: &Shared<'_>) -> Result<Tree, String> {
        self.tree()
    }

    /// The automatic points that are there now, while the volume is in use; what those show that are not `known`.
    ///
    /// # Errors
    /// What could not be read, as text.
    fn look_for_automatic(&mut self, _known: &BTreeSet<u32>) -> Result<Found, String> {
        Ok(Found::new())
    }

    /// Requires that quotas, if they are on, are enforced, and that usage stays right. It changes the volume.
    ///
    /// # Errors
    /// What is not enforced, as text.
    fn enforce_quotas(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Lets the drops of retained points go on to their end, or drops `all` of them: nothing is held for ever. It changes the volume.
    ///
    /// # Errors
    /// What is held besides, or failed, as text.
    fn settle_points(&mut self, _all: bool) -> Result<(), String> {
        Ok(())
    }

    /// The names of the retained points that nobody has begun to drop, oldest first; none if the file system sends nothing.
    ///
    /// # Errors
    /// They could not be read, as text.
    fn points_by_age(&mut self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// The stream of what point `to` has and the older point `from` does not have, or of all of `to`; without its first `skip_bytes`. It
    /// changes nothing.
    ///
    /// # Errors
    /// It could not be sent, as text.
    fn send(&mut self, _from: Option<&str>, _to: &str, _skip_bytes: u64) -> Result<Vec<u8>, String> {
        Err("this file system sends nothing".to_owned())
    }

    /// Unmounts cleanly. Dropping it instead simulates a crash of the program.
    ///
    /// # Errors
    /// What failed, as text.
    fn unmount(self: Box<Self>) -> Result<(), String>;
}
