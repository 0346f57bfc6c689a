//! The map of segments: a cell for each, or for as many as needed to show all of them.
//!
//! A cell shows the most remarkable of its segments: damaged, taken, being cleaned, head of a log; else the mean live share and
//! the mean age of those in use. Age is the hue; the key `a` shows it as a digit instead of the share, for screens without
//! colours.

use super::Screen;
use super::paint::Canvas;
use super::theme::{AGES, Theme, age_class};
use crate::map::{Cell, State as Segment};
use crate::state::State;
use crate::units::Seconds;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Live shares below a quarter, a half, three quarters, one.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];

/// Draws a title, the cells, and a line about the segment under the cursor; returns the cells of a line and the segments of a
/// cell.
pub fn draw(canvas: &mut Canvas<'_>, part: Rect, state: &State, screen: &Screen) -> (u64, u64) {
    let columns = u64::from(part.width);
    let lines = u64::from(part.height.saturating_sub(2).max(1));
    let segments = state.map.cells().len() as u64;
    let per_cell = segments.div_ceil(columns * lines).max(1);
    title(canvas, part, segments, per_cell, screen);
    let now_s = state.last.as_ref().map_or(0, |tick| tick.now_ns.div_euclid(1_000_000_000));
    let would = would(state, screen);
    for (n, group) in (0_u64..).zip(state.map.cells().chunks(per_cell as usize)) {
        let first = n * per_cell;
        let (x, y) = ((n % columns) as u16, (n / columns) as u16 + 1);
        let (character, style) = face(group, first, now_s, state, &would, screen);
        canvas.put(part, x, y, character, style);
        if (first..first + group.len() as u64).contains(&screen.cursor) {
            canvas.mark(part, x, y, canvas.theme.cursor());
        }
    }
    let about = about(state, screen.cursor, now_s);
    canvas.text(part, 0, part.height - 1, &about, Style::new());
    (columns, per_cell)
}

fn title(canvas: &mut Canvas<'_>, part: Rect, segments: u64, per_cell: u64, screen: &Screen) {
    let theme = canvas.theme;
    let cells = if per_cell > 1 { format!(", {per_cell} a cell") } else { String::new() };
    let head = format!("{segments} segs{cells}");
    canvas.text(part, 0, 0, &head, theme.title());
    let x = head.chars().count() as u16 + 1;
    if screen.shows_age {
        let ages: Vec<String> =
            (0..).zip(AGES).map(|(n, (_, name)): (u8, _)| format!("{n} <{name}")).collect();
        canvas.text(part, x, 0, &format!("age: {} 5 older", ages.join(" ")), theme.faint());
    } else {
        canvas.text(part, x, 0, "░▒▓█live .clean ,soon >next oempty 0-9log Xtaken !bad", theme.faint());
    }
}

/// Segments that the compared policy would take.
fn would(state: &State, screen: &Screen) -> Vec<u64> {
    let answers = state.last.iter().flat_map(|tick| &tick.would);
    let asked = answers.filter(|would| Some(would.policy.as_str()) == screen.policy());
    asked.flat_map(|would| would.victims.iter().map(|victim| victim.segment)).collect()
}

fn face(
    group: &[Cell],
    first: u64,
    now_s: i64,
    state: &State,
    would: &[u64],
    screen: &Screen,
) -> (char, Style) {
    let theme: Theme = screen.theme;
    let has = |wanted: Segment| group.iter().find(|cell| cell.state == wanted);
    let segments = first..first + group.len() as u64;
    if has(Segment::Damaged).is_some() {
        return ('!', theme.bad());
    }
    if state.is_lit(segments.clone()) || has(Segment::Victim).is_some() {
        return ('X', theme.victim());
    }
    if would.iter().any(|segment| segments.contains(segment)) {
        return ('w', theme.title());
    }
    if let Some(head) = has(Segment::Head) {
        return (char::from_digit(u32::from(head.log), 16).unwrap_or('?'), theme.head());
    }
    let used: Vec<&Cell> = group.iter().filter(|cell| cell.state == Segment::Closed).collect();
    if used.is_empty() {
        let character = match (has(Segment::Emptied), has(Segment::Next), has(Segment::Waiting)) {
            (Some(_), ..) => 'o',
            (_, Some(_), _) => '>',
            (.., Some(_)) => ',',
            _ => '.',
        };
        return (character, theme.faint());
    }
    let live: f64 = used.iter().map(|cell| cell.share()).sum::<f64>() / group.len() as f64;
    let age_s = used.iter().map(|cell| now_s.saturating_sub(cell.written_s).max(0) / used.len() as i64).sum();
    let class = age_class(age_s);
    let character = if screen.shows_age {
        char::from_digit(class as u32, 10).unwrap_or('?')
    } else {
        SHADES[((live * 4.0) as usize).min(3)]
    };
    (character, theme.age(class))
}

/// A segment in words.
fn about(state: &State, segment: u64, now_s: i64) -> String {
    let Some(cell) = state.map.cells().get(segment as usize) else { return String::new() };
    let is_clean = matches!(cell.state, Segment::Clean | Segment::Waiting | Segment::Next);
    if is_clean {
        return format!("> segment {segment}: {}", cell.state.word());
    }
    let age = Seconds(now_s.saturating_sub(cell.written_s).max(0) as f64);
    let taken = if state.is_lit(segment..segment + 1) { ", just taken" } else { "" };
    format!(
        "> segment {segment}: {}, log {}, {:.0}% live, written {age} ago{taken}",
        cell.state.word(),
        cell.log,
        cell.share() * 100.0
    )
}
