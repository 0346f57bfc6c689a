//! Events: what changed between two ticks that a person would want to be told, as one line each.

use crate::state::Rates;
use crate::tick::Tick;
use crate::units::{Bytes, Millis};
use serde::Serialize;

/// A line with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Event {
    /// By the clock of the ticks, in nanoseconds.
    pub at_ns: i64,
    /// For people.
    pub text: String,
    /// Somebody should do something about it.
    pub is_bad: bool,
}

/// The events between two ticks.
#[must_use]
pub fn events_between(last: &Tick, tick: &Tick, rates: &Rates) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |is_bad: bool, text: String| events.push(Event { at_ns: tick.now_ns, text, is_bad });
    match (&last.read_only, &tick.read_only) {
        (None, Some(why)) => add(true, format!("read-only: {why}")),
        (Some(_), None) => add(false, "writable again".to_owned()),
        _ => {}
    }
    for damage in tick.damage.iter().filter(|damage| !last.damage.contains(damage)) {
        add(true, damage.clone());
    }
    if rates.stalls > 0 {
        let mean = Millis(rates.stall_ms.unwrap_or(0.0));
        add(true, format!("{} for room, mean {mean}", waits(rates.stalls)));
    }
    marks(last, tick, &mut add);
    let checkpoints = tick.counters.checkpoints.saturating_sub(last.counters.checkpoints);
    if checkpoints > 0 {
        let freed = tick.counters.emptied.saturating_sub(last.counters.emptied);
        let freed = if freed > 0 { format!("; {freed} found empty") } else { String::new() };
        let number =
            if checkpoints > 1 { format!("{checkpoints} checkpoints") } else { "checkpoint".to_owned() };
        add(false, format!("{number}{freed}"));
    }
    if rates.cleaned > 0 {
        let on_demand = tick.counters.cleaned_on_demand.saturating_sub(last.counters.cleaned_on_demand);
        let moved = Bytes(tick.counters.moved_bytes.saturating_sub(last.counters.moved_bytes) as f64);
        let when = if on_demand > 0 { "on demand" } else { "when idle" };
        add(false, format!("cleaned {} {when} ({moved})", rates.cleaned));
    }
    events
}

fn marks(last: &Tick, tick: &Tick, add: &mut impl FnMut(bool, String)) {
    let (was, is) = (&last.marks, &tick.marks);
    if was.ready > was.reserve && is.ready <= is.reserve {
        add(true, format!("{} clean: reserve, writes wait", is.ready));
    } else if was.ready >= was.low && is.ready < is.low {
        add(false, format!("{} clean: below low ({})", is.ready, is.low));
    } else if was.ready < was.high && is.ready >= is.high {
        add(false, format!("{} clean: high ({}) reached", is.ready, is.high));
    }
}

fn waits(count: u64) -> String {
    if count == 1 { "1 wait".to_owned() } else { format!("{count} waits") }
}
