//! What the explorer explores, as it sees it.

use super::op::Op;
use super::tree::Tree;
use firnfs_device::{Device, SparseImage};
use std::ops::Range;
use std::sync::Arc;

/// Which volume a scenario is for, where a file system can be made in several ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// Small.
    Small,
    /// As small as can be, with hardly any segments to spare.
    Tiny,
    /// Small, and it collects more before it writes.
    CommitsLate,
}

/// A place that is kept twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replica {
    /// Where it is, in bytes.
    pub range: Range<u64>,
    /// Whether a check has to tell that it is rotten, as no crash leaves it so.
    pub is_told: bool,
}

/// A file system: firnfs, or a small one that proves that the explorer can see.
pub trait Subject: Sync {
    /// A freshly made volume.
    fn format(&self) -> SparseImage;

    /// Mounts what is on a device, recovering it if need be.
    ///
    /// # Errors
    /// Why it does not mount, in words.
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

    /// Does both to an image that nobody has mounted: [`Subject::check`] and [`Subject::look`].
    ///
    /// # Errors
    /// Those of both.
    fn inspect(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.check(device.clone()).map_err(|why| format!("the check finds: {why}"))?;
        self.look(device)
    }

    /// Whether a check says of that one of [`Subject::replicated`] that it is rotten.
    ///
    /// # Errors
    /// It cannot be checked.
    fn tells_rot(&self, _device: Arc<dyn Device>, _place: usize) -> Result<bool, String> {
        Ok(false)
    }

    /// Whether a write of these bytes to the device is one of the cleaner's.
    fn is_cleaning(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Where the file system keeps what is not kept twice, in bytes.
    fn log(&self) -> Range<u64> {
        0..0
    }

    /// Places any one of which may rot without loss: what is kept twice.
    fn replicated(&self) -> Vec<Replica> {
        Vec::new()
    }

    /// Checks the structure of a volume that is not mounted, as fsck does, changing nothing.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, device: Arc<dyn Device>) -> Result<(), String>;

    /// Damages a sound volume that is not mounted, at places drawn from `seed`; says where, in words.
    ///
    /// # Errors
    /// It cannot be read, or there is no repair to damage it for.
    fn damage(&self, _image: &mut SparseImage, _seed: u64) -> Result<String, String> {
        Err("this file system has no repair".to_owned())
    }

    /// Repairs a volume that is not mounted, as fsck does, agreeing to everything.
    ///
    /// # Errors
    /// Why it could not, in words.
    fn repair(&self, _device: Arc<dyn Device>) -> Result<(), String> {
        Err("this file system has no repair".to_owned())
    }
}

/// Why an operation was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The operation makes no sense now (no such file, exists, not empty ...): the model must refuse it too.
    Invalid(String),
    /// The volume is full: the model cannot know that.
    NoSpace,
    /// The file system failed, which it must not.
    Broken(String),
}

/// A mounted volume.
pub trait Mounted {
    /// Carries out one operation, to its end. Never [`Op::Remount`].
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then, except that a write refused with `NoSpace` may have been done in part.
    fn apply(&mut self, op: &Op) -> Result<(), Refusal>;

    /// Walks the whole volume, reading every byte.
    ///
    /// # Errors
    /// What could not be read, in words.
    fn tree(&mut self) -> Result<Tree, String>;

    /// Unmounts cleanly. Dropping it instead is a crash of the program.
    ///
    /// # Errors
    /// What failed, in words.
    fn unmount(self: Box<Self>) -> Result<(), String>;
}
