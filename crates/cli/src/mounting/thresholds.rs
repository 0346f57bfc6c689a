//! The cleaner's marks as people set them: their names, and their values, a number of clean segments or `auto`.
//!
//! Callers: `options` (`-o`), `open` (a mount takes what the volume allows), and `firn tune`.

use firnfs::lfs::{Lfs, Mark, Thresholds, UnfitMark};

/// The value of a mark that follows from the size of the volume and how full it is.
const AUTO: &str = "auto";

/// All marks, from the lowest.
pub const MARKS: [Mark; 3] = [Mark::Low, Mark::High, Mark::Idle];

/// The name of its setting.
pub fn name_of(mark: Mark) -> &'static str {
    match mark {
        Mark::Low => "clean_low",
        Mark::High => "clean_high",
        Mark::Idle => "clean_idle",
    }
}

/// The mark that a setting sets.
pub fn mark_of(name: &str) -> Option<Mark> {
    MARKS.into_iter().find(|mark| name_of(*mark) == name)
}

/// Sets a mark.
///
/// # Errors
/// What is wrong with the value.
pub(super) fn set(thresholds: &mut Thresholds, mark: Mark, value: &str) -> Result<(), &'static str> {
    *field(thresholds, mark) = match value {
        AUTO => None,
        number => Some(number.parse().map_err(|_| "not a number of clean segments, nor auto")?),
    };
    Ok(())
}

/// The value of a mark, as [`set`] takes it.
pub fn value_of(mut thresholds: Thresholds, mark: Mark) -> String {
    field(&mut thresholds, mark).map_or_else(|| AUTO.to_owned(), |segments| segments.to_string())
}

/// How many clean segments each of the [`MARKS`] stands for now.
pub fn in_effect(lfs: &Lfs) -> [(Mark, u64); 3] {
    let marks = lfs.marks();
    [(Mark::Low, marks.low), (Mark::High, marks.high), (Mark::Idle, marks.idle_target)]
}

/// Why marks are refused, by the names of the settings.
pub fn refusal(unfit: &UnfitMark) -> String {
    match *unfit {
        UnfitMark::TooLow { mark, wanted, least } => format!(
            "{}={wanted}: checkpoints and the cleaner of this volume need {least} clean segments; set {least} or more",
            name_of(mark)
        ),
        UnfitMark::TooHigh { mark, wanted, most } => format!(
            "{}={wanted}: as full as this volume is, {most} segments can be kept clean; set {most} or fewer",
            name_of(mark)
        ),
        UnfitMark::OutOfOrder { mark, wanted, below, than } => {
            let (name, below) = (name_of(mark), name_of(below));
            format!(
                "{name}={wanted} is less than {below}, which is {than}; set {below} lower, or {name} higher"
            )
        }
    }
}

fn field(thresholds: &mut Thresholds, mark: Mark) -> &mut Option<u64> {
    match mark {
        Mark::Low => &mut thresholds.low,
        Mark::High => &mut thresholds.high,
        Mark::Idle => &mut thresholds.idle,
    }
}
