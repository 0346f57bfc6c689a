//! Plots as SVG: curves over two linear axes. Callers: the cleaning figures, the curves of disks, the figures of papers.

use crate::error::LabError;
use plotters::chart::SeriesLabelPosition;
use plotters::prelude::{ChartBuilder, Color, IntoDrawingArea, LineSeries, PathElement, SVGBackend};
use plotters::style::RGBColor;
use std::borrow::Cow;
use std::path::Path;

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub label: Cow<'static, str>,
    /// Abscissa and ordinate, in order.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve through these points.
    pub fn new(label: impl Into<Cow<'static, str>>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points }
    }
}

/// The corner of a plot that has room for the names of its curves.
#[derive(Clone, Copy, Debug)]
pub enum Corner {
    /// At the top on the left.
    UpperLeft,
    /// At the bottom on the right.
    LowerRight,
}

/// One plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without `.svg`.
    pub file: &'static str,
    /// The heading.
    pub title: Cow<'static, str>,
    /// The conditions of its measurements, below the heading.
    pub conditions: Cow<'static, str>,
    /// Name of the abscissa.
    pub x: &'static str,
    /// Name of the ordinate.
    pub y: &'static str,
    /// The abscissa begins at 0 and ends here.
    pub x_max: f64,
    /// The ordinate begins at 0 and ends here.
    pub y_max: f64,
    /// Where the names of the curves go.
    pub legend: Corner,
    /// The curves.
    pub curves: Vec<Curve>,
}

const SIZE: (u32, u32) = (760, 480);
const FONT: (&str, u32) = ("sans-serif", 18);
/// Distinguishable also by colour-blind readers (Okabe and Ito 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// The plot as the text of an SVG file.
///
/// # Errors
/// It cannot be drawn: an axis has no length.
pub fn svg(plot: &Plot) -> Result<String, LabError> {
    let mut text = String::new();
    draw(plot, &mut text).map_err(|e| LabError::Setup(format!("cannot draw {}: {e}", plot.file)))?;
    Ok(text)
}

/// Writes plots into a directory, which is made if it does not exist: `figure-9.svg` for the file `figure-9`.
///
/// # Errors
/// A plot cannot be drawn, or a file cannot be written.
pub fn write_all(directory: &Path, plots: &[Plot]) -> Result<(), LabError> {
    std::fs::create_dir_all(directory).map_err(LabError::io("create", directory))?;
    plots.iter().try_for_each(|plot| {
        let path = directory.join(plot.file).with_extension("svg");
        std::fs::write(&path, svg(plot)?).map_err(LabError::io("write", &path))
    })
}

fn draw(plot: &Plot, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&plotters::style::WHITE)?;
    let titled = area.titled(&plot.title, ("sans-serif", 22))?;
    let mut chart = ChartBuilder::on(&titled)
        .caption(&plot.conditions, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..plot.x_max, 0.0..plot.y_max)?;
    chart
        .configure_mesh()
        .x_desc(plot.x)
        .y_desc(plot.y)
        .light_line_style(plotters::style::TRANSPARENT)
        .label_style(FONT)
        .axis_desc_style(FONT)
        .draw()?;
    for (curve, colour) in plot.curves.iter().zip(COLOURS.iter().cycle()) {
        // A curve ends where it leaves the plot at the top.
        let inside = curve.points.iter().copied().take_while(|(_, y)| *y <= plot.y_max);
        chart
            .draw_series(LineSeries::new(inside, colour.stroke_width(2)))?
            .label(curve.label.as_ref())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .label_font(FONT)
        .position(match plot.legend {
            Corner::UpperLeft => SeriesLabelPosition::UpperLeft,
            Corner::LowerRight => SeriesLabelPosition::LowerRight,
        })
        .background_style(plotters::style::WHITE.mix(0.85))
        .border_style(RGBColor(160, 160, 160))
        .draw()?;
    area.present()?;
    Ok(())
}
