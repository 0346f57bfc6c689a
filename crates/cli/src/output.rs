//! Standard output: text for people or JSON for programs; a reader that closes the pipe is no error.

use crate::failure::{Done, Failure};
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Columns of the terminal for which text is laid out.
pub const WIDTH: usize = 80;

/// Writes a heading and items after it, separated by commas, in lines of at most `width` columns if no item is longer.
///
/// # Errors
/// As writing fails.
pub fn write_list(out: &mut dyn Write, head: &str, items: &[String], width: usize) -> io::Result<()> {
    fill(out, head, items.iter().map(String::as_str), ",", width)
}

/// Writes a heading and a text after it, in lines of at most [`WIDTH`] columns if no word is longer.
///
/// # Errors
/// As writing fails.
pub fn write_words(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    fill(out, head, text.split(' '), "", WIDTH)
}

fn fill<'a>(
    out: &mut dyn Write,
    head: &str,
    items: impl Iterator<Item = &'a str>,
    separator: &str,
    width: usize,
) -> io::Result<()> {
    let mut column = head.chars().count();
    write!(out, "{head}")?;
    let mut items = items.peekable();
    while let Some(item) = items.next() {
        let comma = if items.peek().is_some() { separator } else { "" };
        let columns = 1 + item.chars().count() + comma.len();
        if column + columns > width {
            write!(out, "\n ")?;
            column = 1;
        }
        write!(out, " {item}{comma}")?;
        column += columns;
    }
    writeln!(out)
}

/// Where commands write their results.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
}

impl Output {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::to(Box::new(io::stdout()))
    }

    /// An output to any writer.
    #[must_use]
    pub fn to(out: Box<dyn Write>) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// Shows a result: as JSON, or as the text that `human` writes.
    ///
    /// # Errors
    /// Writing fails, except on a closed pipe.
    pub fn show(
        &mut self,
        json: bool,
        view: &impl Serialize,
        human: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Done {
        let written = if json { self.write_json(view) } else { human(&mut self.out) };
        finish(written.and_then(|()| self.out.flush()))
    }

    /// Writes text.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn text(&mut self, human: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Done {
        finish(human(&mut self.out).and_then(|()| self.out.flush()))
    }

    /// Writes a part of a result that goes on; false if its reader has gone.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn line(&mut self, human: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Done<bool> {
        let written = human(&mut self.out).and_then(|()| self.out.flush());
        let is_open = !written.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        finish(written).map(|()| is_open)
    }

    fn write_json(&mut self, view: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, view).map_err(io::Error::from)?;
        writeln!(self.out)
    }
}

fn finish(written: io::Result<()>) -> Done {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the result: {e}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_breaks_between_items_and_no_line_is_too_long() {
        let shown = |items: &[&str]| {
            let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
            let mut out = Vec::new();
            write_list(&mut out, "2 lost:", &items, 20).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(&["/a 4 KiB"]), "2 lost: /a 4 KiB\n");
        assert_eq!(
            shown(&["/ab 4 KiB", "/b 8 KiB", "/c 1 KiB"]),
            "2 lost: /ab 4 KiB,\n  /b 8 KiB, /c 1 KiB\n"
        );
        assert_eq!(shown(&["/ab 44 KiB", "/b"]), "2 lost: /ab 44 KiB,\n  /b\n");
        assert_eq!(shown(&["/longer than that"]), "2 lost:\n  /longer than that\n");
    }
}
