//! Quotas in the explorer: what a volume says about them, and what it must say.
//!
//! Limits, and whether quotas are on, belong to the world: they change with the names. Usage is compared where it is read (`firn::quotas`).

use firnfs::ufs::quota::Class;
use std::collections::BTreeMap;

/// Limits of a user or group; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// Soft limit of space, in bytes.
    pub bytes_soft: u64,
    /// Hard limit of space, in bytes.
    pub bytes_hard: u64,
    /// Soft limit of inodes.
    pub inodes_soft: u64,
    /// Hard limit of inodes.
    pub inodes_hard: u64,
}

/// Quotas of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// They are on; `None` if a mount does not say so, because it is read-only.
    pub are_on: Option<bool>,
    /// Users and groups with limits.
    pub limits: BTreeMap<(Class, u32), Bounds>,
}

impl Quotas {
    /// As a new volume has them.
    #[must_use]
    pub fn off() -> Self {
        Self { are_on: Some(false), limits: BTreeMap::new() }
    }

    /// Sets the limits of a user or group.
    pub fn set(&mut self, class: Class, id: u32, bounds: Bounds) {
        if bounds == Bounds::default() {
            self.limits.remove(&(class, id));
        } else {
            self.limits.insert((class, id), bounds);
        }
    }

    /// Compares what two mounts, or a mount and the world, say.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn same(&self, other: &Self) -> Result<(), String> {
        if let (Some(here), Some(there)) = (self.are_on, other.are_on)
            && here != there
        {
            return Err(format!("quotas on: {there} instead of {here}"));
        }
        if self.limits != other.limits {
            return Err(format!("limits: {:?} instead of {:?}", other.limits, self.limits));
        }
        Ok(())
    }
}
