//! The panels beneath the map, and what is laid over it.

use super::keys;
use super::paint::Canvas;
use super::{Owners, Screen};
use crate::state::State;
use crate::tick::{BUCKETS, Tick, Victim, Would};
use crate::units::{Bytes, Millis, Seconds};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of a histogram and the gap after it.
const HISTOGRAM_COLUMNS: u16 = 24;
/// Columns of a bar and the gap after it.
const BAR_COLUMNS: u16 = 2;
/// The latency panel and the gap after it; events get the rest, if that is wide enough.
const LATENCY_COLUMNS: u16 = 36;
/// Columns that events need.
const EVENT_COLUMNS: u16 = 36;

/// Two histograms, and latency with events, or what another policy would take.
pub fn draw(canvas: &mut Canvas<'_>, part: Rect, state: &State, screen: &Screen) {
    let Some(tick) = &state.last else { return };
    let column = |x: u16, width: u16| Rect { x: part.x + x, width, ..part };
    histogram(canvas, column(0, HISTOGRAM_COLUMNS - 1), "segments by live share", &tick.utilisation);
    let victims = column(HISTOGRAM_COLUMNS, HISTOGRAM_COLUMNS - 1);
    histogram(canvas, victims, "victims by live share", &state.victim_shares);
    let rest = 2 * HISTOGRAM_COLUMNS;
    let is_wide = part.width - rest >= LATENCY_COLUMNS + EVENT_COLUMNS;
    let answer = screen.policy().map(|policy| {
        let answer = tick.would.iter().find(|would| would.policy == policy);
        (policy, answer)
    });
    let first = if is_wide { LATENCY_COLUMNS - 1 } else { part.width - rest };
    let second = column(rest + LATENCY_COLUMNS, part.width.saturating_sub(rest + LATENCY_COLUMNS));
    match answer {
        Some((policy, answer)) if is_wide => {
            latency(canvas, column(rest, first), state, part.height - 2);
            comparison(canvas, second, state, (policy, answer), screen.unanswered);
        }
        Some((policy, answer)) => {
            comparison(canvas, column(rest, first), state, (policy, answer), screen.unanswered);
        }
        None if is_wide => {
            latency(canvas, column(rest, first), state, part.height - 2);
            events(canvas, second, state);
        }
        None => {
            let upper = (part.height - 1) / 2;
            latency(canvas, Rect { height: upper, ..column(rest, first) }, state, upper.saturating_sub(2));
            let lower = Rect { y: part.y + upper, height: part.height - upper, ..column(rest, first) };
            events(canvas, lower, state);
        }
    }
}

fn histogram(canvas: &mut Canvas<'_>, part: Rect, title: &str, counts: &[u64; BUCKETS]) {
    let theme = canvas.theme;
    canvas.text(part, 0, 0, title, theme.title());
    canvas.histogram(part, 1, part.height - 3, BAR_COLUMNS, counts);
    canvas.text(part, 0, part.height - 2, "0%       50%     100%", theme.faint());
    let (most_at, most) =
        (0..).zip(counts).max_by_key(|(n, count)| (**count, std::cmp::Reverse(*n))).unwrap_or((0, &0));
    let sum: u64 = counts.iter().sum();
    let text = if sum == 0 { "none".to_owned() } else { format!("{sum}; most {most} at {}%", most_at * 10) };
    canvas.text(part, 0, part.height - 1, &text, theme.faint());
}

/// Requests and waits for room: a title, `kinds` kinds of requests, and the waits.
fn latency(canvas: &mut Canvas<'_>, part: Rect, state: &State, kinds: u16) {
    let theme = canvas.theme;
    let rates = state.rates();
    if state.last.as_ref().is_some_and(Tick::is_of_simulation) {
        canvas.text(part, 0, 0, "requests", theme.title());
        canvas.text(part, 0, 1, "not served through a mount", theme.faint());
        return;
    }
    let mean = rates.request_ms.map_or("-".to_owned(), |ms| Millis(ms).to_string());
    canvas.text(part, 0, 0, &format!("requests {:.0}/s, mean {mean}", rates.requests), theme.title());
    for (y, kind) in (1..=kinds).zip(&state.latency) {
        let errors = if kind.errors > 0 { format!(" {} err", kind.errors) } else { String::new() };
        let text = format!("{:<11.11} {:>5.0}/s {:>6}{errors}", kind.name, kind.rate, Millis(kind.mean_ms));
        canvas.text(part, 0, y, &text, Style::new());
    }
    let stalls = state.last.as_ref().map(|tick| tick.stalls).unwrap_or_default();
    let longest = Millis(stalls.longest_ns as f64 / 1e6);
    let (text, style) = match (rates.stalls, stalls.count) {
        (0, 0) => ("no waits for room".to_owned(), theme.faint()),
        (0, all) => {
            let p99 =
                stalls.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", Millis(ns as f64 / 1e6)));
            (format!("{all} waits{p99}, most {longest}"), theme.faint())
        }
        (now, _) => {
            let mean = Millis(rates.stall_ms.unwrap_or(0.0));
            (format!("WAITS for room {now}, mean {mean}"), theme.bad())
        }
    };
    canvas.text(part, 0, kinds + 1, &text, style);
}

