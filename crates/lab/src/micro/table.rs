//! Markdown tables whose columns are also aligned for the eye on a terminal.

/// One table: the first row is the header, every row as long as it.
#[must_use]
pub fn markdown<S: AsRef<str>>(header: &[S], rows: &[Vec<String>]) -> String {
    let header: Vec<&str> = header.iter().map(AsRef::as_ref).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain(header.get(column).copied()).map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut out = line(&header, &widths);
    let rule: Vec<String> = widths.iter().map(|&w| "-".repeat(w)).collect();
    out += &line(&rule, &widths);
    for row in rows {
        out += &line(row, &widths);
    }
    out
}

fn line<S: AsRef<str>>(cells: &[S], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, &w)| format!("{:<w$}", cell.as_ref())).collect();
    format!("| {} |\n", padded.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let strings = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let table = markdown(&["a", "long header"], &[strings(&["value", "x"])]);
        assert_eq!(table, "| a     | long header |\n| ----- | ----------- |\n| value | x           |\n");
    }
}
