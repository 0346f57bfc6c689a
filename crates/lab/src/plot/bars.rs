//! Draws groups of bars, each with its value above it, its number in the legend below it, and the published value as a line across it.

use super::Style;
use super::canvas::{self, AXES_HEIGHT, Canvas, DrawError, FONT, WIDTH};
use plotters::prelude::{ChartBuilder, Color, IntoDrawingArea, PathElement, Rectangle, SVGBackend, Text};
use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, TextStyle};
use std::borrow::Cow;

/// A bar in each group.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub label: Cow<'static, str>,
    /// Its colour.
    pub style: Style,
    /// A value for each group; not a number where it has none.
    pub values: Vec<f64>,
    /// The paper's value for each group; may be empty.
    pub published: Vec<Option<f64>>,
    /// The smallest and the largest of the measurements behind each value; may be empty.
    pub spread: Vec<(f64, f64)>,
}

impl Series {
    /// Bars of these values, one for each group.
    pub fn new(label: impl Into<Cow<'static, str>>, style: Style, values: Vec<f64>) -> Self {
        Self { label: label.into(), style, values, published: Vec::new(), spread: Vec::new() }
    }

    /// The same with the paper's values.
    #[must_use]
    pub fn beside(self, published: Vec<Option<f64>>) -> Self {
        Self { published, ..self }
    }

    /// The same with the smallest and the largest measurement behind each value.
    #[must_use]
    pub fn with_spread(self, spread: Vec<(f64, f64)>) -> Self {
        Self { spread, ..self }
    }
}

/// Groups of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// File name without `.svg`.
    pub file: Cow<'static, str>,
    /// The heading.
    pub title: Cow<'static, str>,
    /// The conditions of its measurements, below the heading.
    pub conditions: Cow<'static, str>,
    /// Name of the ordinate.
    pub y: &'static str,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// The bars of each group, in order.
    pub series: Vec<Series>,
}

const PUBLISHED: RGBColor = RGBColor(90, 90, 90);
const SMALL: (&str, u32) = ("sans-serif", 11);
/// Pixels below the axis: the numbers of the bars, and below them the names of the groups.
const NUMBERS: i32 = 3;
const NAMES: i32 = 19;
/// Pixels that a text keeps from a line of [`PUBLISHED`].
const LINE: i32 = 4;
/// Share of a group's width that its bars take.
const USED: f64 = 0.84;

impl Bars {
    fn has_published(&self) -> bool {
        self.series.iter().any(|series| series.published.iter().any(Option::is_some))
    }

    fn has_spread(&self) -> bool {
        self.series.iter().any(|series| !series.spread.is_empty())
    }

    fn y_max(&self) -> f64 {
        let all = self.series.iter().flat_map(|series| {
            let published = series.published.iter().copied().flatten();
            let largest = series.spread.iter().map(|spread| spread.1);
            series.values.iter().copied().chain(largest).filter(|value| value.is_finite()).chain(published)
        });
        all.fold(0.0, f64::max) * 1.1
    }
}

pub(super) fn svg(bars: &Bars) -> Result<String, DrawError> {
    let mut text = String::new();
    let head = canvas::heading_height(&bars.title, &bars.conditions);
    let entries = bars.series.len() + usize::from(bars.has_published()) + usize::from(bars.has_spread());
    {
        let size = (WIDTH, head + AXES_HEIGHT + canvas::legend_height(entries));
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&plotters::style::WHITE)?;
        canvas::heading(&area, &bars.title, &bars.conditions)?;
        let (_, below) = area.split_vertically(head);
        let (axes, legend) = below.split_vertically(AXES_HEIGHT);
        draw(bars, &axes)?;
        draw_legend(bars, &legend)?;
        area.present()?;
    }
    Ok(text)
}

fn draw_legend(bars: &Bars, legend: &Canvas<'_>) -> Result<(), DrawError> {
    for (n, series) in bars.series.iter().enumerate() {
        let (x, y) = canvas::legend_entry(legend, n, &format!("{}: {}", n + 1, series.label))?;
        let shape = [(x + 12, y - 6), (x + 34, y + 6)];
        legend.draw(&Rectangle::new(shape, series.style.colour().mix(0.85).filled()))?;
    }
    let mut next = bars.series.len();
    if bars.has_published() {
        let (x, y) = canvas::legend_entry(legend, next, "the paper's value")?;
        legend.draw(&PathElement::new([(x + 6, y), (x + 40, y)], PUBLISHED.stroke_width(3)))?;
        next += 1;
    }
    if bars.has_spread() {
        let (x, y) = canvas::legend_entry(legend, next, "from the smallest to the largest")?;
        draw_spread(legend, x + 22, (y + 8, y - 8))?;
    }
    Ok(())
}

