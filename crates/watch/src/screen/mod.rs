//! The screen: everything about a volume at a glance, for terminals of 80 by 24 and larger.
//!
//! ```text
//!  name, source, policy, state            feed (live, replay)
//!  fullness, time to full, marks
//!  sparklines of the last looks
//!  map of segments
//!  closed segments | victims | latency, events, or what another policy would take
//!  keys
//! ```
//! `top` draws the upper part, `map` the map of segments, `panels` what is beneath it and laid over it; `paint` keeps text in its
//! part, `theme` has the colours, `keys` what keys do.
//!
//! Invariants: nothing is drawn outside its part, and no part is narrower than its text needs at 80 columns; a smaller terminal
//! gets one line that says so. Caller: `terminal`.

pub mod keys;
mod map;
mod paint;
mod panels;
pub mod theme;
mod top;

use crate::state::State;
use paint::Canvas;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use theme::Theme;

/// The least terminal.
pub const COLUMNS: u16 = 80;
/// Its lines.
pub const LINES: u16 = 24;

/// Lines above the map.
const TOP_LINES: u16 = 8;
/// Lines of the panels beneath the map, at most and at least.
const PANEL_LINES: (u16, u16) = (7, 11);

/// A file with blocks in a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its path, if one was found.
    pub path: Option<String>,
    /// Its inode.
    pub ino: u64,
    /// Live bytes in the segment.
    pub live_bytes: u64,
}

/// What is known of the owners of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owners {
    /// They are being looked for.
    Searching,
    /// The most live bytes first.
    Found(Vec<Owner>),
    /// Why they are unknown.
    Unknown(String),
}

/// What the person at the keyboard chose.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Colours.
    pub theme: Theme,
    /// The segment under the cursor.
    pub cursor: u64,
    /// The map shows classes of age as digits, not live shares.
    pub shows_age: bool,
    /// Keys are explained.
    pub shows_help: bool,
    /// The panels give way to events.
    pub shows_events: bool,
    /// The policy that is compared, an index of [`keys::POLICIES`].
    pub compared: Option<usize>,
    /// What is said of a compared policy without an answer.
    pub unanswered: &'static str,
    /// The segment that is opened, and its owners.
    pub opened: Option<(u64, Owners)>,
    /// Cells of a line of the map, and segments of a cell, as last drawn: cursor keys move by them.
    pub cells: (u64, u64),
}

impl Screen {
    /// The first screen.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        Self {
            theme,
            cursor: 0,
            shows_age: false,
            shows_help: false,
            shows_events: false,
            compared: None,
            unanswered: "not asked yet",
            opened: None,
            cells: (u64::from(COLUMNS), 1),
        }
    }

    /// The policy that the feed shall ask.
    #[must_use]
    pub fn policy(&self) -> Option<&'static str> {
        self.compared.and_then(|index| keys::POLICIES.get(index)).copied()
    }

    /// Draws all of it; `feed` says where the numbers come from.
    pub fn draw(&mut self, state: &State, feed: &str, buffer: &mut Buffer) {
        let area = buffer.area;
        let mut canvas = Canvas::new(buffer, self.theme);
        if area.width < COLUMNS || area.height < LINES {
            let text = format!(
                "{} x {} is too small: {COLUMNS} x {LINES} are needed; q quits",
                area.width, area.height
            );
            canvas.text(area, 0, 0, &text, self.theme.bad());
            return;
        }
        if state.last.is_none() {
            canvas.text(area, 0, 0, "waiting for the first numbers", self.theme.title());
            return;
        }
        let panel_lines = (area.height / 4).clamp(PANEL_LINES.0, PANEL_LINES.1);
        let map_lines = area.height - TOP_LINES - panel_lines - 1;
        let part = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
        top::draw(&mut canvas, part(0, TOP_LINES), state, feed);
        self.cells = map::draw(&mut canvas, part(TOP_LINES, map_lines), state, self);
        let panels = part(TOP_LINES + map_lines, panel_lines);
        if self.shows_events {
            panels::events(&mut canvas, panels, state);
        } else {
            panels::draw(&mut canvas, panels, state, self);
        }
        canvas.text(part(area.height - 1, 1), 0, 0, keys::LINE, self.theme.faint());
        if let Some((segment, owners)) = &self.opened {
            panels::opened(&mut canvas, part(TOP_LINES, map_lines), state, *segment, owners);
        }
        if self.shows_help {
            panels::help(&mut canvas, part(2, area.height - 4));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
