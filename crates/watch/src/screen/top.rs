//! The upper part of the screen: what is watched, its state, fullness, marks, and the rates of the last looks.

use super::paint::Canvas;
use crate::state::{HISTORY, Rates, State};
use crate::tick::{Marks, Tick};
use crate::units::{Bytes, Megabytes, Seconds};
use ratatui::layout::Rect;

/// Columns of name and value before a sparkline.
const NAME_COLUMNS: u16 = 20;
const GAUGE_COLUMNS: usize = 20;

/// Draws eight lines.
pub fn draw(canvas: &mut Canvas<'_>, part: Rect, state: &State, feed: &str) {
    let Some(tick) = &state.last else { return };
    head(canvas, part, tick, feed);
    fullness(canvas, part, state, tick);
    marks(canvas, part, &tick.marks);
    let rates = state.rates();
    let amplification = rates.write_amplification.map_or("-".to_owned(), |a| format!("{a:.2}"));
    let ready = tick.marks.ready.to_string();
    let top = tick.marks.idle_target.max(1) as f64;
    trace(canvas, part, 3, ("users MB/s", &Megabytes(rates.user).to_string()), state, 0.0, |r| r.user);
    trace(canvas, part, 4, ("cleaner MB/s", &Megabytes(rates.cleaner).to_string()), state, 0.0, |r| {
        r.cleaner
    });
    trace(canvas, part, 5, ("metadata MB/s", &Megabytes(rates.metadata).to_string()), state, 0.0, |r| {
        r.metadata
    });
    trace(canvas, part, 6, ("write ampl.", &amplification), state, 0.0, |r| {
        r.write_amplification.unwrap_or(0.0)
    });
    trace(canvas, part, 7, ("clean segs", &ready), state, top, |r| r.ready as f64);
}

fn head(canvas: &mut Canvas<'_>, part: Rect, tick: &Tick, feed: &str) {
    let theme = canvas.theme;
    let feed_columns = (feed.chars().count() as u16).min(part.width / 2);
    canvas.text(part, part.width - feed_columns, 0, feed, theme.title());
    let left = Rect { width: part.width - feed_columns - 1, ..part };
    let volume = &tick.volume;
    let (state, style) = match &tick.read_only {
        None if tick.is_frozen => ("FROZEN: changes wait for firn thaw".to_owned(), theme.bad()),
        None => ("writable".to_owned(), theme.faint()),
        Some(why) => (format!("READ-ONLY: {why}"), theme.bad()),
    };
    canvas.text(left, 0, 0, &volume.name, theme.title());
    let x = volume.name.chars().count() as u16 + 2;
    canvas.text(left, x, 0, &state, style);
    let x = x + state.chars().count() as u16 + 2;
    if tick.read_only.is_none() {
        canvas.text(left, x, 0, &format!("{}  {}", volume.policy, volume.source), theme.faint());
    }
}

fn fullness(canvas: &mut Canvas<'_>, part: Rect, state: &State, tick: &Tick) {
    let share = state.fullness().clamp(0.0, 1.0);
    let filled = (share * GAUGE_COLUMNS as f64).round() as usize;
    let gauge = format!("[{}{}]", "#".repeat(filled), ".".repeat(GAUGE_COLUMNS - filled));
    let used = tick.space.total_bytes.saturating_sub(tick.space.free_bytes);
    let to_full = match state.seconds_to_full() {
        Some(seconds) => format!("full in {}", Seconds(seconds)),
        None => "not filling".to_owned(),
    };
    let text = format!(
        "full {:>5.1}% {gauge} {} of {}; {to_full}",
        share * 100.0,
        Bytes(used as f64),
        Bytes(tick.space.total_bytes as f64)
    );
    let style = if share > 0.99 { canvas.theme.bad() } else { ratatui::style::Style::new() };
    canvas.text(part, 0, 1, &text, style);
}

/// The marks and where the clean segments stand between them, in words.
fn marks(canvas: &mut Canvas<'_>, part: Rect, marks: &Marks) {
    let stands = match marks.ready {
        n if n <= marks.reserve => "AT THE RESERVE: writes wait",
        n if n < marks.low => "BELOW LOW: cleaning on demand",
        n if n < marks.high => "between low and high",
        n if n < marks.idle_target => "enough",
        _ => "plenty",
    };
    let style = if marks.ready < marks.low { canvas.theme.bad() } else { canvas.theme.faint() };
    let Marks { waiting, reserve, low, high, idle_target, .. } = marks;
    let text = format!(
        "marks: reserve {reserve}, low {low}, high {high}, idle {idle_target}; {waiting} waiting; {stands}"
    );
    canvas.text(part, 0, 2, &text, style);
}

/// A name, its value, and its last looks, with the time that they span; `most` is the value at the top, 0 for the largest.
fn trace(
    canvas: &mut Canvas<'_>,
    part: Rect,
    y: u16,
    (name, value): (&str, &str),
    state: &State,
    most: f64,
    of: fn(&Rates) -> f64,
) {
    let values: Vec<f64> = state.history.iter().map(of).collect();
    let most = values.iter().copied().fold(most, f64::max);
    let theme = canvas.theme;
    canvas.text(part, 0, y, name, theme.faint());
    let room = usize::from(NAME_COLUMNS) - 1 - name.len();
    let value = format!("{value:>room$}");
    canvas.text(part, name.len() as u16, y, &value, ratatui::style::Style::new());
    let columns = (part.width - NAME_COLUMNS).min(HISTORY as u16);
    canvas.sparkline(part, NAME_COLUMNS, y, columns, &values, most);
    let top = if name.ends_with("MB/s") { Megabytes(most).to_string() } else { format!("{most:.1}") };
    if part.width > NAME_COLUMNS + HISTORY as u16 + 16 {
        let span = Seconds(state.history.iter().map(|rates| rates.seconds).sum());
        canvas.text(part, NAME_COLUMNS + HISTORY as u16 + 1, y, &format!("{span}, top {top}"), theme.faint());
    }
}
