//! Ctrl-C and SIGTERM for commands that have to undo something before they end.
//!
//! The signal sets a flag; the command checks it and ends with [`Exit::Interrupted`](crate::failure::Exit).

use crate::failure::{Done, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// From now on, Ctrl-C and SIGTERM only set `flag`.
///
/// # Errors
/// The system refuses.
pub fn sets(flag: &Arc<AtomicBool>) -> Done {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    }
    Ok(())
}
