//! Why a workload cannot be read or written. Each message is one line, without the name of the file, which callers add.

use std::io;

/// The reason without Rust's ` (os error N)`, which most people do not understand.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Why a workload cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read, or the output cannot be written.
    #[error("{}", plain(.0))]
    Io(#[from] io::Error),
    /// The file does not begin as a workload does.
    #[error("not a workload file: it does not begin with the magic \"firnwork\"")]
    NotAWorkload,
    /// The file is of a later version.
    #[error("workload format {0} is newer than this program, which reads format {version}", version = crate::layout::VERSION)]
    Version(u16),
    /// The header is cut short or damaged; no record can be read.
    #[error("the header is damaged: {0}")]
    Header(String),
    /// The file is cut short or damaged. The records before are whole.
    #[error("record {record} (byte {at_bytes} of the file): {what}")]
    Damaged {
        /// The first record that cannot be read, counted from 1.
        record: u64,
        /// Where the frame with that record begins, in bytes.
        at_bytes: u64,
        /// What is wrong.
        what: String,
    },
    /// A line of a text is not what its format demands.
    #[error("line {line}: {what}")]
    Line {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A record cannot be written.
    #[error("record {record}: {source}")]
    Unwritable {
        /// The record, counted from 1.
        record: u64,
        /// Why.
        source: TooLong,
    },
}

/// A name has more than [`NAME_MAX_BYTES`](crate::layout::NAME_MAX_BYTES) bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a name of {0} bytes is longer than {max}, the longest that a workload holds", max = crate::layout::NAME_MAX_BYTES)]
pub struct TooLong(pub usize);
