//! The parts that all drawings share: styles, heading, legend, and the description inside the file.

use super::{Origin, Style};
use plotters::coord::Shift;
use plotters::prelude::{Circle, Color, DrawingArea, PathElement, Polygon, SVGBackend, ShapeStyle, Text};
use plotters::style::RGBColor;

pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type DrawError = Box<dyn std::error::Error>;

/// Pixels.
pub(super) const WIDTH: u32 = 760;
/// Pixels of the axes and what is between them.
pub(super) const AXES_HEIGHT: u32 = 400;
pub(super) const FONT: (&str, u32) = ("sans-serif", 15);
const TITLE: (&str, u32) = ("sans-serif", 20);
const SMALL: (&str, u32) = ("sans-serif", 13);
/// Characters of a line of conditions that surely fit.
const LINE_CHARACTERS: usize = 125;
const LINE_HEIGHT: i32 = 17;
const LEGEND_HEIGHT: i32 = 22;

/// Styles; see [`Style`].
pub(super) const STYLES: usize = 12;

/// Distinguishable also by colour-blind readers (Okabe and Ito 2008, and after them Tol 2021).
const COLOURS: [RGBColor; STYLES] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(150, 110, 0),
    RGBColor(86, 180, 233),
    RGBColor(136, 34, 85),
    RGBColor(51, 34, 136),
    RGBColor(110, 110, 110),
    RGBColor(153, 153, 51),
    RGBColor(204, 60, 60),
];
/// Length of dashes and gaps in pixels; none for a solid line.
const DASHES: [Option<(u32, u32)>; STYLES] = [
    None,
    Some((9, 4)),
    Some((3, 3)),
    Some((16, 5)),
    Some((1, 4)),
    Some((6, 8)),
    Some((24, 4)),
    Some((12, 12)),
    Some((5, 2)),
    Some((2, 8)),
    Some((32, 8)),
    Some((18, 2)),
];

/// One for each style, so that they are told apart in grey, too.
const MARKERS: [Marker; STYLES] = [
    Marker::Circle,
    Marker::Shape(&[(-1, -1), (1, -1), (1, 1), (-1, 1)]),
    Marker::Shape(&[(0, -1), (1, 1), (-1, 1)]),
    Marker::Strokes([[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]]),
    Marker::Shape(&[(0, 1), (1, -1), (-1, -1)]),
    Marker::Shape(&[(0, -1), (1, 0), (0, 1), (-1, 0)]),
    Marker::Strokes([[(0, -1), (0, 1)], [(-1, 0), (1, 0)]]),
    Marker::Shape(&[(-1, 0), (1, -1), (1, 1)]),
    Marker::Shape(&[(1, 0), (-1, -1), (-1, 1)]),
    Marker::Shape(&[(-1, -1), (1, 1), (1, -1), (-1, 1)]),
    Marker::Shape(&[(-1, -1), (1, 1), (-1, 1), (1, -1)]),
    Marker::Strokes([[(-1, -1), (1, -1)], [(0, -1), (0, 1)]]),
];

/// What is drawn around a point; places in half widths of the marker.
enum Marker {
    Circle,
    Shape(&'static [(i32, i32)]),
    Strokes([[(i32, i32); 2]; 2]),
}

impl Style {
    pub(super) fn colour(self) -> RGBColor {
        COLOURS[usize::from(self.0) % STYLES]
    }

    pub(super) fn dash(self) -> Option<(u32, u32)> {
        DASHES[usize::from(self.0) % STYLES]
    }

    /// Draws the marker at a pixel; hollow for published values.
    pub(super) fn mark(self, canvas: &Canvas<'_>, (x, y): (i32, i32), hollow: bool) -> Result<(), DrawError> {
        let size = if hollow { 6 } else { 4 };
        let outline = self.colour().stroke_width(2);
        let at = |&(right, down): &(i32, i32)| (x + right * size, y + down * size);
        match &MARKERS[usize::from(self.0) % STYLES] {
            Marker::Circle => {
                let style: ShapeStyle = if hollow { outline } else { self.colour().filled() };
                canvas.draw(&Circle::new((x, y), size, style))?;
            }
            Marker::Shape(corners) if hollow => {
                let closed: Vec<_> = corners.iter().chain(corners.first()).map(at).collect();
                canvas.draw(&PathElement::new(closed, outline))?;
            }
            Marker::Shape(corners) => {
                let corners: Vec<_> = corners.iter().map(at).collect();
                canvas.draw(&Polygon::new(corners, self.colour().filled()))?;
            }
            Marker::Strokes(strokes) => {
                for stroke in strokes {
                    canvas.draw(&PathElement::new(stroke.each_ref().map(at), outline))?;
                }
                if hollow {
                    canvas.draw(&Circle::new((x, y), size + 2, outline))?;
                }
            }
        }
        Ok(())
    }

