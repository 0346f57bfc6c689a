//! `DecodeError`: bytes that violate the format.

/// Why bytes could not be decoded: the structure, the expected and the actual value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct DecodeError {
    /// Structure and field.
    pub what: &'static str,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
}

impl DecodeError {
    /// Builds an error.
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
