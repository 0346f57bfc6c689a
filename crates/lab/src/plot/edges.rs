//! Marks points beyond the axes at the edge that they lie behind: an arrow head, and behind it the curve's marker, so that marks
//! are told apart in grey, too. Marks at the same place stand side by side.

use super::canvas::{Canvas, DrawError};
use super::{Look, Style};
use plotters::prelude::{Color, Polygon};

/// Pixels that a mark takes along its edge.
const WIDTH: i32 = 13;
/// Pixels from the edge to the middle of the marker.
const MARKER: i32 = 15;
/// Pixels of an arrow head, and half of its width.
const ARROW: (i32, i32) = (7, 4);
/// Pixels that marks keep from the ordinate, whose ticks they must not cover, and that they may stand beyond the other end of
/// the abscissa.
const FROM_ORDINATE: i32 = 7;
const OVERHANG: i32 = 12;

/// What lies behind an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// Larger values than the ordinate has. Marks stand above the axes.
    Upper,
    /// Smaller ones. Marks stand above the edge, so that they cover no tick.
    Lower,
    /// Larger abscissas. Marks stand right of the axes.
    Right,
}

/// A point beyond an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub edge: Edge,
    /// Where it is on its edge, in pixels of the canvas.
    pub at: (i32, i32),
    pub style: Style,
    pub look: Look,
}

impl Mark {
    /// Pixels along the edge.
    fn along(&self) -> i32 {
        if self.edge == Edge::Right { self.at.1 } else { self.at.0 }
    }

    /// The same mark, that many pixels along its edge.
    fn moved_to(self, along: i32) -> Self {
        let (x, y) = self.at;
        let at = if self.edge == Edge::Right { (x, along) } else { (along, y) };
        Self { at, ..self }
    }

    fn draw(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let ((x, y), (length, half)) = (self.at, ARROW);
        let (arrow, marker) = match self.edge {
            Edge::Upper => ([(x, y - length), (x + half, y), (x - half, y)], (x, y - MARKER)),
            Edge::Lower => ([(x, y), (x + half, y - length), (x - half, y - length)], (x, y - MARKER)),
            Edge::Right => ([(x + length, y), (x, y - half), (x, y + half)], (x + MARKER, y)),
        };
        canvas.draw(&Polygon::new(arrow, self.style.colour().filled()))?;
        match self.look {
            // A line has no markers.
            Look::Line => Ok(()),
            look => self.style.mark(canvas, marker, look == Look::Published),
        }
    }
}

/// Draws the marks. `ends` are the pixels at which the abscissa and the ordinate end: left, right, upper, lower.
pub(super) fn draw(canvas: &Canvas<'_>, marks: &[Mark], ends: [i32; 4]) -> Result<(), DrawError> {
    let [left, right, upper, lower] = ends;
    for edge in [Edge::Upper, Edge::Lower, Edge::Right] {
        let own: Vec<Mark> = marks.iter().filter(|mark| mark.edge == edge).copied().collect();
        let ends = match edge {
            Edge::Right => (upper, lower),
            Edge::Upper | Edge::Lower => (left + FROM_ORDINATE, right + OVERHANG),
        };
        let wanted: Vec<i32> = own.iter().map(Mark::along).collect();
        for (mark, along) in own.iter().zip(apart(&wanted, ends)) {
            mark.moved_to(along).draw(canvas)?;
        }
    }
    Ok(())
}

/// Moves places along an edge apart, so that none covers another: those that would, stand around the middle of their places, in
/// the order in which they come, within the ends.
fn apart(wanted: &[i32], ends: (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&n| wanted[n]);
    // Groups of marks that touch: the sum of their wanted places, and how many they are.
    let mut groups: Vec<(i32, i32)> = Vec::new();
    let first = |(sum, count): (i32, i32)| {
        let last_first = (ends.1 - (count - 1) * WIDTH).max(ends.0);
        (sum / count - (count - 1) * WIDTH / 2).clamp(ends.0, last_first)
    };
    for &n in &order {
        let mut group = (wanted[n], 1);
        while let Some(&before) = groups.last()
            && first(before) + before.1 * WIDTH > first(group)
        {
            groups.pop();
            group = (before.0 + group.0, before.1 + group.1);
        }
        groups.push(group);
    }
    let places = groups.iter().flat_map(|&group| (0..group.1).map(move |n| first(group) + n * WIDTH));
    let mut moved = vec![0; wanted.len()];
    order.into_iter().zip(places).for_each(|(n, place)| moved[n] = place);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_at_one_place_stand_side_by_side_within_the_ends() {
        assert_eq!(apart(&[50, 200], (0, 300)), [50, 200]);
        assert_eq!(apart(&[50, 50, 50], (0, 300)), [37, 50, 63]);
        assert_eq!(apart(&[298, 50, 298], (0, 300)), [287, 50, 300]);
        assert_eq!(apart(&[2, 2], (0, 300)), [0, 13]);
        // A group that grows takes up its neighbours.
        let moved = apart(&[100, 100, 110, 120], (0, 300));
        assert!(moved.windows(2).all(|pair| pair[1] - pair[0] == WIDTH), "{moved:?}");
    }
}
