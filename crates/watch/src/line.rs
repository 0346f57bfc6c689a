//! One line an interval, as zpool-iostat(8) prints, and one JSON object a line.

use crate::state::State;
use crate::units::{Megabytes, Millis, Seconds};

/// Lines after which the heading is printed again.
pub const HEADING_EVERY: u64 = 20;

/// Columns for waits, at the end of a line.
const WAIT_COLUMNS: usize = 13;

/// Two lines, 79 columns at most.
pub const HEADING: &str = concat!(
    " full   full   clean       MB/s written by  write    segs request waits\n",
    "    %     in    segs  users cleaner   meta  ampl. cleaned    mean",
);

/// The newest tick and its rates in one line of at most 79 columns.
#[must_use]
pub fn line(state: &State) -> String {
    let rates = state.rates();
    let dash = || "-".to_owned();
    let ready = state.last.as_ref().map_or(0, |tick| tick.marks.ready);
    let full = state.seconds_to_full().map_or_else(dash, |s| Seconds(s).to_string());
    let amplification = rates.write_amplification.map_or_else(dash, |a| match a {
        a if a < 999.0 => format!("{a:.2}"),
        a => format!("{:.0}", a.min(999_999.0)),
    });
    let request = rates.request_ms.map_or_else(dash, |ms| Millis(ms).to_string());
    let line = format!(
        "{:>5.1} {full:>6} {ready:>7} {:>6} {:>7} {:>6} {amplification:>6} {:>7} {request:>7} {}",
        state.fullness() * 100.0,
        Megabytes(rates.user),
        Megabytes(rates.cleaner),
        Megabytes(rates.metadata),
        rates.cleaned + rates.found_empty,
        waits(state),
    );
    line.trim_end().to_owned()
}

/// Waits for room; or why nothing is written, if nothing can be.
fn waits(state: &State) -> String {
    match state.last.as_ref().map(|tick| (tick.read_only.is_some(), tick.is_frozen)) {
        Some((true, _)) => return "read-only".to_owned(),
        Some((false, true)) => return "frozen".to_owned(),
        _ => {}
    }
    let rates = state.rates();
    let Some(ms) = rates.stall_ms else { return "-".to_owned() };
    let text = format!("{} x {}", rates.stalls, Millis(ms));
    if text.len() <= WAIT_COLUMNS { text } else { rates.stalls.to_string() }
}
