//! Cuts a curve at the upper end of the ordinate. What lies above is not drawn, but marked at the edge.

/// The pieces of a curve below the edge, and the places at the edge where something is missing.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Clipped {
    pub pieces: Vec<Vec<(f64, f64)>>,
    /// Abscissas of the points above the edge.
    pub beyond: Vec<f64>,
    /// Abscissas at which the curve leaves the plot.
    pub leaves: Vec<f64>,
}

/// Cuts a curve at an ordinate.
pub(super) fn clip(points: &[(f64, f64)], y_max: f64) -> Clipped {
    let mut clipped = Clipped::default();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    for &(x, y) in points {
        let crossing = before.filter(|(_, y_before)| (*y_before <= y_max) != (y <= y_max));
        let edge = crossing.map(|(x0, y0)| (x0 + (x - x0) * (y_max - y0) / (y - y0), y_max));
        if y <= y_max {
            piece.extend(edge);
            piece.push((x, y));
        } else {
            if let Some(edge) = edge {
                piece.push(edge);
                clipped.leaves.push(edge.0);
            }
            clipped.beyond.push(x);
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

    #[test]
    fn a_curve_is_cut_where_it_leaves_the_plot_and_goes_on_where_it_returns() {
        let clipped = clip(&[(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (3.0, 1.0)], 2.0);
        assert_eq!(clipped.pieces, [[(0.0, 1.0), (0.5, 2.0)], [(2.5, 2.0), (3.0, 1.0)]]);
        assert_eq!((clipped.beyond, clipped.leaves), (vec![1.0, 2.0], vec![0.5]));
    }

    #[test]
    fn a_curve_inside_is_whole_and_one_outside_is_only_marked() {
        let inside = [(0.0, 1.0), (1.0, 2.0)];
        let clipped = clip(&inside, 2.0);
        assert_eq!((clipped.pieces, clipped.beyond), (vec![inside.to_vec()], vec![]));
        let clipped = clip(&inside, 0.5);
        assert_eq!((clipped.pieces, clipped.beyond, clipped.leaves), (vec![], vec![0.0, 1.0], vec![]));
    }
}
