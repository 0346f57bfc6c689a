//! What `firn workload info` and `head` print.

use super::source::Source;
use crate::sizes::{Bytes, Count};
use firnfs_lab::calendar::rfc3339;
use firnfs_workload::{End, Error, FileId, Outcome, Record, Summary};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One file.
#[derive(Serialize)]
pub struct InfoView {
    path: PathBuf,
    /// Everything was read, up to the mark of the end.
    whole: bool,
    /// Why not.
    error: Option<String>,
    origin: &'static str,
    naming: &'static str,
    /// When its times begin; `null` if not known.
    start: Option<String>,
    /// Hexadecimal; `null` if the file stands alone.
    recording_id: Option<String>,
    part: u32,
    /// Whether the recording goes on in the next part; `null` if the end was not reached, and for texts.
    continued: Option<bool>,
    options: Vec<(String, String)>,
    /// Bytes that were read.
    file_bytes: u64,
    records: u64,
    /// Records that the recorder lost since its beginning.
    lost_records: u64,
    span_ms: f64,
    /// Records that began before the one before them.
    out_of_order: u64,
    by_operation: Vec<OperationView>,
}

#[derive(Serialize)]
struct OperationView {
    operation: &'static str,
    operations: u64,
    failed: u64,
    unknown_outcome: u64,
    transferred_bytes: u64,
    /// Mean over those that say how long they took; `null` if none does.
    mean_ms: Option<f64>,
}

impl InfoView {
    /// The view of an input that was read to its end, or to an error.
    pub fn of(path: &Path, source: &Source, summary: &Summary, error: Option<&Error>) -> Self {
        let header = source.header();
        let has_recording = header.recording != [0; 16];
        let hex = || header.recording.iter().map(|byte| format!("{byte:02x}")).collect();
        let operations = summary.counts().map(|(op, count)| OperationView {
            operation: op.name(),
            operations: count.operations,
            failed: count.failed,
            unknown_outcome: count.unknown,
            transferred_bytes: count.bytes,
            mean_ms: (count.timed > 0).then(|| count.duration_ns as f64 / count.timed as f64 / 1e6),
        });
        Self {
            path: path.to_owned(),
            whole: error.is_none(),
            error: error.map(ToString::to_string),
            origin: header.origin.name(),
            naming: header.naming.name(),
            start: (header.start_ns != 0)
                .then(|| rfc3339(i64::try_from(header.start_ns).unwrap_or(i64::MAX))),
            recording_id: has_recording.then(hex),
            part: header.part,
            continued: source.end().map(|end| end == End::Continued),
            file_bytes: source.read_bytes(),
            records: summary.operations(),
            lost_records: source.lost(),
            span_ms: summary.span_ns() as f64 / 1e6,
            out_of_order: summary.out_of_order,
            by_operation: operations.collect(),
            options: header.options,
        }
    }

    /// As text.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.path.display())?;
        let bytes_each = self.file_bytes as f64 / self.records.max(1) as f64;
        writeln!(
            out,
            "  {} in {}, {bytes_each:.1} bytes each",
            Count(self.records).of("record", "records"),
            Bytes(self.file_bytes)
        )?;
        let continued = match self.continued {
            Some(true) => ", continued in the next part",
            Some(false) if self.part > 0 => ", the last one",
            _ => "",
        };
        writeln!(out, "  from {}, names {}, part {}{continued}", self.origin, self.naming, self.part)?;
        let seconds = self.span_ms / 1e3;
        let rate = self.records as f64 / seconds.max(1e-9);
        writeln!(out, "  {seconds:.3} s, {rate:.1} operations a second, {} lost", Count(self.lost_records))?;
        for (name, value) in &self.options {
            writeln!(out, "  {name}: {value}")?;
        }
        if !self.whole {
            writeln!(out, "  NOT WHOLE: only the records before the damage are counted")?;
        }
        writeln!(
            out,
            "  {:<12}{:>12}{:>10}{:>10}{:>12}{:>12}",
            "operation", "count", "failed", "unknown", "moved", "mean us"
        )?;
        for line in &self.by_operation {
            let moved = if line.transferred_bytes == 0 {
                "-".to_owned()
            } else {
                Bytes(line.transferred_bytes).to_string()
            };
            let mean = line.mean_ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.1}", ms * 1e3));
            writeln!(
                out,
                "  {:<12}{:>12}{:>10}{:>10}{moved:>12}{mean:>12}",
                line.operation,
                Count(line.operations),
                Count(line.failed),
                Count(line.unknown_outcome)
            )?;
        }
        Ok(())
    }
}

