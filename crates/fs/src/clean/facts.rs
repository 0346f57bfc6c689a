//! What a placement may know about a block: only facts that a file system has at hand when it writes one.
//!
//! The old pointer of a block leads to its segment, whose usage entry names the log; the pointer's birth says when the
//! block was last modified. None of this needs memory for each block beyond the pointer.

/// The writer of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A user: the content is new.
    User,
    /// The cleaner: the content is moved.
    Cleaner,
}

/// A block that needs a log to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFacts {
    /// The writer.
    pub writer: Writer,
    /// How long ago a user last wrote its content, in the caller's units of age. For a user's write this is the life span
    /// of the version that dies now; for the cleaner's write it is the age of the version that lives on. `None`: the block
    /// is new.
    pub age: Option<u64>,
    /// The log of its present copy; `None`: the block is new.
    pub log: Option<u8>,
    /// How often the cleaner has moved the present version.
    pub moves: u8,
}

/// A segment that has just been chosen as a victim: feedback for placements that adapt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The log that wrote it.
    pub log: u8,
    /// How long ago it was written, in the caller's units of age.
    pub age: u64,
}
