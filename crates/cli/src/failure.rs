//! How `firn` fails: with one line that says what failed, where, and what to do, and with an exit code on which
//! scripts can rely.
//!
//! Every command returns a [`Failure`]; `main` prints it and exits. Commands whose exit codes another tool has already
//! defined (fsck(8)) say so in their own help.

use crate::names::{is_hidden, readable};
use firnfs::FsError;
pub use firnfs_device::plain_reason;
use std::fmt;
use std::path::Path;

/// Exit codes, shown at the end of `firn --help`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The operation failed: I/O, no space, no permission.
    Failed = 1,
    /// The command line is invalid (clap uses the same code).
    Usage = 2,
    /// The path holds no firnfs volume, or one that this version cannot read, or a damaged one.
    NotAVolume = 3,
    /// Refused: the volume is in use, its content would be destroyed, or it has no log, which the command needs.
    Refused = 4,
    /// Ended by Ctrl-C, after cleaning up (as in shells: 128 and SIGINT).
    Interrupted = 130,
    /// Ended by SIGTERM, after cleaning up (as in shells: 128 and SIGTERM).
    Terminated = 143,
}

/// One line for people, one number for scripts.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What failed and where.
    pub message: String,
    /// What the reader can do about it.
    pub advice: Option<String>,
    /// The exit code.
    pub exit: Exit,
}

/// The return type of every command.
pub type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with its exit code and no advice.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None, exit }
    }

    /// The operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// The command line is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// An I/O error on a path: `action` is a phrase such as "cannot open".
    pub fn io(action: &str, path: &Path, error: &std::io::Error) -> Self {
        let failure = Self::failed(format!("{action} {}: {}", readable(path), plain_reason(error)));
        match error.kind() {
            std::io::ErrorKind::NotFound => failure.advise("check the path"),
            std::io::ErrorKind::PermissionDenied => {
                failure.advise("check its owner and mode, or run as root")
            }
            std::io::ErrorKind::StorageFull => failure.advise("free some space on the disk that holds it"),
            _ => failure,
        }
    }

    /// An I/O error that has no path: `action` is a phrase such as "cannot start a thread".
    pub fn system(action: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::failed(format!("{action}: {}", plain_reason(error)))
    }

    /// An error of the file system itself during `action` (a phrase such as "cannot copy a/b").
    pub fn fs(action: impl fmt::Display, error: &FsError) -> Self {
        let failure = Self::failed(format!("{action}: {error}"));
        match error {
            FsError::NoSpace => failure.advise("make the volume larger (--size)"),
            FsError::Corrupt { .. } => Self { exit: Exit::NotAVolume, ..failure }
                .advise("the volume is damaged: check it with `firn fsck`, or restore it from a copy"),
            _ => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message stays one line, and leaves the terminal alone, even if a path in it was not made readable.
        let one_line = |text: &str| text.replace('\n', " ").replace(is_hidden, "?");
        f.write_str(&one_line(&self.message))?;
        if let Some(advice) = &self.advice {
            write!(f, "; {}", one_line(advice))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_what_where_and_what_to_do() {
        let error = std::io::Error::from_raw_os_error(2);
        let failure = Failure::io("cannot open", Path::new("no\nsuch.img"), &error);
        assert_eq!(
            failure.to_string(),
            "cannot open $'no\\nsuch.img': No such file or directory; check the path"
        );
        assert_eq!(Failure::failed("no\n\u{1b}[2J").advise("a\tb").to_string(), "no ?[2J; a?b");
        assert_eq!(failure.exit, Exit::Failed);
        let in_use = std::io::Error::from_raw_os_error(98);
        assert_eq!(Failure::system("cannot serve", &in_use).message, "cannot serve: Address already in use");
    }

    #[test]
    fn a_damaged_volume_has_its_own_exit_code() {
        let error = FsError::Corrupt {
            what: "inode 17".into(),
            at: "segment 3".into(),
            expected: "crc 1".into(),
            found: "crc 2".into(),
        };
        assert_eq!(Failure::fs("cannot read", &error).exit, Exit::NotAVolume);
        assert_eq!(Failure::fs("cannot read", &FsError::NoSpace).exit, Exit::Failed);
    }
}
