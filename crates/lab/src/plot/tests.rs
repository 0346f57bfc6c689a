//! What the drawings have to contain.

use super::canvas::STYLES;
use super::*;
use plotters::prelude::{IntoDrawingArea, SVGBackend};

fn plot(x_scale: Scale, points: Vec<(f64, f64)>) -> Plot {
    Plot {
        file: "f".into(),
        title: "T & t".into(),
        conditions: "4 at a time".into(),
        x: "kilobytes",
        y: "MB/s",
        x_scale,
        y_scale: Scale::Linear,
        x_max: 1024.0,
        y_max: 2.0,
        curves: vec![
            Curve::new("FFS <today>, m8", Style(1), points).with_half_widths(vec![0.1; 3]),
            Curve::new("the paper", Style(0), vec![(64.0, 1.0)]).published(),
        ],
    }
}

fn drawn(plot: Plot) -> String {
    Drawing::Curves(plot).svg(&Origin::seeded("firn paper f", 7)).unwrap()
}

#[test]
fn a_drawing_says_how_it_was_made() {
    let svg = drawn(plot(Scale::Linear, vec![(1.0, 1.0), (64.0, 1.5), (1024.0, 0.5)]));
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in
        ["<title>T &amp; t</title>", "4 at a time; seed: 7; command: firn paper f", "FFS &lt;today&gt;, m8"]
    {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    assert!(!svg.contains("NaN"));
    let ticks: Vec<&str> = svg.lines().map(str::trim).filter(|line| line.parse::<f64>().is_ok()).collect();
    assert!(ticks.contains(&"1000") && ticks.contains(&"0.2"), "{ticks:?}");
    assert!(!ticks.iter().any(|tick| tick.ends_with(".0")), "whole numbers are whole: {ticks:?}");
}

#[test]
fn an_axis_that_doubles_has_powers_of_two_at_its_ticks() {
    let svg = drawn(plot(Scale::Log2, vec![(1.0, 1.0), (64.0, 1.5), (1024.0, 0.5)]));
    let ticks = svg.lines().map(str::trim).filter_map(|line| line.parse::<u64>().ok());
    let ticks: Vec<u64> = ticks.filter(|tick| *tick > 2).collect();
    assert_eq!(ticks, [4, 8, 16, 32, 64, 128, 256, 512, 1024]);
}

#[test]
fn rare_values_stand_above_an_ordinate_that_doubles_and_a_zero_is_marked_at_its_lower_edge() {
    let points = vec![(1.0, 4096.0), (64.0, 0.0), (1024.0, 1.0)];
    let counts = Plot { y_scale: Scale::Log2, y_max: 4096.0, ..plot(Scale::Log2, points) };
    let svg = drawn(Plot {
        curves: vec![Curve::new("counts", Style(1), counts.curves[0].points.clone())],
        ..counts
    });
    let ticks = svg.lines().map(str::trim).filter_map(|line| line.parse::<u64>().ok());
    let ticks: Vec<u64> = ticks.filter(|tick| *tick > 1024).collect();
    assert_eq!(ticks, [2048, 4096]);
    // Two markers, one and an arrow at the lower edge, and the sample of the legend.
    assert_eq!(svg.matches("<polygon").count(), 5, "{svg}");
    // The line is broken at the zero: neither side of it has two points.
    let colour = Style(1).colour();
    let dashes = format!(r##"stroke="#{:02X}{:02X}{:02X}" stroke-width="2""##, colour.0, colour.1, colour.2);
    let in_legend = 4;
    assert_eq!(svg.matches(&dashes).count(), in_legend, "{svg}");
    assert!(svg.contains("arrow at an edge"));
}

/// Corners of the arrow heads, which are polygons of three corners, other than the markers of the tests.
fn arrows(svg: &str) -> Vec<String> {
    let corners = |line: &str| Some(line.split("points=\"").nth(1)?.split('"').next()?.trim().to_owned());
    let all = svg.lines().filter(|line| line.starts_with("<polygon")).filter_map(corners);
    all.filter(|corners| corners.matches(',').count() == 3).collect()
}

#[test]
fn a_point_above_the_ordinate_or_right_of_the_abscissa_is_marked_at_the_edge() {
    let at = |point| drawn(plot(Scale::Linear, vec![(1.0, 1.0), point, (1024.0, 0.5)]));
    assert_eq!(arrows(&at((64.0, 1.5))).len(), 0);
    assert_eq!(arrows(&at((64.0, 3.0))).len(), 1);
    let mut right = plot(Scale::Log2, vec![(1.0, 1.0), (64.0, 1.5)]);
    right.curves.push(Curve::new("published", Style(1), vec![(4096.0, 1.0)]).published());
    assert_eq!(arrows(&drawn(right)).len(), 1);
}

#[test]
fn marks_at_the_same_place_of_an_edge_stand_side_by_side_with_their_markers() {
    let beyond = |style| Curve::new("c", Style(style), vec![(1.0, 1.0), (512.0, 3.0)]);
    let svg = drawn(Plot { curves: vec![beyond(1), beyond(3)], ..plot(Scale::Linear, Vec::new()) });
    let all = arrows(&svg);
    assert!(all.len() == 2 && all[0] != all[1], "{all:?}");
    // A square for each of: point, mark and legend.
    let squares = |line: &&str| line.starts_with("<polygon") && line.matches(',').count() == 4;
    assert_eq!(svg.lines().filter(squares).count(), 3);
}

#[test]
fn whole_steps_have_no_ticks_between_them() {
    let points = vec![(1.0, 1.0), (2.0, 1.5)];
    let ticks = |x_scale| {
        let svg = drawn(Plot { x_max: 2.0, y_max: 40.0, ..plot(x_scale, points.clone()) });
        let numbers = svg.lines().filter_map(|line| line.trim().parse::<f64>().ok());
        numbers.filter(|tick| tick.fract() != 0.0).count()
    };
    assert!(ticks(Scale::Linear) > 0);
    assert_eq!(ticks(Scale::Whole), 0);
}

#[test]
fn the_number_of_a_low_bar_stands_below_its_value_and_above_the_name_of_its_group() {
    let bars = Bars {
        file: "b".into(),
        title: "B".into(),
        conditions: "c".into(),
        y: "files/s",
        groups: vec!["create".to_owned()],
        series: vec![Series::new("LFS", Style(0), vec![0.25]), Series::new("FFS", Style(1), vec![990.0])],
    };
    let svg = Drawing::Bars(bars).svg(&Origin::of("firn")).unwrap();
    let [value, number, name] = ["0.25", "1", "create"].map(|text| heights(&svg, text)[0]);
    // The foot of the value, and the tops of the others.
    assert!(value < number && number + 11 <= name, "{value} {number} {name}");
}

#[test]
fn an_interval_has_two_ends_and_only_points_on_the_axes_have_one() {
    let strokes = |highest| {
        let svg = drawn(plot(Scale::Linear, vec![(1.0, 1.0), (64.0, highest), (1024.0, 0.5)]));
        svg.matches(r##"stroke="#D55E00" stroke-width="1""##).count()
    };
    assert_eq!([strokes(1.5), strokes(3.0)], [9, 6]);
}

#[test]
fn a_value_that_is_not_a_number_is_an_error() {
    let bad = plot(Scale::Linear, vec![(1.0, f64::NAN)]);
    assert!(Drawing::Curves(bad).svg(&Origin::of("firn")).is_err());
}

#[test]
fn the_numbers_stand_beside_the_drawing() {
    let curves = Drawing::Curves(plot(Scale::Linear, vec![(1.0, 1.5)]));
    let expected = "series,kind,kilobytes,MB/s,half_width\n\
                    \"FFS <today>, m8\",ours,1,1.5,0.1\nthe paper,published,64,1,\n";
    assert_eq!(curves.csv(), expected);
    let series = Series::new("LFS", Style(0), vec![2.0, f64::NAN])
        .beside(vec![None, Some(3.0)])
        .with_spread(vec![(1.5, 2.5)]);
    let bars = Drawing::Bars(Bars {
        file: "b".into(),
        title: "B".into(),
        conditions: "c".into(),
        y: "files/s",
        groups: vec!["create".to_owned(), "delete".to_owned()],
        series: vec![series],
    });
    let expected =
        "series,group,files/s,published,smallest,largest\nLFS,create,2,,1.5,2.5\nLFS,delete,,3,,\n";
    assert_eq!(bars.csv(), expected);
    let svg = bars.svg(&Origin::of("firn")).unwrap();
    assert!(svg.contains("create") && svg.contains("1: LFS") && svg.contains("the paper&apos;s value"));
    let directory = tempfile::tempdir().unwrap();
    write_drawings(directory.path(), &[bars, curves], &Origin::of("firn")).unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b.csv", "b.svg", "f.csv", "f.svg"]);
}

#[test]
fn an_axis_that_doubles_names_fractions() {
    let svg = drawn(plot(Scale::Log2, vec![(0.25, 1.0), (64.0, 1.5), (1024.0, 0.5)]));
    let ticks: Vec<&str> = svg.lines().map(str::trim).collect();
    assert!(ticks.contains(&"0.25") && ticks.contains(&"0.5"), "{ticks:?}");
}

#[test]
fn styles_differ_by_their_markers() {
    let mark = |style: u8| {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, (20, 20)).into_drawing_area();
        Style(style).mark(&area, (10, 10), false).unwrap();
        drop(area);
        // Without the colour, as in grey.
        let hash = |(at, _): (usize, &str)| at..at + 7;
        let colours: Vec<_> = text.match_indices('#').map(hash).collect();
        colours.into_iter().for_each(|place| text.replace_range(place, "#000000"));
        text
    };
    let all: std::collections::BTreeSet<String> = (0..STYLES as u8).map(mark).collect();
    assert_eq!(all.len(), STYLES);
}

/// Heights of the foot of a text.
fn heights(svg: &str, text: &str) -> Vec<i32> {
    let lines: Vec<&str> = svg.lines().collect();
    let before = |n: &usize| lines[n + 1].trim() == text;
    let y = |n: usize| lines[n].split("y=\"").nth(1)?.split('"').next()?.parse().ok();
    (0..lines.len() - 1).filter(before).filter_map(y).collect()
}

#[test]
fn a_value_stands_above_the_line_of_the_paper_that_would_cross_it() {
    let series =
        Series::new("LFS", Style(0), vec![50.0; 4]).beside(vec![None, Some(52.0), Some(50.0), Some(99.0)]);
    let bars = Bars {
        file: "b".into(),
        title: "B".into(),
        conditions: "c".into(),
        y: "percent",
        groups: ["none", "above", "same", "far"].map(str::to_owned).to_vec(),
        series: vec![series],
    };
    let svg = Drawing::Bars(bars).svg(&Origin::of("firn")).unwrap();
    let [none, above, same, far] = heights(&svg, "50.0")[..] else { panic!("{svg}") };
    assert!(above < same && same < none && far == none, "{above} {same} {none} {far}");
}
