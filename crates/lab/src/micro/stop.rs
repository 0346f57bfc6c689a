//! `Stop`: asks a run to end early. The run ends with [`LabError::Interrupted`] and removes what it made: mounts,
//! images, directories. Code that may run for more than a second checks it on the way. Programs that the run starts are
//! allowed to finish; they have process groups of their own, so that Ctrl-C in a terminal cannot stop one halfway
//! through a mount.
//!
//! Callers: the command line, from a signal handler.

use crate::LabError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's head. Clones share one state.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The run stops once this is set.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Succeeds unless asked to stop.
    ///
    /// # Errors
    /// `Interrupted` if asked to stop.
    pub fn check(&self) -> Result<(), LabError> {
        if self.0.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}
