//! Draws groups of bars, each with its value above it and the published value as a line across it.

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
/// Share of a group's width that its bars take.
const USED: f64 = 0.84;

impl Bars {
    fn has_published(&self) -> bool {
        self.series.iter().any(|series| series.published.iter().any(Option::is_some))
    }

    fn y_max(&self) -> f64 {
        let all = self.series.iter().flat_map(|series| {
            let published = series.published.iter().copied().flatten();
            series.values.iter().copied().filter(|value| value.is_finite()).chain(published)
        });
        all.fold(0.0, f64::max) * 1.1
    }
}

pub(super) fn svg(bars: &Bars) -> Result<String, DrawError> {
    let mut text = String::new();
    let head = canvas::heading_height(&bars.title, &bars.conditions);
    let entries = bars.series.len() + usize::from(bars.has_published());
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
    if bars.has_published() {
        let (x, y) = canvas::legend_entry(legend, bars.series.len(), "the paper's value")?;
        legend.draw(&PathElement::new([(x + 6, y), (x + 40, y)], PUBLISHED.stroke_width(3)))?;
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
        .x_label_area_size(34)
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
    let centred =
        |font: (&'static str, u32), v| TextStyle::from(font.into_font()).pos(Pos::new(HPos::Center, v));
    let pixel = |x: f64, y: f64| {
        let (x, y) = chart.backend_coord(&(x, y));
        (x - left, y - top)
    };
    for (n, group) in bars.groups.iter().enumerate() {
        let (x, y) = pixel(n as f64 + 0.5, 0.0);
        axes.draw(&Text::new(group.clone(), (x, y + 8), centred(FONT, VPos::Top)))?;
        let width = USED / bars.series.len() as f64;
        for (m, series) in bars.series.iter().enumerate() {
            let from = n as f64 + (1.0 - USED) / 2.0 + m as f64 * width;
            let (left, right) = (from + width * 0.06, from + width * 0.94);
            if let Some(&value) = series.values.get(n).filter(|value| value.is_finite()) {
                let corners = [pixel(left, value), pixel(right, 0.0)];
                axes.draw(&Rectangle::new(corners, series.style.colour().mix(0.85).filled()))?;
                axes.draw(&Rectangle::new(corners, plotters::style::BLACK.stroke_width(1)))?;
                let (x, y) = pixel(from + width / 2.0, value);
                axes.draw(&Text::new(short(value), (x, y - 2), centred(SMALL, VPos::Bottom)))?;
                let (x, y) = pixel(from + width / 2.0, 0.0);
                let colour = series.style.text_colour();
                let number = centred(SMALL, VPos::Bottom).color(&colour);
                axes.draw(&Text::new(format!("{}", m + 1), (x, y - 1), number))?;
            }
            if let Some(published) = series.published.get(n).copied().flatten() {
                let ends = [pixel(from, published), pixel(from + width, published)];
                axes.draw(&PathElement::new(ends, PUBLISHED.stroke_width(3)))?;
            }
        }
    }
    Ok(())
}

/// Three digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