/// Events, the newest first.
pub fn events(canvas: &mut Canvas<'_>, part: Rect, state: &State) {
    let theme = canvas.theme;
    canvas.text(part, 0, 0, "events", theme.title());
    let now_ns = state.last.as_ref().map_or(0, |tick| tick.now_ns);
    // A narrow panel has no room for the times.
    let has_times = part.width >= EVENT_COLUMNS;
    for (y, event) in (1..part.height).zip(state.events.iter().rev()) {
        let age = Seconds(now_ns.saturating_sub(event.at_ns) as f64 / 1e9).to_string();
        let (mark, style) = if event.is_bad { ('!', theme.bad()) } else { (' ', Style::new()) };
        let text = &event.text;
        let line = if has_times { format!("{age:>6}{mark}{text}") } else { format!("{mark}{text}") };
        canvas.text(part, 0, y, &line, style);
    }
    if state.events.is_empty() {
        canvas.text(part, 0, 1, "none yet", theme.faint());
    }
}

/// The victims that were taken beside those that another policy would take now.
fn comparison(
    canvas: &mut Canvas<'_>,
    part: Rect,
    state: &State,
    (policy, would): (&str, Option<&Would>),
    unanswered: &str,
) {
    let theme = canvas.theme;
    let half = part.width / 2;
    let (left, right) =
        (Rect { width: half - 1, ..part }, Rect { x: part.x + half, width: part.width - half, ..part });
    canvas.text(left, 0, 0, "taken last", theme.title());
    canvas.text(right, 0, 0, &format!("w {policy} now"), theme.title());
    let segment_bytes = state.last.as_ref().map_or(1, |tick| tick.volume.segment_bytes);
    let chosen: Vec<&Victim> = state.victims.iter().rev().collect();
    victims(canvas, left, &chosen, segment_bytes);
    match would {
        Some(would) => victims(canvas, right, &would.victims.iter().collect::<Vec<_>>(), segment_bytes),
        None => canvas.text(right, 0, 1, unanswered, theme.faint()),
    }
}

fn victims(canvas: &mut Canvas<'_>, part: Rect, victims: &[&Victim], segment_bytes: u32) {
    for (y, victim) in (1..part.height).zip(victims) {
        let share = f64::from(victim.live_bytes) * 100.0 / f64::from(segment_bytes.max(1));
        let age = Seconds(victim.age_ms as f64 / 1e3).to_string();
        canvas.text(part, 0, y, &format!("{} {share:.0}% {age}", victim.segment), Style::new());
    }
    if victims.is_empty() {
        let theme = canvas.theme;
        canvas.text(part, 0, 1, "none", theme.faint());
    }
}

/// The owners of a segment, over the map.
pub fn opened(canvas: &mut Canvas<'_>, part: Rect, state: &State, segment: u64, owners: &Owners) {
    let live = state.map.cells().get(segment as usize).map_or(0.0, |cell| cell.share() * 100.0);
    let inside = canvas.frame(part, &format!("segment {segment}, {live:.0}% live (Esc closes)"));
    let theme = canvas.theme;
    match owners {
        Owners::Searching => {
            canvas.text(inside, 1, 0, "looking for the owners of its blocks ...", theme.faint())
        }
        Owners::Unknown(why) => canvas.text(inside, 1, 0, why, theme.bad()),
        Owners::Found(owners) if owners.is_empty() => {
            canvas.text(inside, 1, 0, "nothing in it is live", theme.faint())
        }
        Owners::Found(owners) => {
            let room = usize::from(inside.height);
            for (y, owner) in (0..inside.height).zip(owners) {
                let is_last = usize::from(y) + 1 == room && owners.len() > room;
                let text = if is_last {
                    format!("and {} more", owners.len() - room + 1)
                } else {
                    let name = owner.path.clone().unwrap_or_else(|| format!("inode {}", owner.ino));
                    format!("{:>8}  {name}", Bytes(owner.live_bytes as f64).to_string())
                };
                canvas.text(inside, 1, y, &text, Style::new());
            }
        }
    }
}

/// All keys.
pub fn help(canvas: &mut Canvas<'_>, part: Rect) {
    let width = 78.min(part.width);
    let height = (keys::HELP.len() as u16 + 2).min(part.height);
    let box_part = Rect { x: part.x + (part.width - width) / 2, width, height, ..part };
    let inside = canvas.frame(box_part, "keys");
    for (y, (key, text)) in (0..).zip(keys::HELP) {
        canvas.text(inside, 1, y, &format!("{key:<12} {text}"), Style::new());
    }
}
