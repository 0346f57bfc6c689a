//! The file systems of paper 003, each with its style in every drawing.

use crate::plot::Style;

/// FFS that allocates block by block, empty or aged by the workload.
pub(super) const ORIGINAL: Style = Style(3);
/// The same with users.
pub(super) const REAL: Style = Style(7);
/// FFS that moves blocks together (realloc): the baseline of section 4.
pub(super) const BASELINE: Style = Style(0);
/// The baseline with indirect blocks in the group of the file.
pub(super) const NO_SWITCH: Style = Style(1);
/// The baseline with fragments behind the last block.
pub(super) const SMART_FRAG: Style = Style(2);
/// Writing to the last three, where reading and writing stand in one drawing.
pub(super) const BASELINE_WRITTEN: Style = Style(4);
pub(super) const NO_SWITCH_WRITTEN: Style = Style(5);
pub(super) const SMART_FRAG_WRITTEN: Style = Style(6);
