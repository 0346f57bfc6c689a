//! Ctrl-C and SIGTERM for commands that have to undo something before they end.
//!
//! The signal sets a flag; the command checks it, cleans up, and ends with [`exit`], which tells the two apart as a shell does for
//! programs that a signal ended.

use crate::failure::{Done, Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// SIGTERM arrived.
static TERMINATED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, Ctrl-C and SIGTERM only set `flag`.
///
/// # Errors
/// The system refuses.
pub fn sets(flag: &Arc<AtomicBool>) -> Done {
    // In this order: once `flag` is set, `exit` knows the signal.
    for (signal, flag) in [(SIGTERM, &*TERMINATED), (SIGTERM, flag), (SIGINT, flag)] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    }
    Ok(())
}

/// The exit code of a command that a signal ended.
#[must_use]
pub fn exit() -> Exit {
    if TERMINATED.load(Ordering::SeqCst) { Exit::Terminated } else { Exit::Interrupted }
}
