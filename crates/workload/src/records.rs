//! What all readers have in common as iterators of records: they end at the first error.

use crate::error::Error;
use crate::record::Record;

/// The item of an iterator for the next record, which is `None` at the end. Remembers an error in `has_failed`: the reader must
/// not be asked for a record after it.
pub(crate) fn item(
    next: Result<Option<Record>, Error>,
    has_failed: &mut bool,
) -> Option<Result<Record, Error>> {
    *has_failed = next.is_err();
    next.transpose()
}
