//! Markdown tables whose columns are also aligned for the eye on a terminal.

/// One table: the first row is the header, every row as long as it.
#[must_use]
pub fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(header.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut out = line(header, &widths);
    let rule: Vec<String> = widths.iter().map(|&w| "-".repeat(w)).collect();
    out += &line(&rule, &widths);
    for row in rows {
        out += &line(row, &widths);
    }
    out
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, &w)| format!("{cell:<w$}")).collect();
    format!("| {} |\n", padded.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let strings = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let table = markdown(&strings(&["a", "long header"]), &[strings(&["value", "x"])]);
        assert_eq!(table, "| a     | long header |\n| ----- | ----------- |\n| value | x           |\n");
    }
}
