//! Standard output: text for people, JSON or names that end with NUL for programs; a reader that closes the pipe is no error.
//!
//! Every JSON output is one object that begins with the same three members ([`Document`]). `main` names the command once, so
//! that no command can leave them out. docs/json.md describes the members, docs/json-schema.json declares them all.

use crate::failure::{Done, Failure};
use crate::fold::Folded;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

/// Columns of the terminal for which text is laid out.
pub const WIDTH: usize = 80;
/// Further lines of a text begin here at the latest.
const INDENT_MAX: usize = 16;

/// Columns of the terminal that shows a stream; `None` if it is no terminal, or does not know.
pub fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes a heading and items after it, separated by commas, in lines of at most `width` columns if no item is longer.
///
/// # Errors
/// As writing fails.
pub fn write_list(out: &mut dyn Write, head: &str, items: &[String], width: usize) -> io::Result<()> {
    fill(out, head, items.iter().map(String::as_str), (",", width, 1))
}

/// Writes a heading and the terms of a sum after it, in lines of at most [`WIDTH`] columns if no term is longer. Further lines begin
/// where the terms do.
///
/// # Errors
/// As writing fails.
pub fn write_sum(out: &mut dyn Write, head: &str, terms: &[String]) -> io::Result<()> {
    fill(out, head, terms.iter().map(String::as_str), (" +", WIDTH, head.chars().count()))
}

/// Writes the name of a field and its parts after it, separated by commas, in lines of at most [`WIDTH`] columns if no part is
/// longer. Further lines begin where the parts do.
///
/// # Errors
/// As writing fails.
pub fn write_field(out: &mut dyn Write, name: &str, parts: &[String]) -> io::Result<()> {
    fill(out, name, parts.iter().map(String::as_str), (",", WIDTH, name.chars().count()))
}

/// Writes a heading and a text after it, in lines of at most [`WIDTH`] columns if no word is longer. Further lines begin where the
/// text does, if the heading is short.
///
/// # Errors
/// As writing fails.
pub fn write_words(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    write_words_within(out, head, text, WIDTH)
}

/// The same in lines of at most `width` columns.
///
/// # Errors
/// As writing fails.
pub fn write_words_within(out: &mut dyn Write, head: &str, text: &str, width: usize) -> io::Result<()> {
    fill(out, head, text.split(' '), ("", width, columns(head).min(INDENT_MAX)))
}

/// Writes the name of a field and the first of some texts that fits in the same line, the last one if none does. They say the same,
/// each shorter than the one before.
///
/// # Errors
/// As writing fails.
pub fn write_fitting(out: &mut dyn Write, name: &str, texts: &[String]) -> io::Result<()> {
    let left = WIDTH.saturating_sub(columns(name) + 1);
    let fitting = texts.iter().find(|text| columns(text) <= left).or(texts.last());
    fitting.map_or(Ok(()), |text| writeln!(out, "{name} {text}"))
}

/// Writes a place and what is to say about it in one line, or the latter in a second line if it does not fit.
///
/// # Errors
/// As writing fails.
pub fn write_two_parts(out: &mut dyn Write, place: &str, text: &str) -> io::Result<()> {
    if place.chars().count() + 1 + text.chars().count() <= WIDTH {
        writeln!(out, "{place} {text}")
    } else {
        writeln!(out, "{place}\n      {text}")
    }
}

fn fill<'a>(
    out: &mut dyn Write,
    head: &str,
    items: impl Iterator<Item = &'a str>,
    (separator, width, indent): (&str, usize, usize),
) -> io::Result<()> {
    let mut column = columns(head);
    write!(out, "{head}")?;
    let mut items = items.peekable();
    while let Some(item) = items.next() {
        let comma = if items.peek().is_some() { separator } else { "" };
        let columns = 1 + columns(item) + comma.len();
        if column + columns > width {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
        }
        write!(out, " {item}{comma}")?;
        column += columns;
    }
    writeln!(out)
}

/// Columns that a text takes; its colours take none.
pub fn columns(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().chars().count();
    // A colour ends with its m.
    let later = parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.chars().count()));
    first + later.sum::<usize>()
}

/// The name of the schema, in every document.
const SCHEMA: &str = "firnfs";
/// The version of the schema. A new member leaves it as it is; a member that is renamed, removed or changes its meaning does not.
pub const SCHEMA_VERSION: u32 = 1;

/// A JSON output: the members that all outputs begin with, then those of the command.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    version: u32,
    command: &'a str,
    #[serde(flatten)]
    view: &'a T,
}

/// Where commands write their results.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
    command: String,
    /// Columns of the terminal that shows it, if one does.
    width: Option<usize>,
}

