//! Why an experiment could not be carried out.

use firnfs::FsError;
use firnfs_device::plain_reason;
use std::path::{Path, PathBuf};

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A system call failed.
    #[error("cannot {action} {}: {}", path.display(), plain_reason(source))]
    Io {
        /// The attempted action, e.g. "create".
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program that the experiment runs failed.
    #[error("`{command}` failed: {reason}")]
    Tool {
        /// The command line.
        command: String,
        /// Its last error message, or why it did not start.
        reason: String,
    },
    /// firnfs itself failed.
    #[error("{action}: {source}")]
    Volume {
        /// The attempted action.
        action: &'static str,
        /// firnfs's error.
        source: FsError,
    },
    /// The data that was read differs from the data that was written.
    #[error("{} does not hold what was written to it (first difference at byte {at_bytes})", path.display())]
    WrongData {
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        at_bytes: u64,
    },
    /// A workload cannot be read.
    #[error(transparent)]
    Workload(firnfs_workload::Error),
    /// The run was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The experiment cannot be set up as requested.
    #[error("{0}")]
    Setup(String),
}

impl LabError {
    /// For `map_err`: an I/O error with the attempted action and the path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_told_without_its_number() {
        let missing = LabError::io("find", Path::new("/tmp/x"))(std::io::Error::from_raw_os_error(2));
        assert_eq!(missing.to_string(), "cannot find /tmp/x: No such file or directory");
    }
}
