//! What keys do.

use super::{Owners, Screen};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Policies that can be compared with the volume's own.
pub const POLICIES: [&str; 6] =
    ["greedy", "cost-benefit", "cost-benefit-youngest", "cost-benefit-sqrt", "fifo", "windowed"];

/// The last line of the screen.
pub const LINE: &str = "q quit  arrows  Enter owners  a age  g compare  e events  Space pause  ? help";

/// For the help.
pub const HELP: [(&str, &str); 17] = [
    ("q, Ctrl-C", "quit"),
    ("Space", "pause, go on"),
    ("s", "pause, and take one step: a look; in a simulation at"),
    ("", "the lowest speed a block, a disk access or an operation"),
    ("arrows", "move the cursor in the map; Home, End"),
    ("Enter", "open the segment: which files have live blocks in it"),
    ("Esc", "close what is open"),
    ("a", "map: age as a digit, or live share as a shade"),
    ("g", "what would greedy take now? again: the next policy"),
    ("e", "events in place of the panels"),
    ("[ ]", "replay: back and on by 10 s; with { } a minute"),
    ("< >", "replay: slower, faster"),
    ("0", "replay: to the beginning"),
    ("map", "░▒▓█ live share, . clean, , clean after a checkpoint,"),
    ("", "> clean and next of a log, o emptied, 0-9 head of a log,"),
    ("", "X just taken, w the compared policy would take it, ! damaged"),
    ("?", "this help"),
];

/// What the caller has to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Draw again.
    Draw,
    /// End.
    Quit,
    /// Ctrl-C: end as a signal does.
    Interrupt,
    /// Look for the owners of that segment.
    Open(u64),
    /// Pause, or go on.
    Pause,
    /// Go to another time, in seconds from here.
    Seek(f64),
    /// Multiply the speed.
    Speed(f64),
    /// Pause, and take one step.
    Step,
}

impl Screen {
    /// Carries out a key for a volume of that many segments.
    pub fn key(&mut self, key: KeyEvent, segments: u64) -> Action {
        let (columns, per_cell) = self.cells;
        let last = segments.saturating_sub(1);
        let back = |screen: &mut Self, by: u64| screen.cursor = screen.cursor.saturating_sub(by);
        let on = |screen: &mut Self, by: u64| screen.cursor = screen.cursor.saturating_add(by).min(last);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Action::Interrupt,
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char(' ' | 'p') => return Action::Pause,
            KeyCode::Char('s') => return Action::Step,
            KeyCode::Char('[') => return Action::Seek(-10.0),
            KeyCode::Char(']') => return Action::Seek(10.0),
            KeyCode::Char('{') => return Action::Seek(-60.0),
            KeyCode::Char('}') => return Action::Seek(60.0),
            KeyCode::Char('0') => return Action::Seek(f64::NEG_INFINITY),
            KeyCode::Char('<' | ',') => return Action::Speed(0.5),
            KeyCode::Char('>' | '.') => return Action::Speed(2.0),
            KeyCode::Left => back(self, per_cell),
            KeyCode::Right => on(self, per_cell),
            KeyCode::Up => back(self, per_cell * columns),
            KeyCode::Down => on(self, per_cell * columns),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = last,
            KeyCode::Enter => {
                self.opened = Some((self.cursor, Owners::Searching));
                return Action::Open(self.cursor);
            }
            KeyCode::Esc => {
                self.opened = None;
                self.shows_help = false;
            }
            KeyCode::Char('a') => self.shows_age = !self.shows_age,
            KeyCode::Char('e') => self.shows_events = !self.shows_events,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char('g') => {
                self.compared = match self.compared {
                    None => Some(0),
                    Some(last) if last + 1 == POLICIES.len() => None,
                    Some(index) => Some(index + 1),
                };
            }
            _ => {}
        }
        Action::Draw
    }
}
