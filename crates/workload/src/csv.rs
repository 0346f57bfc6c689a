//! Workloads as tables of comma-separated values, in and out, for programs of others.
//!
//! The first line names the columns, in any order: `time` (seconds since the start) or `unix_time` (seconds since 1970), and `op`
//! have to be there; `duration` (seconds), `client`, `file`, `name`, `to_file`, `to_name`, `made`, `offset`, `to_offset`, `length`,
//! `argument`, `result` (what it returned), `error` (an errno) may be. An empty field is absent. Without `result` and `error` the
//! outcome is unknown. A file is a number, or any text that stands for one. In names `\\` is a backslash and `\xHH` a byte. Fields may be
//! quoted as in RFC 4180, but a line is always one record. Lines that begin with `#` are comments.

use crate::error::{Error, TooLong};
use crate::layout::NAME_MAX_BYTES;
use crate::lines::{Lines, Start, parse_seconds};
use crate::record::{FileId, Op, Outcome, Record};
use crate::records;
use std::io::{self, BufRead, Write};

/// Columns, in the order in which they are written.
const COLUMNS: [&str; 15] = [
    "time",
    "duration",
    "client",
    "op",
    "file",
    "name",
    "to_file",
    "to_name",
    "made",
    "offset",
    "to_offset",
    "length",
    "argument",
    "result",
    "error",
];
const UNIX_TIME: &str = "unix_time";

/// Writes the first line.
///
/// # Errors
/// Writing failed.
pub fn write_head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))
}

/// Writes one record as a line.
///
/// # Errors
/// Writing failed.
pub fn write_record<N: AsRef<[u8]>>(out: &mut impl Write, record: &Record<N>) -> io::Result<()> {
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let file = |file: FileId| number(file.is_some().then_some(file.0));
    let (result, error) = match record.outcome {
        Outcome::Unknown => (None, None),
        Outcome::Done(count) => (Some(count), None),
        Outcome::Failed(errno) => (None, Some(u64::from(errno))),
    };
    let fields = [
        seconds(record.time_ns),
        record.duration_ns.map(seconds).unwrap_or_default(),
        number(Some(u64::from(record.client)).filter(|client| *client != 0)),
        record.op.name().to_owned(),
        file(record.file),
        escaped(record.name.as_ref()),
        file(record.to_file),
        escaped(record.to_name.as_ref()),
        file(record.made),
        number(record.offset),
        number(record.to_offset),
        number(record.length),
        number(record.argument.map(u64::from)),
        number(result),
        number(error),
    ];
    writeln!(out, "{}", fields.join(","))
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A name without anything that separates fields or lines. Whatever is no UTF-8 is escaped throughout.
fn escaped(name: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let is_text = str::from_utf8(name).is_ok();
    let mut plain = Vec::new();
    for &byte in name {
        let is_plain = match byte {
            b',' | b'"' | b'\\' | b'#' | 0..0x20 | 0x7f => false,
            0x80.. => is_text,
            _ => true,
        };
        if is_plain {
            plain.push(byte);
            continue;
        }
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut plain)));
        let _a_string_takes_all = write!(text, "\\x{byte:02x}");
    }
    text.push_str(&String::from_utf8_lossy(&plain));
    text
}

fn unescaped(field: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{}' has a backslash that is neither \\\\ nor \\xHH", field.escape_ascii());
    let mut name = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            name.push(byte);
        } else if let Some(after) = rest.strip_prefix(b"\\") {
            name.push(b'\\');
            rest = after;
        } else {
            let digits = rest.strip_prefix(b"x").and_then(|digits| digits.get(..2)).ok_or_else(wrong)?;
            let digits = str::from_utf8(digits).map_err(|_| wrong())?;
            name.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &rest[3..];
        }
    }
    if name.len() > NAME_MAX_BYTES { Err(TooLong(name.len()).to_string()) } else { Ok(name) }
}

/// An iterator of records.
pub struct Reader<R> {
    lines: Lines<R>,
    /// For each column of the table, its place in [`COLUMNS`].
    columns: Vec<usize>,
    is_unix_time: bool,
    start: Start,
    has_failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// The text cannot be read, or its first line does not name the columns.
    pub fn new(input: R) -> Result<Self, Error> {
        let mut reader = Self {
            lines: Lines::new(input),
            columns: Vec::new(),
            is_unix_time: false,
            start: Start::default(),
            has_failed: false,
        };
        let head = match reader.next_fields()? {
            Some(fields) => fields,
            None => return Err(reader.lines.wrong("the table is empty; its first line names the columns")),
        };
        for field in head {
            let name = String::from_utf8_lossy(&field).trim().to_owned();
            reader.is_unix_time |= name == UNIX_TIME;
            let known =
                if name == UNIX_TIME { Some(0) } else { COLUMNS.iter().position(|known| *known == name) };
            let Some(column) = known else {
                let message =
                    format!("there is no column '{name}'; there are {UNIX_TIME}, {}", COLUMNS.join(", "));
                return Err(reader.lines.wrong(message));
            };
            if reader.columns.contains(&column) {
                return Err(reader.lines.wrong(format!("two columns are '{name}'")));
            }
            reader.columns.push(column);
        }
        let has = |name: &str| reader.columns.iter().any(|column| COLUMNS[*column] == name);
        if !has("time") || !has("op") {
            return Err(reader.lines.wrong("the columns 'time' (or 'unix_time') and 'op' have to be there"));
        }
        Ok(reader)
    }

