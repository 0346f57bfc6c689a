//! Draws curves over two axes.

use super::canvas::{self, AXES_HEIGHT, Canvas, DrawError, FONT, WIDTH};
use super::clip::clip;
use super::{Curve, Look, Plot, Scale};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Color, DashedLineSeries, IntoDrawingArea, LineSeries, SVGBackend,
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

/// The range of an axis up to a value, where a doubling is 1, at least one doubling; `of` is the value of a point on it.
fn range(plot: &Plot, scale: Scale, max: f64, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    match scale {
        Scale::Linear => (0.0, max),
        Scale::Log2 => {
            let all = plot.curves.iter().flat_map(|curve| &curve.points).map(of);
            (all.filter(|value| *value > 0.0).fold(max / 2.0, f64::min).log2(), max.log2())
        }
    }
}

fn draw(plot: &Plot, axes: &Canvas<'_>) -> Result<(), DrawError> {
    let (from, to) = range(plot, plot.x_scale, plot.x_max, |point| point.0);
    let (low, high) = range(plot, plot.y_scale, plot.y_max, |point| point.1);
    let is_finite = |curve: &Curve| curve.points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if to <= from || high <= low || !plot.curves.iter().all(is_finite) {
        return Err("an axis has no length, or a value is not finite".into());
    }
    let mut chart = ChartBuilder::on(axes)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(from..to, low..high)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(plot.x)
        .y_desc(plot.y)
        .x_label_formatter(&canvas::tick)
        .y_label_formatter(&canvas::tick)
        .light_line_style(plotters::style::TRANSPARENT)
        .label_style(FONT)
        .axis_desc_style(FONT);
    // No more ticks than doublings, so that none falls between two.
    let ticks = |from: f64, to: f64| ((to - from).ceil() as usize + 1).min(16);
    if plot.x_scale == Scale::Log2 {
        mesh.x_labels(ticks(from, to)).x_label_formatter(&canvas::doubling_tick);
    }
    if plot.y_scale == Scale::Log2 {
        mesh.y_labels(ticks(low, high)).y_label_formatter(&canvas::doubling_tick);
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
    let is_on_axis = |&&(_, y): &&(f64, f64)| plot.y_scale == Scale::Linear || y > 0.0;
    let on_axes = |&(x, y): &(f64, f64)| (plot.x_scale.on_axis(x), plot.y_scale.on_axis(y));
    let points: Vec<(f64, f64)> = curve.points.iter().filter(is_on_axis).map(on_axes).collect();
    let y_max = plot.y_scale.on_axis(plot.y_max);
    let clipped = clip(&points, y_max);
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
    let intervals = curve.points.iter().zip(&curve.half_widths);
    for (&(x, y), half_width) in intervals.filter(|((_, y), _)| *y <= plot.y_max) {
        let x = plot.x_scale.on_axis(x);
        let [low, high] = [y - half_width, y + half_width].map(|y| y.clamp(0.0, plot.y_max));
        curve.style.mark_interval(axes, pixel(chart, (x, low)), pixel(chart, (x, high)))?;
    }
    if curve.look != Look::Line {
        for &point in points.iter().filter(|point| point.1 <= y_max) {
            curve.style.mark(axes, pixel(chart, point), curve.look == Look::Published)?;
        }
    }
    let beyond = if curve.look == Look::Line { &clipped.leaves } else { &clipped.beyond };
    for &x in beyond {
        curve.style.mark_beyond(axes, pixel(chart, (x, y_max)))?;
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
