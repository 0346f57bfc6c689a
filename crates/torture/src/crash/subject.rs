//! What the explorer explores, as it sees it.

use super::op::Op;
use super::tree::Tree;
use firnfs_device::{Device, SparseImage};
use std::ops::Range;
use std::sync::Arc;

/// A file system: firnfs, or a small one that proves that the explorer can see.
pub trait Subject: Sync {
    /// A freshly made volume.
    fn format(&self) -> SparseImage;

    /// Mounts what is on a device, recovering it if need be.
    ///
    /// # Errors
    /// Why it does not mount, in words.
    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String>;

    /// Places, in bytes, any one of which may rot without loss: what is kept twice.
    fn replicated(&self) -> Vec<Range<u64>> {
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
