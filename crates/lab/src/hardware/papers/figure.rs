//! A figure or table of a paper as we reproduce it: its drawings, its tables, and the claims about it; as text for the terminal.

use crate::hardware::claims::{Claim, Expected};
use crate::micro::table;
use crate::plot::Drawing;

/// Rows of text under a header.
#[derive(Clone, Debug)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose columns have these names.
    pub(super) fn new(title: &str, header: &[&str]) -> Self {
        let header = header.iter().map(|&name| name.to_owned()).collect();
        Self { title: title.to_owned(), header, rows: Vec::new() }
    }

    /// In Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        table::markdown(&header, &self.rows)
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name on the command line: `001/fig8`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Machine, disk, file systems, sizes.
    pub condition: String,
    /// The paper's values that were put in, and are no results.
    pub inputs: &'static str,
    /// What still differs from the paper's experiment.
    pub differences: Vec<&'static str>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
    /// The drawings.
    pub drawings: Vec<Drawing>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The paper's values beside ours.
    pub claims: Vec<Claim>,
}

impl Figure {
    /// The paper's number: `001`.
    #[must_use]
    pub fn paper(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(paper, _)| paper)
    }

    /// For the terminal: the tables and the claims.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n{}\n", self.id, self.title, "-".repeat(self.id.len()));
        for table in &self.tables {
            text += &format!("\n{}\n{}", wrapped(&table.title, ""), table.markdown());
        }
        if !self.claims.is_empty() {
            text += &format!("\n{}", claims_text(&self.claims));
        }
        text
    }
}

/// How far our value is from the published one, or beyond its bound.
#[must_use]
pub fn deviation(claim: &Claim) -> String {
    let (value, is_bound) = match claim.expected {
        Expected::Within { value, .. } => (value, false),
        Expected::AtLeast(value) | Expected::AtMost(value) => (value, true),
    };
    if is_bound && claim.holds() {
        "-".to_owned()
    } else if value == 0.0 {
        format!("{:+.2}", claim.ours)
    } else {
        format!("{:+.0}%", (claim.ours / value - 1.0) * 100.0)
    }
}

/// The published value: a number, or a bound.
#[must_use]
pub fn published(claim: &Claim) -> String {
    match claim.expected {
        Expected::Within { value, .. } => number(value),
        Expected::AtLeast(value) => format!("≥ {}", number(value)),
        Expected::AtMost(value) => format!("≤ {}", number(value)),
    }
}

/// Three digits or more.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The claims as a table of at most 80 columns, and below it what each says.
fn claims_text(claims: &[Claim]) -> String {
    let header = ["claim", "paper", "ours", "deviation", "unit", "kind", "holds"];
    let rows: Vec<Vec<String>> = (1..)
        .zip(claims)
        .map(|(n, claim)| {
            vec![
                format!("({n}) {}", claim.place),
                published(claim),
                number(claim.ours),
                deviation(claim),
                claim.unit.to_owned(),
                claim.kind.to_owned(),
                claim.verdict().to_owned(),
            ]
        })
        .collect();
    let mut text = table::markdown(&header, &rows);
    text.push('\n');
    for (n, claim) in (1..).zip(claims) {
        text += &wrapped(&format!("({n}) {}", claim.what), "    ");
        if let Some(why) = claim.known_miss {
            text += &wrapped(&format!("    known: {why}"), "      ");
        }
    }
    text
}

/// Breaks a text into lines of at most 80 columns; all but the first are indented.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let first = &text[..text.len() - text.trim_start().len()];
    let (mut out, mut column) = (first.to_owned(), first.len());
    for (n, word) in text.split_whitespace().enumerate() {
        let len = word.chars().count();
        if n > 0 && column + 1 + len > 80 {
            out += &format!("\n{indent}");
            column = indent.len();
        } else if n > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += len;
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(expected: Expected, ours: f64) -> Claim {
        Claim::new("001 fig 8", "creates", expected, ours, "ratio")
    }

    #[test]
    fn a_deviation_is_from_the_value_or_from_the_bound_that_is_missed() {
        let within = Expected::Within { value: 10.0, share: 0.5 };
        assert_eq!(deviation(&claim(within, 12.5)), "+25%");
        assert_eq!(deviation(&claim(Expected::AtLeast(2.0), 3.0)), "-");
        assert_eq!(deviation(&claim(Expected::AtLeast(2.0), 1.0)), "-50%");
        assert_eq!(published(&claim(Expected::AtMost(0.95), 1.0)), "≤ 0.95");
    }

    #[test]
    fn the_text_of_a_figure_fits_the_terminal() {
        let long = "a sentence that says at length what is compared with what, and under which condition of the paper";
        let claims = vec![
            Claim::new("000 fig 4", long, Expected::AtLeast(1.0), 0.5, "MB/s")
                .missed("one reason or another"),
        ];
        let text = claims_text(&claims);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("known: one reason"));
    }
}
