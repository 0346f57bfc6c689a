//! The rows in Markdown.

use super::Row;
use crate::hardware::claims::Expected;
use crate::micro::table;

/// A table of the rows, the conditions and the known misses below it.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let header = ["place", "claim", "condition", "paper", "tolerance", "ours", "unit", "kind", "holds"];
    let (mut conditions, mut misses) = (Vec::new(), Vec::new());
    let mut cells = Vec::new();
    for row in rows {
        let claim = &row.claim;
        let condition = numbered(&mut conditions, (row.condition, row.inputs));
        let note = claim.known_miss.map(|why| format!(" ({})", numbered(&mut misses, why)));
        let (paper, tolerance) = expected(claim.expected);
        cells.push(vec![
            claim.place.to_owned(),
            claim.what.clone(),
            letter(condition),
            paper,
            tolerance,
            format!("{:.3}", claim.ours),
            claim.unit.to_owned(),
            claim.kind.to_owned(),
            claim.verdict().to_owned() + &note.unwrap_or_default(),
        ]);
    }
    let mut text = format!("{HEAD}\n{}", table::markdown(&header, &cells));
    for (n, (condition, inputs)) in (1..).zip(&conditions) {
        text += &format!("\n{}: {condition}. Inputs: {inputs}.\n", letter(n));
    }
    for (n, why) in (1..).zip(&misses) {
        text += &format!("\n({n}) Does not hold: {why}.\n");
    }
    text
}

/// Its number among the different ones.
fn numbered<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|other| *other == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    }) + 1
}

fn letter(number: usize) -> String {
    char::from(b'A' + (number as u8 - 1)).to_string()
}

fn expected(expected: Expected) -> (String, String) {
    match expected {
        Expected::Within { value, share } => (format!("{value:.3}"), format!("{:.0}%", share * 100.0)),
        Expected::AtLeast(value) => (format!("at least {value:.2}"), "-".to_owned()),
        Expected::AtMost(value) => (format!("at most {value:.2}"), "-".to_owned()),
    }
}

const HEAD: &str = "\
The log (profile 1993) and the Fast File System itself in virtual time. 001: Sprite LFS, 003: File System Aging,
004: BSD-LFS, 000: USENIX'95. (m): the numeral is lost in our copy and given from the published text. A bound
comes from the words in parentheses. Kind input: the value follows from an input of the row's condition, so that
agreement shows only that the parts are assembled correctly. A row in capitals is not as it was when this was written.
";
