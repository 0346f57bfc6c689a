//! Ctrl-C and SIGTERM for commands that have something to take back before they end.
//!
//! The signal sets a flag, the command looks at it and ends with [`Exit::Interrupted`](crate::failure::Exit).

use crate::failure::{Done, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has Ctrl-C and SIGTERM set `flag`, and do nothing else from now on.
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
