//! Plots as SVG, with their numbers beside them as CSV: curves over two axes (`curves`), and groups of bars (`bars`), both on a
//! `canvas`; `numbers` writes the CSV.
//!
//! A scheme keeps its [`Style`] through a report: its colour, dash and marker. The dash and the marker tell the curves apart in
//! grey. The names of the curves stand below the axes, so they cover no tick and no point. A curve ends where the axes end
//! (`clip`); a point beyond is marked at the edge (`edges`). `page` frames reports in HTML. Each SVG names the command, the seed
//! and the conditions that produced it. Callers: the cleaning figures, the curves of disks, the figures of the papers,
//! `firn bench`.

mod bars;
mod canvas;
mod clip;
mod curves;
mod edges;
mod numbers;
mod page;

pub use bars::Bars;
pub use bars::Series;
pub(crate) use canvas::escaped;
pub(crate) use page::page_of;

use crate::error::LabError;
use std::borrow::Cow;
use std::path::Path;

/// Colour, dash and marker of a scheme: an index into the table of styles, which repeats after the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style(pub u8);

/// How the points of a curve are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// A line: a formula, or more points than markers have room for.
    Line,
    /// A line with a marker at each point: measured or simulated points.
    Marked,
    /// Hollow markers without a line: values that a paper gives.
    Published,
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub label: Cow<'static, str>,
    /// Abscissa and ordinate, in order.
    pub points: Vec<(f64, f64)>,
    /// Half the width of each point's interval; empty if there are no intervals. On a linear ordinate only.
    pub half_widths: Vec<f64>,
    /// Its colour, dash and marker.
    pub style: Style,
    /// Line, markers or both.
    pub look: Look,
}

impl Curve {
    /// A curve through these points, with markers.
    pub fn new(label: impl Into<Cow<'static, str>>, style: Style, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, half_widths: Vec::new(), style, look: Look::Marked }
    }

    /// The same, drawn as a line alone.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { look: Look::Line, ..self }
    }

    /// The same as a paper's values.
    #[must_use]
    pub fn published(self) -> Self {
        Self { look: Look::Published, ..self }
    }

    /// The same with half the width of each point's interval.
    #[must_use]
    pub fn with_half_widths(self, half_widths: Vec<f64>) -> Self {
        Self { half_widths, ..self }
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From 0.
    Linear,
    /// From 0, for an abscissa of whole steps: no tick lies between two of them.
    Whole,
    /// Each step doubles the value; from the least one. All abscissas are positive; a point whose ordinate is not is marked at
    /// the lower edge.
    Log2,
}

impl Scale {
    /// A value on the axis, where a doubling is 1.
    fn on_axis(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::Whole => value,
            Self::Log2 => value.log2(),
        }
    }
}

/// One plot of curves.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without `.svg`.
    pub file: Cow<'static, str>,
    /// The heading.
    pub title: Cow<'static, str>,
    /// The conditions of its measurements, below the heading.
    pub conditions: Cow<'static, str>,
    /// Name of the abscissa.
    pub x: &'static str,
    /// Name of the ordinate.
    pub y: &'static str,
    /// Scale of the abscissa.
    pub x_scale: Scale,
    /// Scale of the ordinate.
    pub y_scale: Scale,
    /// The abscissa ends here.
    pub x_max: f64,
    /// The ordinate ends here.
    pub y_max: f64,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A plot of either kind.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Curves.
    Curves(Plot),
    /// Bars.
    Bars(Bars),
}

/// What produced a drawing.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The command that draws it again.
    pub command: String,
    /// The seed of its random numbers; `None` if it uses none.
    pub seed: Option<u64>,
}

impl Origin {
    /// A command that uses this seed.
    pub fn seeded(command: impl Into<String>, seed: u64) -> Self {
        Self { command: command.into(), seed: Some(seed) }
    }

    /// A command without random numbers.
    pub fn of(command: impl Into<String>) -> Self {
        Self { command: command.into(), seed: None }
    }
}

impl Drawing {
    /// File name without `.svg`.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Curves(plot) => &plot.file,
            Self::Bars(bars) => &bars.file,
        }
    }

    /// The heading.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Curves(plot) => &plot.title,
            Self::Bars(bars) => &bars.title,
        }
    }

    /// The numbers, a line for each point or bar.
    #[must_use]
    pub fn csv(&self) -> String {
        match self {
            Self::Curves(plot) => numbers::of_curves(plot),
            Self::Bars(bars) => numbers::of_bars(bars),
        }
    }

    /// The text of an SVG file.
    ///
    /// # Errors
    /// It cannot be drawn: an axis has no length, or a value is not finite.
    pub fn svg(&self, origin: &Origin) -> Result<String, LabError> {
        let (drawn, conditions) = match self {
            Self::Curves(plot) => (curves::svg(plot), &plot.conditions),
            Self::Bars(bars) => (bars::svg(bars), &bars.conditions),
        };
        let text = drawn.map_err(|e| LabError::Setup(format!("cannot draw {}: {e}", self.file())))?;
        Ok(canvas::described(&text, self.title(), conditions, origin))
    }
}

/// Writes drawings into a directory, which is made if it does not exist: `figure-9.svg` and `figure-9.csv` for the file `figure-9`.
///
/// # Errors
/// A plot cannot be drawn, or a file cannot be written.
pub fn write_drawings(directory: &Path, drawings: &[Drawing], origin: &Origin) -> Result<(), LabError> {
    std::fs::create_dir_all(directory).map_err(LabError::io("create", directory))?;
    drawings.iter().try_for_each(|drawing| {
        let write = |extension: &str, text: String| {
            let path = directory.join(format!("{}.{extension}", drawing.file()));
            std::fs::write(&path, text).map_err(LabError::io("write", &path))
        };
        write("svg", drawing.svg(origin)?)?;
        write("csv", drawing.csv())
    })
}

/// The same for plots of curves.
///
/// # Errors
/// As [`write_drawings`].
pub fn write_all(directory: &Path, plots: &[Plot], origin: &Origin) -> Result<(), LabError> {
    let drawings: Vec<Drawing> = plots.iter().cloned().map(Drawing::Curves).collect();
    write_drawings(directory, &drawings, origin)
}

#[cfg(test)]
mod tests;
