//! `Stop`: asks a run to end early. It ends with [`LabError::Interrupted`] and takes away what it made: mounts, images,
//! directories. Whoever could go on for more than a second looks at it on the way; programs that the run starts are
//! let finish, in process groups of their own, so that Ctrl-C in a terminal cannot stop one halfway through a mount.
//!
//! Callers: the command line, from a signal handler.

use crate::LabError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's head. Clones are one and the same.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The run stops once this is set.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Goes on unless asked to stop.
    ///
    /// # Errors
    /// `Interrupted` if so.
    pub fn check(&self) -> Result<(), LabError> {
        if self.0.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}
