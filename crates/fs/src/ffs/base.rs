//! Numbers and places that all parts of the store use.

/// Names a write, in the order in which writes were queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WriteId(pub u64);
