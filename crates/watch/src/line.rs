//! One line an interval, as zpool-iostat(8) prints, and one JSON object a line.

use crate::state::State;
use crate::units::{Megabytes, Millis, Seconds};

/// Lines after which the heading is printed again.
pub const HEADING_EVERY: u64 = 20;

/// Two lines, 79 columns.
pub const HEADING: &str = concat!(
    " full  time to  clean      MB/s written     by  write  segments  request  waits\n",
    "    %     full   segs     users cleaner   meta  ampl.   cleaned  mean",
);

/// The newest tick and its rates in one line of at most 79 columns.
#[must_use]
pub fn line(state: &State) -> String {
    let rates = state.rates();
    let dash = || "-".to_owned();
    let ready = state.last.as_ref().map_or(0, |tick| tick.marks.ready);
    let full = state.seconds_to_full().map_or_else(dash, |s| Seconds(s).to_string());
    let amplification = rates.write_amplification.map_or_else(dash, |a| format!("{a:.2}"));
    let request = rates.request_ms.map_or_else(dash, |ms| Millis(ms).to_string());
    let waits = match (rates.stalls, rates.stall_ms) {
        (0, _) | (_, None) => dash(),
        (stalls, Some(ms)) => format!("{stalls} x {}", Millis(ms)),
    };
    let mark =
        if state.last.as_ref().is_some_and(|tick| tick.read_only.is_some()) { " read-only" } else { "" };
    let line = format!(
        "{:>5.1} {full:>8} {ready:>6} {:>9} {:>7} {:>6} {amplification:>6} {:>9}  {request:<7}  {waits}{mark}",
        state.fullness() * 100.0,
        Megabytes(rates.user),
        Megabytes(rates.cleaner),
        Megabytes(rates.metadata),
        rates.cleaned + rates.found_empty,
    );
    line.trim_end().to_owned()
}