/// One record. Names that are not UTF-8 have replacement characters here; `convert --to csv` keeps every byte.
#[derive(Serialize)]
pub struct RecordView {
    time_ns: u64,
    duration_ns: Option<u64>,
    client: Option<u32>,
    operation: &'static str,
    file: Option<u64>,
    name: Option<String>,
    to_file: Option<u64>,
    to_name: Option<String>,
    made: Option<u64>,
    offset: Option<u64>,
    to_offset: Option<u64>,
    length: Option<u64>,
    argument: Option<u32>,
    /// What it returned; `null` if it failed, or if that is not known.
    result: Option<u64>,
    errno: Option<u32>,
}

impl RecordView {
    /// The view of a record.
    pub fn of(record: &Record) -> Self {
        let file = |file: FileId| file.is_some().then_some(file.0);
        let name = |name: &[u8]| (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
        let (result, errno) = match record.outcome {
            Outcome::Unknown => (None, None),
            Outcome::Done(count) => (Some(count), None),
            Outcome::Failed(errno) => (None, Some(errno)),
        };
        Self {
            time_ns: record.time_ns,
            duration_ns: record.duration_ns,
            client: (record.client != 0).then_some(record.client),
            operation: record.op.name(),
            file: file(record.file),
            name: name(&record.name),
            to_file: file(record.to_file),
            to_name: name(&record.to_name),
            made: file(record.made),
            offset: record.offset,
            to_offset: record.to_offset,
            length: record.length,
            argument: record.argument,
            result,
            errno,
        }
    }
}

/// Writes a record in one line, or in lines of at most `width` columns. A further line begins below the operation.
pub fn write_record(out: &mut dyn Write, record: &Record, width: Option<usize>) -> io::Result<()> {
    let text = record.to_string();
    let Some(width) = width.filter(|width| text.len() > *width) else { return writeln!(out, "{text}") };
    let width = width.max(2 * INDENT);
    let mut column = 0;
    for part in parts(&text) {
        let mut rest = part;
        if column > 0 && column + part.len() > width {
            write!(out, "\n{:INDENT$}", "")?;
            (column, rest) = (INDENT, part.trim_start());
        }
        // A name can be longer than a line.
        while column + rest.len() > width {
            let (line, after) = rest.split_at(width - column);
            write!(out, "{line}\n{:INDENT$}", "")?;
            (column, rest) = (INDENT, after);
        }
        write!(out, "{rest}")?;
        column += rest.len();
    }
    writeln!(out)
}

/// Further lines of a record begin here: at the column of its operation.
const INDENT: usize = 15;

/// The words of a record, which is ASCII, each with the spaces before it. A name in quotes is one word.
fn parts(text: &str) -> Vec<&str> {
    let (mut list, mut from) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped, mut before) = (false, false, b' ');
    for (at, c) in text.bytes().enumerate() {
        if c == b' ' && before != b' ' && !is_quoted {
            list.push(&text[from..at]);
            from = at;
        }
        is_quoted ^= c == b'"' && !is_escaped;
        is_escaped = c == b'\\' && !is_escaped;
        before = c;
    }
    list.push(&text[from..]);
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_workload::Op;

    fn record(name: &[u8]) -> Record {
        let mut record = Record::new(1_500_000_000, Op::Rename, FileId(123_456));
        record.client = 7;
        record.name = name.into();
        record.to_file = FileId(u64::MAX - 1);
        record.to_name = b"another \" name".as_slice().into();
        record.outcome = Outcome::Failed(2);
        record.duration_ns = Some(1_234_567);
        record
    }

    fn written(record: &Record, width: Option<usize>) -> String {
        let mut out = Vec::new();
        write_record(&mut out, record, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_fits_80_columns_of_a_terminal_whatever_its_names_are() {
        for name in [b"a".to_vec(), b"two words".to_vec(), vec![b'n'; 70], vec![0xff; 255]] {
            let record = record(&name);
            let text = written(&record, Some(80));
            assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= 80), "{text}");
            let is_shown = |c: &char| !c.is_whitespace();
            assert!(text.chars().filter(is_shown).eq(record.to_string().chars().filter(is_shown)), "{text}");
            assert!(text.lines().skip(1).all(|line| line.starts_with("               ")), "{text}");
        }
        assert!(written(&record(b"two words"), Some(80)).contains("name=\"two words\""));
    }

    #[test]
    fn a_record_is_one_line_for_programs_and_where_it_fits() {
        let record = record(b"a");
        assert_eq!(written(&record, None), format!("{record}\n"));
        assert_eq!(written(&record, Some(500)), format!("{record}\n"));
    }
}
