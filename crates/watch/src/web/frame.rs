//! A frame: what the page gets for each tick, live or in a page that one can mail.

use crate::deltas::Deltas;
use crate::events::Event;
use crate::state::{Latency, Rates, State};
use crate::tick::Tick;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
struct Frame<'a> {
    serial: u64,
    #[serde(flatten)]
    tick: Tick,
    rates: Rates,
    fullness: f64,
    seconds_to_full: Option<f64>,
    latency: &'a [Latency],
    events: Vec<&'a Event>,
    victim_shares: &'a [u64],
    lit: &'a BTreeSet<u64>,
}

/// Makes frames, numbered from 1.
#[derive(Default)]
pub struct Frames {
    deltas: Deltas,
    serial: u64,
}

impl Frames {
    /// The newest tick as a frame, with what changed since the last frame.
    pub fn next(&mut self, state: &State) -> Option<String> {
        let tick = self.deltas.next(state, false)?;
        self.serial += 1;
        text(self.serial, tick, state)
    }

    /// The last frame with the whole map, for a page that begins.
    #[must_use]
    pub fn whole(&self, state: &State) -> Option<String> {
        text(self.serial, self.deltas.whole(state)?, state)
    }

    /// The number of the last frame.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

fn text(serial: u64, tick: Tick, state: &State) -> Option<String> {
    let at_ns = tick.now_ns;
    let frame = Frame {
        serial,
        rates: state.rates(),
        fullness: state.fullness(),
        seconds_to_full: state.seconds_to_full(),
        latency: &state.latency,
        events: state.events.iter().filter(|event| event.at_ns == at_ns).collect(),
        victim_shares: &state.victim_shares,
        lit: &state.lit,
        tick,
    };
    serde_json::to_string(&frame).ok()
}
