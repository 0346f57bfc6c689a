//! Drawing within a part of the screen: text is cut at the part's edge, with a mark that it is.

use super::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A buffer and its theme.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    /// Colours.
    pub theme: Theme,
}

impl<'a> Canvas<'a> {
    /// Draws on that buffer.
    pub fn new(buffer: &'a mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme }
    }

    /// Writes text at a place in a part; characters that a terminal would act on become `?`.
    pub fn text(&mut self, part: Rect, x: u16, y: u16, text: &str, style: Style) {
        if x >= part.width || y >= part.height {
            return;
        }
        let room = usize::from(part.width - x);
        let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let shown = if text.chars().count() > room {
            text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
        } else {
            text
        };
        self.buffer.set_stringn(part.x + x, part.y + y, shown, room, style);
    }

    /// Writes one character.
    pub fn put(&mut self, part: Rect, x: u16, y: u16, character: char, style: Style) {
        if x < part.width && y < part.height {
            let cell = &mut self.buffer[(part.x + x, part.y + y)];
            cell.reset();
            cell.set_char(character).set_style(style);
        }
    }

    /// Adds a style to what is there.
    pub fn mark(&mut self, part: Rect, x: u16, y: u16, style: Style) {
        if x < part.width && y < part.height {
            self.buffer[(part.x + x, part.y + y)].set_style(style);
        }
    }

    /// Empties a part.
    pub fn clear(&mut self, part: Rect) {
        for y in 0..part.height {
            for x in 0..part.width {
                self.put(part, x, y, ' ', Style::new());
            }
        }
    }

    /// Empties a part and draws a frame with a title around it; returns its inside.
    pub fn frame(&mut self, part: Rect, title: &str) -> Rect {
        self.clear(part);
        let style = self.theme.faint();
        let (right, bottom) = (part.width.saturating_sub(1), part.height.saturating_sub(1));
        for x in 0..part.width {
            self.put(part, x, 0, '─', style);
            self.put(part, x, bottom, '─', style);
        }
        for y in 0..part.height {
            self.put(part, 0, y, '│', style);
            self.put(part, right, y, '│', style);
        }
        for (x, y, corner) in [(0, 0, '┌'), (right, 0, '┐'), (0, bottom, '└'), (right, bottom, '┘')] {
            self.put(part, x, y, corner, style);
        }
        let inside = Rect {
            x: part.x + 1,
            y: part.y + 1,
            width: part.width.saturating_sub(2),
            height: part.height.saturating_sub(2),
        };
        self.text(
            Rect { width: part.width.saturating_sub(2), ..part },
            2,
            0,
            &format!(" {title} "),
            self.theme.title(),
        );
        inside
    }

    /// A line of bars, the last value at the right edge of `columns`; a value that is not zero is never blank.
    pub fn sparkline(&mut self, part: Rect, x: u16, y: u16, columns: u16, values: &[f64], most: f64) {
        let values = &values[values.len().saturating_sub(usize::from(columns))..];
        let from = x + columns - values.len() as u16;
        for (n, value) in (0_u16..).zip(values) {
            let style = self.theme.bar();
            self.put(part, from + n, y, bar(*value, most, 8), style);
        }
    }

    /// Upright bars of `width` columns and `lines` lines, at the bottom of these lines.
    pub fn histogram(&mut self, part: Rect, y: u16, lines: u16, width: u16, counts: &[u64]) {
        let most = counts.iter().max().copied().unwrap_or(0).max(1);
        let style = self.theme.bar();
        for (n, &count) in (0_u16..).zip(counts) {
            let eighths = (count * u64::from(lines) * 8).div_ceil(most) as u16;
            for line in 0..lines {
                let above = eighths.saturating_sub(8 * line).min(8);
                let character = if above == 0 { ' ' } else { EIGHTHS[usize::from(above) - 1] };
                for column in 0..width.saturating_sub(1).max(1) {
                    self.put(part, n * width + column, y + lines - 1 - line, character, style);
                }
            }
        }
    }
}

/// A bar of one character.
fn bar(value: f64, most: f64, steps: usize) -> char {
    if !(value > 0.0 && most > 0.0) {
        return ' ';
    }
    let step = (value / most * steps as f64).ceil() as usize;
    EIGHTHS[step.clamp(1, steps) - 1]
}
