//! `DecodeError`: bytes that are not what they should be.

/// Why bytes could not be decoded: the structure, what had to be there and what was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct DecodeError {
    /// Structure and field.
    pub what: &'static str,
    /// What had to be there.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl DecodeError {
    /// Builds one.
    pub fn new(what: &'static str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Self {
        Self { what, expected: expected.to_string(), found: found.to_string() }
    }
}

/// Checks a condition on decoded bytes.
pub(crate) fn ensure(
    ok: bool,
    what: &'static str,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> Result<(), DecodeError> {
    if ok { Ok(()) } else { Err(DecodeError::new(what, expected, found)) }
}
