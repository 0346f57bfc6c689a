//! Watching a log-structured volume in use: the graphical display of cleaning that Matthews et al. (1997) describe, for the
//! terminal, as lines, in a file, and on a page.
//!
//! ```text
//!  daemon, simulator --> Tick --> State (map, rates, events) --> screen, line, web
//!                         |                ^
//!                         '--> recording --'
//! ```
//! [`tick`] declares what flows; [`map`] is the state of all segments, sent as changes; [`state`] adds up ticks. This crate knows
//! no file system: the command line fills ticks from the control socket of a daemon or from the simulator.
//!
//! Invariant: ticks are bytes from outside. Nothing here panics on them, and memory is bounded by [`tick::SEGMENTS_MAX`].

pub mod deltas;
pub mod events;
pub mod feed;
pub mod http;
pub mod line;
pub mod map;
pub mod recording;
pub mod replay;
#[cfg(test)]
mod samples;
pub mod screen;
pub mod state;
pub mod terminal;
pub mod tick;
mod trend;
pub mod units;
pub mod web;