    /// Draws an interval with its ends, which are wider than a marker: it shows also where a marker covers most of it.
    pub(super) fn mark_interval(
        self,
        canvas: &Canvas<'_>,
        low: (i32, i32),
        high: (i32, i32),
    ) -> Result<(), DrawError> {
        let style = self.colour().stroke_width(1);
        canvas.draw(&PathElement::new([low, high], style))?;
        for (x, y) in [low, high] {
            canvas.draw(&PathElement::new([(x - 6, y), (x + 6, y)], style))?;
        }
        Ok(())
    }

    /// Draws a horizontal line in the legend.
    pub(super) fn sample(self, canvas: &Canvas<'_>, (x, y): (i32, i32)) -> Result<(), DrawError> {
        const LENGTH: i32 = 44;
        let (dash, gap) = self.dash().map_or((LENGTH, 0), |(dash, gap)| (dash as i32, gap as i32));
        let mut from = 0;
        while from < LENGTH {
            let to = (from + dash).min(LENGTH);
            canvas.draw(&PathElement::new([(x + from, y), (x + to, y)], self.colour().stroke_width(2)))?;
            from = to + gap;
        }
        Ok(())
    }
}

/// Draws the heading and the conditions below it. Returns the pixels that they take.
pub(super) fn heading(canvas: &Canvas<'_>, title: &str, conditions: &str) -> Result<u32, DrawError> {
    let mut y = 10;
    for line in lines(title, 70) {
        canvas.draw(&Text::new(line, (12, y), TITLE))?;
        y += 24;
    }
    for line in lines(conditions, LINE_CHARACTERS) {
        canvas.draw(&Text::new(line, (12, y), SMALL))?;
        y += LINE_HEIGHT;
    }
    Ok(y as u32 + 4)
}

/// Pixels that the heading takes.
pub(super) fn heading_height(title: &str, conditions: &str) -> u32 {
    let height = 14 + lines(title, 70).len() as i32 * 24;
    (height + lines(conditions, LINE_CHARACTERS).len() as i32 * LINE_HEIGHT) as u32
}

/// Pixels that a legend of so many entries takes.
pub(super) fn legend_height(entries: usize) -> u32 {
    entries as u32 * LEGEND_HEIGHT as u32 + 12
}

/// The place of an entry's sample; its text stands behind it.
pub(super) fn legend_entry(canvas: &Canvas<'_>, number: usize, label: &str) -> Result<(i32, i32), DrawError> {
    let y = number as i32 * LEGEND_HEIGHT + LEGEND_HEIGHT / 2;
    canvas.draw(&Text::new(label.to_owned(), (130, y - 8), FONT))?;
    Ok((72, y))
}

/// Breaks a text between words into lines of at most so many characters, if no word is longer.
fn lines(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The SVG with its title, conditions, command and seed as text inside it.
pub(super) fn described(svg: &str, title: &str, conditions: &str, origin: &Origin) -> String {
    let seed = origin.seed.map_or("none".to_owned(), |seed| seed.to_string());
    let about = format!("conditions: {conditions}; seed: {seed}; command: {}", origin.command);
    let head = format!("<title>{}</title>\n<desc>{}</desc>\n", escaped(title), escaped(&about));
    let at = svg.find("<svg").and_then(|at| svg[at..].find('>').map(|end| at + end + 1)).unwrap_or(0);
    format!("{}\n{head}{}", &svg[..at], svg[at..].trim_start_matches('\n'))
}

/// A tick without digits that say nothing.
pub(super) fn tick(value: &f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// The value at a tick of an axis where a doubling is 1.
pub(super) fn doubling_tick(value: &f64) -> String {
    let value = value.exp2();
    if value < 1.0 { tick(&value) } else { format!("{}", value.round()) }
}

/// Text for SVG and HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
