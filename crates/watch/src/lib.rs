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
//! - `feed`: where a display gets its ticks from; `replay`: from a recording (`recording`). `deltas`: ticks without what a reader
//!   knows already.
//! - `trend`: the used space of the last minute. `events`: what changed that a person would want to know. `units`: numbers in few
//!   columns.
//! - `terminal`: the loop that draws the screen (`screen`). `line`: one line an interval. `web`: the page; `http` serves it.
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
