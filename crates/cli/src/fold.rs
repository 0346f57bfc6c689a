//! [`Folded`]: breaks lines that are longer than the terminal between words; the terminal would break them anywhere.
//!
//! Commands lay their tables and fields out for 80 columns. What remains are sentences with paths and names, whose length no
//! command knows. Programs get each line whole. Caller: `output`.

use crate::output::columns;
use std::io::{self, Write};

/// Further lines of a line are indented by that much more than its first.
const INDENT: usize = 2;

/// See the module's head. Only a flush writes a line that has no end yet.
pub struct Folded<W: Write> {
    out: W,
    /// Columns of the terminal, if there is one.
    width: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> Folded<W> {
    /// A writer for a terminal of that many columns; `None` for a program.
    pub fn new(out: W, width: Option<usize>) -> Self {
        Self { out, width, line: Vec::new() }
    }
}

impl<W: Write> Write for Folded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.out.write(bytes) };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                match std::str::from_utf8(&line) {
                    Ok(text) => self.out.write_all(folded(text, width).as_bytes())?,
                    Err(_) => self.out.write_all(&line)?,
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&std::mem::take(&mut self.line))?;
        self.out.flush()
    }
}

/// The line with as many breaks as it needs. A word that is longer than the terminal stays whole, so that it can be copied.
fn folded(line: &str, width: usize) -> String {
    if columns(line.trim_end()) <= width {
        return line.to_owned();
    }
    let indent = line.len() - line.trim_start().len() + INDENT;
    let mut out = line[..indent - INDENT].to_owned();
    let (mut start, mut column) = (out.len(), out.len());
    let mut gap = "";
    let mut rest = line[out.len()..].trim_end();
    while !rest.is_empty() {
        let word = &rest[..rest.find(' ').unwrap_or(rest.len())];
        if column + gap.len() + columns(word) > width && column > start {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            (start, column) = (indent, indent);
        } else {
            out.push_str(gap);
            column += gap.len();
        }
        out.push_str(word);
        column += columns(word);
        let next = rest[word.len()..].trim_start_matches(' ');
        gap = &rest[word.len()..rest.len() - next.len()];
        rest = next;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, width: Option<usize>) -> String {
        let mut out = Vec::new();
        let mut folded = Folded::new(&mut out, width);
        // In parts that are no lines.
        text.as_bytes().chunks(3).for_each(|part| folded.write_all(part).unwrap());
        folded.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_line_is_broken_between_words_for_a_terminal_and_whole_for_a_program() {
        let text = "  /a/path: a clone  of monday; größer\nshort  line\n\nend";
        assert_eq!(written(text, None), text);
        assert_eq!(written(text, Some(80)), text);
        let broken = "  /a/path: a clone  of\n    monday; größer\nshort  line\n\nend";
        assert_eq!(written(text, Some(22)), broken);
        assert_eq!(written("a /path/that/is/long b\n", Some(10)), "a\n  /path/that/is/long\n  b\n");
        let painted = format!("\u{1b}[32m{}\u{1b}[0m and more\n", "x".repeat(10));
        assert_eq!(written(&painted, Some(19)), painted, "colours take no columns");
    }
}
