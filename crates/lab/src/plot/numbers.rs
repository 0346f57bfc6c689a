//! The numbers of a drawing as CSV: a line for each point or bar, so that drawings with different abscissas have one form.

use super::{Bars, Look, Plot};

/// `series,kind,x,y,half_width`; the kind is `ours` or `published`.
pub(super) fn of_curves(plot: &Plot) -> String {
    let mut text = format!("series,kind,{},{},half_width\n", field(plot.x), field(plot.y));
    for curve in &plot.curves {
        let kind = if curve.look == Look::Published { "published" } else { "ours" };
        for (n, (x, y)) in curve.points.iter().enumerate() {
            let half_width = curve.half_widths.get(n).map(ToString::to_string).unwrap_or_default();
            text += &format!("{},{kind},{x},{y},{half_width}\n", field(&curve.label));
        }
    }
    text
}

/// `series,group,value,published,smallest,largest`.
pub(super) fn of_bars(bars: &Bars) -> String {
    let mut text = format!("series,group,{},published,smallest,largest\n", field(bars.y));
    for series in &bars.series {
        for (n, group) in bars.groups.iter().enumerate() {
            let ours = series.values.get(n).filter(|value| value.is_finite());
            let spread = series.spread.get(n).copied().unzip();
            let published = series.published.get(n).copied().flatten();
            let [ours, published, smallest, largest] = [ours.copied(), published, spread.0, spread.1]
                .map(|value| value.map(|value| value.to_string()).unwrap_or_default());
            let names = format!("{},{}", field(&series.label), field(group));
            text += &format!("{names},{ours},{published},{smallest},{largest}\n");
        }
    }
    text
}

/// A field, in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
