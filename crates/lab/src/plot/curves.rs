//! Draws curves over two axes.

use super::canvas::{self, AXES_HEIGHT, Canvas, DrawError, FONT, WIDTH};
use super::clip::{Clipped, Ends, clip};
use super::edges::{self, Edge, Mark};
use super::{Curve, Look, Plot, Scale};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Color, DashedLineSeries, IntoDrawingArea, LineSeries, SVGBackend,
};

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Pixels above axes with marks at their upper edge.
const MARKS_ABOVE: u32 = 26;

pub(super) fn svg(plot: &Plot) -> Result<String, DrawError> {
    let clipped = clipped(plot)?;
    let is_cut = clipped.iter().any(|clipped| !clipped.is_whole());
    let mut text = String::new();
    let head = canvas::heading_height(&plot.title, &plot.conditions);
    let entries = plot.curves.len() + usize::from(is_cut);
    let size = (WIDTH, head + AXES_HEIGHT + canvas::legend_height(entries));
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&plotters::style::WHITE)?;
        canvas::heading(&area, &plot.title, &plot.conditions)?;
        let (_, below) = area.split_vertically(head);
        let (axes, legend) = below.split_vertically(AXES_HEIGHT);
        draw(plot, &clipped, &axes)?;
        for (n, curve) in plot.curves.iter().enumerate() {
            entry(&legend, n, curve)?;
        }
        if is_cut {
            canvas::legend_entry(
                &legend,
                plot.curves.len(),
                "arrow at an edge: the value lies beyond the axis",
            )?;
        }
        area.present()?;
    }
    Ok(text)
}

/// The curves as they are on the axes.
fn clipped(plot: &Plot) -> Result<Vec<Clipped>, DrawError> {
    let (from, to) = range(plot, plot.x_scale, plot.x_max, |point| point.0);
    let (low, high) = range(plot, plot.y_scale, plot.y_max, |point| point.1);
    let is_finite = |curve: &Curve| curve.points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if to <= from || high <= low || !plot.curves.iter().all(is_finite) {
        return Err("an axis has no length, or a value is not finite".into());
    }
    let on_axes = |&(x, y): &(f64, f64)| (plot.x_scale.on_axis(x), plot.y_scale.on_axis(y));
    let ends = Ends { x_max: to, y_min: low, y_max: high };
    let of = |curve: &Curve| clip(&curve.points.iter().map(on_axes).collect::<Vec<_>>(), ends);
    Ok(plot.curves.iter().map(of).collect())
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
        Scale::Linear | Scale::Whole => (0.0, max),
        Scale::Log2 => {
            let all = plot.curves.iter().flat_map(|curve| &curve.points).map(of);
            (all.filter(|value| *value > 0.0).fold(max / 2.0, f64::min).log2(), max.log2())
        }
    }
}

fn draw(plot: &Plot, clipped: &[Clipped], axes: &Canvas<'_>) -> Result<(), DrawError> {
    let (from, to) = range(plot, plot.x_scale, plot.x_max, |point| point.0);
    let (low, high) = range(plot, plot.y_scale, plot.y_max, |point| point.1);
    let marks_above = clipped.iter().any(|clipped| !clipped.above.is_empty());
    let mut chart = ChartBuilder::on(axes)
        .margin(12)
        .margin_top(if marks_above { MARKS_ABOVE } else { 12 })
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
    // No more ticks than doublings or whole values, so that none falls between two.
    let ticks = |from: f64, to: f64| ((to - from).ceil() as usize + 1).min(16);
    if plot.x_scale != Scale::Linear {
        mesh.x_labels(ticks(from, to));
    }
    if plot.x_scale == Scale::Log2 {
        mesh.x_label_formatter(&canvas::doubling_tick);
    }
    if plot.y_scale == Scale::Log2 {
        mesh.y_labels(ticks(low, high)).y_label_formatter(&canvas::doubling_tick);
    }
    mesh.draw()?;
    let mut marks = Vec::new();
    for (curve, clipped) in plot.curves.iter().zip(clipped) {
        draw_curve(plot, curve, clipped, &mut chart, axes)?;
        marks.extend(marks_of(curve, clipped, &chart, axes));
    }
    let [(left, lower), (right, upper)] = [(from, low), (to, high)].map(|end| pixel(&chart, axes, end));
    edges::draw(axes, &marks, [left, right, upper, lower])
}

/// Where a point on the axes lies on the canvas, which begins elsewhere than the drawing.
fn pixel(chart: &Chart<'_, '_>, axes: &Canvas<'_>, point: (f64, f64)) -> (i32, i32) {
    let (left, top) = axes.get_base_pixel();
    let (x, y) = chart.backend_coord(&point);
    (x - left, y - top)
}

fn draw_curve<'a>(
    plot: &Plot,
    curve: &Curve,
    clipped: &Clipped,
    chart: &mut Chart<'_, 'a>,
    axes: &Canvas<'a>,
) -> Result<(), DrawError> {
    if curve.look != Look::Published {
        for piece in &clipped.pieces {
            draw_line(curve, piece, chart)?;
        }
    }
    let intervals = curve.points.iter().zip(&curve.half_widths);
    let is_inside = |(x, y): (f64, f64)| x <= plot.x_max && y <= plot.y_max;
    for (&(x, y), half_width) in intervals.filter(|(point, _)| is_inside(**point)) {
        let x = plot.x_scale.on_axis(x);
        let ends = [y - half_width, y + half_width].map(|y| y.clamp(0.0, plot.y_max));
        let [low, high] = ends.map(|y| pixel(chart, axes, (x, y)));
        curve.style.mark_interval(axes, low, high)?;
    }
    if curve.look != Look::Line {
        for &point in &clipped.inside {
            curve.style.mark(axes, pixel(chart, axes, point), curve.look == Look::Published)?;
        }
    }
    Ok(())
}

/// Marks for what lies beyond the axes.
fn marks_of(curve: &Curve, clipped: &Clipped, chart: &Chart<'_, '_>, axes: &Canvas<'_>) -> Vec<Mark> {
    let (to, low_high) = (chart.x_range().end, chart.y_range());
    let above = if curve.look == Look::Line { &clipped.leaves } else { &clipped.above };
    let above = above.iter().map(|&x| (Edge::Upper, (x, low_high.end)));
    let below = clipped.below.iter().map(|&x| (Edge::Lower, (x, low_high.start)));
    let right = clipped.right.iter().map(|&y| (Edge::Right, (to, y)));
    let mark =
        |(edge, point)| Mark { edge, at: pixel(chart, axes, point), style: curve.style, look: curve.look };
    above.chain(below).chain(right).map(mark).collect()
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
