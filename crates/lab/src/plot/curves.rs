//! Draws curves over two axes.

use super::canvas::{self, AXES_HEIGHT, Canvas, DrawError, FONT, WIDTH};
use super::clip::clip;
use super::{Curve, Look, Plot, XScale};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Color, DashedLineSeries, IntoDrawingArea, LineSeries,
    PathElement, SVGBackend,
};

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

pub(super) fn svg(plot: &Plot) -> Result<String, DrawError> {
    let mut text = String::new();
    let head = canvas::heading_height(&plot.title, &plot.conditions);
    let size = (WIDTH, head + AXES_HEIGHT + canvas::legend_height(plot.curves.len()));
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&plotters::style::WHITE)?;
        canvas::heading(&area, &plot.title, &plot.conditions)?;
        let (_, below) = area.split_vertically(head);
        let (axes, legend) = below.split_vertically(AXES_HEIGHT);
        draw(plot, &axes)?;
        for (n, curve) in plot.curves.iter().enumerate() {
            entry(&legend, n, curve)?;
        }
        area.present()?;
    }
    Ok(text)
}

/// Name of a curve, behind a sample of it.
fn entry(legend: &Canvas<'_>, number: usize, curve: &Curve) -> Result<(), DrawError> {
    let (x, y) = canvas::legend_entry(legend, number, &curve.label)?;
    if curve.look != Look::Published {
        curve.style.sample(legend, (x, y))?;
    }
    if curve.look != Look::Line {
        curve.style.mark(legend, (x + 22, y), curve.look == Look::Published)?;
    }
    Ok(())
}

/// The range of the abscissa on the axis, where a doubling is 1.
fn range(plot: &Plot) -> (f64, f64) {
    match plot.x_scale {
        XScale::Linear => (0.0, plot.x_max),
        XScale::Log2 => {
            let all = plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
            (all.fold(plot.x_max, f64::min).log2(), plot.x_max.log2())
        }
    }
}

fn draw(plot: &Plot, axes: &Canvas<'_>) -> Result<(), DrawError> {
    let (from, to) = range(plot);
    let is_finite = |curve: &Curve| curve.points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if to <= from || plot.y_max <= 0.0 || !plot.curves.iter().all(is_finite) {
        return Err("an axis has no length, or a value is not finite".into());
    }
    let mut chart = ChartBuilder::on(axes)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(from..to, 0.0..plot.y_max)?;
    let log2 = |value: &f64| format!("{}", value.exp2().round());
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(plot.x)
        .y_desc(plot.y)
        .x_label_formatter(&canvas::tick)
        .y_label_formatter(&canvas::tick)
        .light_line_style(plotters::style::TRANSPARENT)
        .label_style(FONT)
        .axis_desc_style(FONT);
    if plot.x_scale == XScale::Log2 {
        // No more ticks than doublings, so that none falls between two.
        mesh.x_labels(((to - from).ceil() as usize + 1).min(16)).x_label_formatter(&log2);
    }
    mesh.draw()?;
    plot.curves.iter().try_for_each(|curve| draw_curve(plot, curve, &mut chart, axes))
}

fn draw_curve<'a>(
    plot: &Plot,
    curve: &Curve,
    chart: &mut Chart<'_, 'a>,
    axes: &Canvas<'a>,
) -> Result<(), DrawError> {
    let on_axis = |x: f64| if plot.x_scale == XScale::Log2 { x.log2() } else { x };
    let points: Vec<(f64, f64)> = curve.points.iter().map(|&(x, y)| (on_axis(x), y)).collect();
    let clipped = clip(&points, plot.y_max);
    if curve.look != Look::Published {
        for piece in &clipped.pieces {
            draw_line(curve, piece, chart)?;
        }
    }
    // The canvas begins elsewhere than the drawing.
    let (left, top) = axes.get_base_pixel();
    let pixel = |chart: &Chart<'_, '_>, point: (f64, f64)| {
        let (x, y) = chart.backend_coord(&point);
        (x - left, y - top)
    };
    for (&(x, y), half_width) in points.iter().zip(&curve.half_widths) {
        let [low, high] = [y - half_width, y + half_width].map(|y| y.clamp(0.0, plot.y_max));
        chart.draw_series([PathElement::new([(x, low), (x, high)], curve.style.colour().stroke_width(1))])?;
    }
    if curve.look != Look::Line {
        for &point in points.iter().filter(|point| point.1 <= plot.y_max) {
            curve.style.mark(axes, pixel(chart, point), curve.look == Look::Published)?;
        }
    }
    let beyond = if curve.look == Look::Line { &clipped.leaves } else { &clipped.beyond };
    for &x in beyond {
        curve.style.mark_beyond(axes, pixel(chart, (x, plot.y_max)))?;
    }
    Ok(())
}

fn draw_line(curve: &Curve, piece: &[(f64, f64)], chart: &mut Chart<'_, '_>) -> Result<(), DrawError> {
    let style = curve.style.colour().stroke_width(2);
    let points = piece.iter().copied();
    match curve.style.dash() {
        None => drop(chart.draw_series(LineSeries::new(points, style))?),
        Some((dash, gap)) => drop(chart.draw_series(DashedLineSeries::new(points, dash, gap, style))?),
    }
    Ok(())
}
