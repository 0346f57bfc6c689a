//! Cuts a curve at the ends of the axes. What lies beyond them is not drawn, but marked at the edge.

/// The pieces of a curve within the axes, and the places at the edges where something is missing.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Clipped {
    pub pieces: Vec<Vec<(f64, f64)>>,
    /// Points within the axes.
    pub inside: Vec<(f64, f64)>,
    /// Abscissas of the points above the ordinate.
    pub above: Vec<f64>,
    /// Abscissas of the points below it. The curve is broken there: a zero has no place on an axis that doubles.
    pub below: Vec<f64>,
    /// Ordinates of the points right of the abscissa, at most its upper end.
    pub right: Vec<f64>,
    /// Abscissas at which the curve leaves the plot at the upper edge.
    pub leaves: Vec<f64>,
}

impl Clipped {
    /// Nothing lies beyond the axes.
    pub fn is_whole(&self) -> bool {
        self.above.is_empty() && self.below.is_empty() && self.right.is_empty()
    }
}

/// The ends of the axes, apart from the left one, which no point lies beyond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub x_max: f64,
    pub y_min: f64,
    pub y_max: f64,
}

/// Cuts a curve at the ends of the axes.
pub(super) fn clip(points: &[(f64, f64)], ends: Ends) -> Clipped {
    let Ends { x_max, y_min, y_max } = ends;
    let mut clipped = Clipped::default();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    for &(x, y) in points {
        if x > x_max || y < y_min {
            if x > x_max {
                clipped.right.push(y.clamp(y_min, y_max))
            } else {
                clipped.below.push(x)
            }
            clipped.pieces.extend(Some(std::mem::take(&mut piece)).filter(|piece| !piece.is_empty()));
            before = None;
            continue;
        }
        let crossing = before.filter(|(_, y_before)| (*y_before <= y_max) != (y <= y_max));
        let edge = crossing.map(|(x0, y0)| (x0 + (x - x0) * (y_max - y0) / (y - y0), y_max));
        if y <= y_max {
            piece.extend(edge);
            piece.push((x, y));
            clipped.inside.push((x, y));
        } else {
            if let Some(edge) = edge {
                piece.push(edge);
                clipped.leaves.push(edge.0);
            }
            clipped.above.push(x);
            clipped.pieces.extend(Some(std::mem::take(&mut piece)).filter(|piece| !piece.is_empty()));
        }
        before = Some((x, y));
    }
    clipped.pieces.extend(Some(piece).filter(|piece| !piece.is_empty()));
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(y_max: f64) -> Ends {
        Ends { x_max: 10.0, y_min: 0.0, y_max }
    }

    #[test]
    fn a_curve_is_cut_where_it_leaves_the_plot_and_goes_on_where_it_returns() {
        let clipped = clip(&[(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (3.0, 1.0)], up_to(2.0));
        assert_eq!(clipped.pieces, [[(0.0, 1.0), (0.5, 2.0)], [(2.5, 2.0), (3.0, 1.0)]]);
        assert_eq!((clipped.above, clipped.leaves), (vec![1.0, 2.0], vec![0.5]));
        assert_eq!(clipped.inside, [(0.0, 1.0), (3.0, 1.0)]);
    }

    #[test]
    fn a_curve_inside_is_whole_and_one_outside_is_only_marked() {
        let inside = [(0.0, 1.0), (1.0, 2.0)];
        let clipped = clip(&inside, up_to(2.0));
        assert_eq!((clipped.pieces, clipped.above), (vec![inside.to_vec()], vec![]));
        let clipped = clip(&inside, up_to(0.5));
        assert_eq!((clipped.pieces, clipped.above, clipped.leaves), (vec![], vec![0.0, 1.0], vec![]));
    }

    #[test]
    fn a_curve_is_broken_at_a_point_below_the_ordinate_and_at_one_right_of_the_abscissa() {
        let logarithm_of_zero = f64::NEG_INFINITY;
        let points = [(0.0, 1.0), (1.0, 1.5), (2.0, logarithm_of_zero), (3.0, 1.0), (11.0, 7.0)];
        let clipped = clip(&points, up_to(2.0));
        assert_eq!(clipped.pieces, [vec![(0.0, 1.0), (1.0, 1.5)], vec![(3.0, 1.0)]]);
        assert_eq!((clipped.below, clipped.right, clipped.above), (vec![2.0], vec![2.0], vec![]));
    }
}
