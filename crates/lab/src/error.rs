//! Why an experiment could not be carried out.

use firnfs::FsError;
use std::path::{Path, PathBuf};

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, e.g. "create".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program that the experiment runs failed.
    #[error("`{command}` failed: {reason}")]
    Tool {
        /// The command line.
        command: String,
        /// Its last line of complaint, or why it did not start.
        reason: String,
    },
    /// firnfs itself failed.
    #[error("{action}: {source}")]
    Volume {
        /// What was tried.
        action: &'static str,
        /// What firnfs said.
        source: FsError,
    },
    /// What was read is not what had been written.
    #[error("{} does not hold what was written to it (first difference at byte {at_bytes})", path.display())]
    WrongData {
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        at_bytes: u64,
    },
    /// Somebody asked it to stop.
    #[error("interrupted")]
    Interrupted,
    /// The experiment cannot be set up as asked.
    #[error("{0}")]
    Setup(String),
}

impl LabError {
    /// For `map_err`: an I/O error with what was tried and on what.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