    /// With `unix_time`, that of the first record, in nanoseconds since 1970; else 0.
    pub fn start_ns(&self) -> u64 {
        self.start.start_ns()
    }

    /// Bytes of the text that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.lines.read_bytes()
    }

    fn next_fields(&mut self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        loop {
            let split = match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if line.is_empty() || line.starts_with(b"#") => continue,
                Some(line) => split(line),
            };
            return split.map(Some).map_err(|what| self.lines.wrong(what));
        }
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        let Some(fields) = self.next_fields()? else { return Ok(None) };
        let parsed = parse(&self.columns, &fields);
        let mut record = parsed.map_err(|what| self.lines.wrong(what))?;
        if self.is_unix_time {
            record.time_ns = self.start.since(record.time_ns);
        }
        Ok(Some(record))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        records::item(self.advance(), &mut self.has_failed)
    }
}

/// Fields of a line; quoted ones without their quotation marks.
fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let mut field = Vec::new();
        if let Some(mut inner) = rest.strip_prefix(b"\"") {
            loop {
                let end =
                    inner.iter().position(|byte| *byte == b'"').ok_or("a quotation mark is not closed")?;
                field.extend_from_slice(&inner[..end]);
                inner = &inner[end + 1..];
                let Some(after) = inner.strip_prefix(b"\"") else { break };
                field.push(b'"');
                inner = after;
            }
            rest = inner;
        } else {
            let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
            field.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        fields.push(field);
        match rest.split_first() {
            None => return Ok(fields),
            Some((b',', after)) => rest = after,
            Some(_) => return Err("text follows a quoted field".into()),
        }
    }
}

fn parse(columns: &[usize], fields: &[Vec<u8>]) -> Result<Record, String> {
    if fields.len() != columns.len() {
        return Err(format!("it has {} fields, and the table {} columns", fields.len(), columns.len()));
    }
    let mut by_name: [&[u8]; COLUMNS.len()] = [&[]; COLUMNS.len()];
    for (column, field) in columns.iter().zip(fields) {
        by_name[*column] = field;
    }
    let [
        time,
        duration,
        client,
        op,
        file,
        name,
        to_file,
        to_name,
        made,
        offset,
        to_offset,
        length,
        argument,
        result,
        error,
    ] = by_name;
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    let time_of = |field: &[u8]| {
        parse_seconds(&text(field))
            .ok_or_else(|| format!("'{}' is not a time in seconds", field.escape_ascii()))
    };
    let op_name = text(op);
    let op = Op::from_name(&op_name).ok_or_else(|| format!("there is no operation '{op_name}'"))?;
    let error = small(error)?;
    Ok(Record {
        time_ns: time_of(time)?,
        duration_ns: if duration.is_empty() { None } else { Some(time_of(duration)?) },
        client: small(client)?.unwrap_or(0),
        op,
        file: file_of(file),
        name: unescaped(name)?,
        to_file: file_of(to_file),
        to_name: unescaped(to_name)?,
        made: file_of(made),
        offset: number(offset)?,
        to_offset: number(to_offset)?,
        length: number(length)?,
        argument: small(argument)?,
        outcome: match (number(result)?, error) {
            (_, Some(errno)) => Outcome::Failed(errno),
            (Some(count), None) => Outcome::Done(count),
            (None, None) => Outcome::Unknown,
        },
    })
}

fn number(field: &[u8]) -> Result<Option<u64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let parsed = str::from_utf8(field).ok().and_then(|text| text.trim().parse().ok());
    parsed.map(Some).ok_or_else(|| format!("'{}' is not a number", field.escape_ascii()))
}

fn small(field: &[u8]) -> Result<Option<u32>, String> {
    let value = number(field)?.map(u32::try_from).transpose();
    value.map_err(|_| format!("'{}' has more than 32 bits", field.escape_ascii()))
}

/// A number, or a text that stands for a file. 0 is no file.
fn file_of(field: &[u8]) -> FileId {
    match number(field) {
        Ok(value) => FileId(value.unwrap_or(0)),
        Err(_) => FileId::of_bytes(field),
    }
}