fn draw(bars: &Bars, axes: &Canvas<'_>) -> Result<(), DrawError> {
    let (groups, y_max) = (bars.groups.len() as f64, bars.y_max());
    if groups == 0.0 || y_max <= 0.0 {
        return Err("there is nothing to draw".into());
    }
    let mut chart = ChartBuilder::on(axes)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..groups, 0.0..y_max)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc(bars.y)
        .y_label_formatter(&canvas::tick)
        .light_line_style(plotters::style::TRANSPARENT)
        .label_style(FONT)
        .axis_desc_style(FONT)
        .draw()?;
    let (left, top) = axes.get_base_pixel();
    let pixel = |x: f64, y: f64| {
        let (x, y) = chart.backend_coord(&(x, y));
        (x - left, y - top)
    };
    let width = USED / bars.series.len() as f64;
    let height = value_height(bars, pixel(width, 0.0).0 - pixel(0.0, 0.0).0);
    for (n, group) in bars.groups.iter().enumerate() {
        let (x, y) = pixel(n as f64 + 0.5, 0.0);
        axes.draw(&Text::new(group.clone(), (x, y + NAMES), centred(FONT, VPos::Top)))?;
        for (m, series) in bars.series.iter().enumerate() {
            let from = n as f64 + (1.0 - USED) / 2.0 + m as f64 * width;
            let published = series.published.get(n).copied().flatten();
            let line = published.map(|value| [pixel(from, value), pixel(from + width, value)]);
            if let Some(&value) = series.values.get(n).filter(|value| value.is_finite()) {
                let corners = [pixel(from + width * 0.06, value), pixel(from + width * 0.94, 0.0)];
                draw_bar(axes, series.style, &(m + 1).to_string(), corners)?;
                let mut top = corners[0].1;
                if let Some(&(least, most)) = series.spread.get(n) {
                    let ends = [least, most].map(|value| pixel(0.0, value).1);
                    draw_spread(axes, middle(corners), (ends[0], ends[1]))?;
                    top = top.min(ends[1]);
                }
                let font = centred((SMALL.0, height), VPos::Bottom);
                let foot = foot_of_value(top, height as i32, line.map(|ends| ends[0].1));
                axes.draw(&Text::new(short(value), (middle(corners), foot), font))?;
            }
            if let Some(ends) = line {
                // The edge shows it on a dark bar.
                axes.draw(&PathElement::new(ends, plotters::style::WHITE.stroke_width(5)))?;
                axes.draw(&PathElement::new(ends, PUBLISHED.stroke_width(3)))?;
            }
        }
    }
    Ok(())
}

fn centred(font: (&'static str, u32), vertical: VPos) -> TextStyle<'static> {
    TextStyle::from(font.into_font()).pos(Pos::new(HPos::Center, vertical))
}

/// A bar between two corners, with its number in the legend below the axis: a low bar has no room for it.
fn draw_bar(
    axes: &Canvas<'_>,
    style: Style,
    number: &str,
    corners: [(i32, i32); 2],
) -> Result<(), DrawError> {
    axes.draw(&Rectangle::new(corners, style.colour().mix(0.85).filled()))?;
    axes.draw(&Rectangle::new(corners, plotters::style::BLACK.stroke_width(1)))?;
    let below = (middle(corners), corners[1].1 + NUMBERS);
    Ok(axes.draw(&Text::new(number.to_owned(), below, centred(SMALL, VPos::Top)))?)
}

/// A line between two heights with its ends; the white edge shows it on a dark bar.
fn draw_spread(axes: &Canvas<'_>, x: i32, (low, high): (i32, i32)) -> Result<(), DrawError> {
    let lines = [[(x, low), (x, high)], [(x - 5, low), (x + 5, low)], [(x - 5, high), (x + 5, high)]];
    for (colour, width) in [(plotters::style::WHITE, 4), (plotters::style::BLACK, 2)] {
        for line in lines {
            axes.draw(&PathElement::new(line, colour.stroke_width(width)))?;
        }
    }
    Ok(())
}

/// Pixels of the height of all values: a digit takes half of its height, and bars touch.
fn value_height(bars: &Bars, bar_pixels: i32) -> u32 {
    let values = bars.series.iter().flat_map(|series| &series.values);
    let digits = values.filter(|value| value.is_finite()).map(|&value| short(value).len()).max();
    (2 * bar_pixels as u32 / digits.unwrap_or(1) as u32).clamp(7, SMALL.1)
}

/// Where a value stands: on its bar, or on the line of the published value if that would cross it.
fn foot_of_value(top: i32, height: i32, line: Option<i32>) -> i32 {
    match line {
        Some(line) if (top - height - LINE..=top + LINE).contains(&line) => line.min(top) - LINE,
        _ => top - 2,
    }
}

fn middle(corners: [(i32, i32); 2]) -> i32 {
    i32::midpoint(corners[0].0, corners[1].0)
}

/// Three digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