impl Output {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self { width: terminal_columns(io::stdout()), ..Self::to(Box::new(io::stdout())) }
    }

    /// An output to any writer.
    #[must_use]
    pub fn to(out: Box<dyn Write>) -> Self {
        Self { out: BufWriter::new(out), command: String::new(), width: None }
    }

    /// The output of a command, named by its words after `firn`, such as `sim disk`.
    #[must_use]
    pub fn of(self, command: String) -> Self {
        Self { command, ..self }
    }

    /// Shows a result: as JSON, or as the text that `human` writes, no line longer than the terminal. The view must be a struct or
    /// a map: its members follow those of the envelope.
    ///
    /// # Errors
    /// Writing fails, except on a closed pipe.
    pub fn show(
        &mut self,
        json: bool,
        view: &impl Serialize,
        human: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Done {
        let written = match json {
            true => self.document(view).and_then(|text| self.out.write_all(text.as_bytes())),
            false => {
                let mut folded = Folded::new(&mut self.out, self.width);
                human(&mut folded).and_then(|()| folded.flush())
            }
        };
        finish(written.and_then(|()| self.out.flush()))
    }

    /// A result as JSON text, for a file.
    ///
    /// # Errors
    /// The view is neither a struct nor a map.
    pub fn document(&self, view: &impl Serialize) -> io::Result<String> {
        let document = Document { schema: SCHEMA, version: SCHEMA_VERSION, command: &self.command, view };
        serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(io::Error::from)
    }

    /// Writes one of many results, each in a line of its own; false if its reader has gone.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn document_line(&mut self, view: &impl Serialize) -> Done<bool> {
        let document = Document { schema: SCHEMA, version: SCHEMA_VERSION, command: &self.command, view };
        let text = serde_json::to_string(&document).map_err(|e| Failure::failed(e.to_string()))?;
        self.line(|out| writeln!(out, "{text}"))
    }

    /// Writes text.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn text(&mut self, human: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Done {
        finish(human(&mut self.out).and_then(|()| self.out.flush()))
    }

    /// Writes names for programs, the form of `--null`: each as its bytes, whatever they are, and ended by NUL.
    ///
    /// # Errors
    /// As [`Output::show`].
    pub fn names(&mut self, names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Done {
        let written = names.into_iter().try_for_each(|name| {
            self.out.write_all(name.as_ref().as_bytes())?;
            self.out.write_all(b"\0")
        });
        finish(written.and_then(|()| self.out.flush()))
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
}

/// The end of writing to standard output. A closed pipe is no failure.
///
/// # Errors
/// Writing failed otherwise.
pub fn finish(written: io::Result<()>) -> Done {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("cannot write the result", &e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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

    #[test]
    fn the_longest_text_that_fits_in_a_line_is_written() {
        let texts = [80, 68, 67].map(|columns| "x".repeat(columns));
        let written = |texts: &[String]| {
            let mut out = Vec::new();
            write_fitting(&mut out, "  durable  ", texts).unwrap();
            out.len() - "  durable   \n".len()
        };
        assert_eq!((written(&texts), written(&texts[..1]), written(&texts[2..])), (68, 80, 67));
    }

    #[test]
    fn further_lines_of_a_field_begin_below_its_first_part() {
        let mut out = Vec::new();
        write_words(&mut out, "  disk   ", &"word ".repeat(10).trim_end().replace("word", "seven77"))
            .unwrap();
        write_field(&mut out, "  space  ", &["a part of it".to_owned(), "x".repeat(70)]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let starts: Vec<usize> = text.lines().map(|line| line.len() - line.trim_start().len()).collect();
        assert_eq!(starts, [2, 10, 2, 10], "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        let painted = format!("\u{1b}[32m{}\u{1b}[0m", "x".repeat(60));
        let mut out = Vec::new();
        write_field(&mut out, "  health  ", &[painted, "well".to_owned()]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 1, "colours take no columns");
    }

    #[test]
    fn every_command_with_json_is_in_the_schema_and_nothing_else_is() {
        fn with_json(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
            if command.get_arguments().any(|argument| argument.get_long() == Some("json")) {
                found.insert(path.trim().to_owned());
            }
            for inner in command.get_subcommands() {
                with_json(inner, &format!("{path} {}", inner.get_name()), found);
            }
        }
        let mut commands = BTreeSet::new();
        with_json(&crate::help::command(), "", &mut commands);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json-schema.json");
        let schema: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let members =
            schema["$defs"].as_object().unwrap().values().map(|rule| &rule["properties"]["command"]["const"]);
        let declared: BTreeSet<String> =
            members.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        assert_eq!(declared, commands);
        let version = &schema["$defs"]["df"]["properties"]["version"]["const"];
        assert_eq!(*version, SCHEMA_VERSION);
    }

    #[test]
    fn a_document_begins_with_its_schema_and_its_command() {
        let output = Output::to(Box::new(io::sink())).of("sim disk".to_owned());
        let text = output.document(&std::collections::BTreeMap::from([("a", 1)])).unwrap();
        assert_eq!(
            text,
            "{\n  \"schema\": \"firnfs\",\n  \"version\": 1,\n  \"command\": \"sim disk\",\n  \"a\": 1\n}\n"
        );
        assert!(output.document(&[1, 2]).is_err(), "a list has no members");
    }
}
