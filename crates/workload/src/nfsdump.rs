//! Reads the text of nfsdump (Ellard and Seltzer), which many published traces of NFS servers are in.
//!
//! ```text
//! 1034114399.991238 30.0801 31.03fe U C3 4c7c7a84 3 lookup fh 6189... name "inbox" con = 82 len = 120
//! 1034114399.991424 31.03fe 30.0801 U R3 4c7c7a84 3 lookup OK ftype 1 mode 1a4 ... fh 7a02... status=0 pl = 232 con = 70 len = 274
//! ```
//!
//! time, sender, receiver (hexadecimal host and port), transport, call or reply with the version of NFS, transaction, number and name of
//! the function, then pairs of key and value, numbers in hexadecimal. Lines that begin with `#` are comments.
//!
//! A call and its reply become one record, in the order of the calls. A call without a reply within [`WAIT_NS`], or within
//! [`PENDING_MAX`] calls, has an unknown outcome. Calls that are sent again while they wait count once; replies without a call are left out.

use crate::error::{Error, TooLong};
use crate::layout::NAME_MAX_BYTES;
use crate::lines::{Lines, Start, parse_seconds};
use crate::record::{FileId, Op, Outcome, Record};
use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

/// How long a call waits for its reply, in nanoseconds of the trace.
pub const WAIT_NS: u64 = 60_000_000_000;
/// Calls that wait for replies at a time.
pub const PENDING_MAX: usize = 4096;

/// Host and port of the caller, and the number of the transaction.
type Call = (u32, u16, u32);

/// An iterator of records.
pub struct Reader<R> {
    lines: Lines<R>,
    start: Start,
    /// Calls in order; the key of those without a reply.
    pending: VecDeque<(Record, Option<Call>)>,
    /// Position in `pending`, counted from the first call of the trace.
    waiting: HashMap<Call, u64>,
    /// Calls that have left `pending`.
    left: u64,
    now_ns: u64,
    is_done: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads a text.
    pub fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input),
            start: Start::default(),
            pending: VecDeque::new(),
            waiting: HashMap::new(),
            left: 0,
            now_ns: 0,
            is_done: false,
        }
    }

    /// Time of the first call, in nanoseconds since 1970; 0 before it is read.
    pub fn start_ns(&self) -> u64 {
        self.start.start_ns()
    }

    /// Bytes of the text that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.lines.read_bytes()
    }

    /// The first call, if it has waited long enough or nothing more follows.
    fn ready(&mut self) -> Option<Record> {
        let (first, call) = self.pending.front()?;
        let is_old = self.now_ns.saturating_sub(first.time_ns) > WAIT_NS || self.pending.len() > PENDING_MAX;
        if call.is_some() && !is_old && !self.is_done {
            return None;
        }
        let (record, call) = self.pending.pop_front()?;
        if let Some(call) = call {
            self.waiting.remove(&call);
        }
        self.left += 1;
        Some(record)
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.ready() {
                return Ok(Some(record));
            }
            let parsed = match self.lines.next_line()? {
                None => {
                    self.is_done = true;
                    return Ok(self.ready());
                }
                Some(line) if line.is_empty() || line.starts_with(b"#") => continue,
                Some(line) => Line::parse(line),
            };
            let line = parsed.map_err(|what| self.lines.wrong(what))?;
            self.take(line).map_err(|what| self.lines.wrong(what))?;
        }
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        if line.is_call {
            let time_ns = self.start.since(line.time_ns);
            self.now_ns = self.now_ns.max(time_ns);
            if let Some(record) = line.record(time_ns)?
                && !self.waiting.contains_key(&line.call)
            {
                self.waiting.insert(line.call, self.left + self.pending.len() as u64);
                self.pending.push_back((record, Some(line.call)));
            }
            return Ok(());
        }
        let Some(number) = self.waiting.get(&line.call) else { return Ok(()) };
        let at = (number - self.left) as usize;
        let Some((record, call)) = self.pending.get_mut(at) else { return Ok(()) };
        line.complete(record, line.time_ns.saturating_sub(self.start.start_ns()))?;
        *call = None;
        self.waiting.remove(&line.call);
        Ok(())
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done && self.pending.is_empty() {
            return None;
        }
        let next = self.advance();
        if next.is_err() {
            self.is_done = true;
            self.pending.clear();
        }
        next.transpose()
    }
}

/// A line, taken apart.
struct Line {
    time_ns: u64,
    is_call: bool,
    call: Call,
    function: String,
    /// Of a reply: 0 is OK.
    status: u32,
    /// Keys and values; of a key that occurs twice (attributes before and after), the first.
    values: HashMap<String, Vec<u8>>,
}

impl Line {
    fn parse(line: &[u8]) -> Result<Self, String> {
        let mut words = Words(line);
        let mut text = |what: &str| -> Result<String, String> {
            let word = words.next().ok_or_else(|| format!("the line ends before its {what}"))?;
            String::from_utf8(word).map_err(|_| format!("the {what} is not a text"))
        };
        let time = text("time")?;
        let time_ns = parse_seconds(&time).ok_or_else(|| format!("'{time}' is not a time"))?;
        let (sender, receiver) = (address(&text("sender")?)?, address(&text("receiver")?)?);
        let transport = text("transport")?;
        if !matches!(transport.as_str(), "U" | "T") {
            return Err(format!("the transport is '{transport}', neither U nor T"));
        }
        let is_call = match text("direction")?.as_str() {
            "C2" | "C3" => true,
            "R2" | "R3" => false,
            other => return Err(format!("'{other}' is none of C2, C3, R2, R3")),
        };
        let transaction = hex32(text("transaction")?.as_bytes())?;
        let _number = text("function number")?;
        let function = text("function")?;
        let status = if is_call { 0 } else { status(&text("status")?)? };
        let (host, port) = if is_call { sender } else { receiver };
        Ok(Self {
            time_ns,
            is_call,
            call: (host, port, transaction),
            function,
            status,
            values: pairs(words)?,
        })
    }

    fn name(&self, key: &str) -> Vec<u8> {
        self.values.get(key).cloned().unwrap_or_default()
    }

    fn file(&self, key: &str) -> FileId {
        self.values.get(key).map_or(FileId::NONE, |handle| FileId::of_bytes(handle))
    }

    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        self.values.get(key).map(|value| hex(value)).transpose()
    }

    /// The record of a call; `None` if it concerns no file.
    fn record(&self, time_ns: u64) -> Result<Option<Record>, String> {
        let op = match self.function.as_str() {
            "getattr" => Op::Getattr,
            "setattr" if self.values.contains_key("size") => Op::Truncate,
            "setattr" => Op::Setattr,
            "lookup" => Op::Lookup,
            "access" => Op::Access,
            "readlink" => Op::Readlink,
            "read" => Op::Read,
            "write" => Op::Write,
            "create" => Op::Create,
            "mkdir" => Op::Mkdir,
            "symlink" => Op::Symlink,
            "mknod" => Op::Mknod,
            "remove" => Op::Unlink,
            "rmdir" => Op::Rmdir,
            "rename" => Op::Rename,
            "link" => Op::Link,
            "readdir" | "readdirp" | "readdirplus" => Op::Readdir,
            "fsstat" | "statfs" => Op::Statfs,
            "commit" => Op::Fsync,
            "null" | "root" | "writecache" | "wrcache" | "fsinfo" | "pathconf" | "mnt" | "umnt" => {
                return Ok(None);
            }
            other => return Err(format!("'{other}' is no function of NFS 2 or 3")),
        };
        let file = if self.values.contains_key("fh") { self.file("fh") } else { self.file("file") };
        let mut record: Record = Record::new(time_ns, op, file);
        record.client = self.call.0;
        record.name = self.name("name");
        record.to_file = self.file("fh2");
        record.to_name = self.name("name2");
        record.offset = self.number("off")?;
        record.length = self.number(if op == Op::Truncate { "size" } else { "count" })?;
        let mode = self.number("mode")?.map(u32::try_from).transpose();
        record.argument = mode.map_err(|_| "the mode has more than 32 bits")?;
        match op {
            // The new name is the second place in a record, as in a rename.
            Op::Link => std::mem::swap(&mut record.name, &mut record.to_name),
            Op::Symlink => record.to_name = self.name("sdata"),
            _ => {}
        }
        let longest = record.name.len().max(record.to_name.len());
        if longest > NAME_MAX_BYTES { Err(TooLong(longest).to_string()) } else { Ok(Some(record)) }
    }

    /// Adds what a reply says.
    fn complete(&self, record: &mut Record, end_ns: u64) -> Result<(), String> {
        record.duration_ns = Some(end_ns.saturating_sub(record.time_ns));
        if self.status != 0 {
            record.outcome = Outcome::Failed(self.status);
            return Ok(());
        }
        let count = self.number("count")?;
        record.outcome = match record.op {
            Op::Read => count.map_or(Outcome::Unknown, Outcome::Done),
            // The reply of NFS 2 does not repeat the number: everything was written.
            Op::Write => Outcome::Done(count.or(record.length).unwrap_or(0)),
            _ => Outcome::Done(0),
        };
        if matches!(record.op, Op::Lookup | Op::Create | Op::Mkdir | Op::Symlink | Op::Mknod) {
            record.made = self.file("fh");
        }
        Ok(())
    }
}

/// Words between spaces; one that begins with a quotation mark ends with one.
struct Words<'a>(&'a [u8]);

impl Iterator for Words<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let from = self.0.iter().position(|byte| *byte != b' ')?;
        let rest = &self.0[from..];
        let quoted = rest.strip_prefix(b"\"").and_then(|inner| {
            let end = (0..inner.len())
                .find(|at| inner[*at] == b'"' && matches!(inner.get(at + 1), None | Some(b' ')));
            end.map(|end| (inner[..end].to_vec(), end + 2))
        });
        let (word, len) = quoted.unwrap_or_else(|| {
            let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
            (rest[..end].to_vec(), end)
        });
        self.0 = &rest[len..];
        Some(word)
    }
}

/// Keys and values up to what nfsdump appends about the packet.
fn pairs(mut words: Words<'_>) -> Result<HashMap<String, Vec<u8>>, String> {
    let mut values = HashMap::new();
    while let Some(key) = words.next() {
        if key == b"con" || key.starts_with(b"status=") {
            break;
        }
        let key = String::from_utf8(key).map_err(|_| "a key is not a text")?;
        let value = words.next().ok_or_else(|| format!("'{key}' has no value"))?;
        values.entry(key).or_insert(value);
    }
    Ok(values)
}

fn hex(text: &[u8]) -> Result<u64, String> {
    let parsed = str::from_utf8(text).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    parsed.ok_or_else(|| format!("'{}' is not a hexadecimal number", text.escape_ascii()))
}

fn hex32(text: &[u8]) -> Result<u32, String> {
    u32::try_from(hex(text)?).map_err(|_| format!("'{}' has more than 32 bits", text.escape_ascii()))
}

fn address(text: &str) -> Result<(u32, u16), String> {
    let parsed = text.split_once('.').and_then(|(host, port)| {
        Some((u32::from_str_radix(host, 16).ok()?, u16::from_str_radix(port, 16).ok()?))
    });
    parsed.ok_or_else(|| format!("'{text}' is not an address, HOST.PORT in hexadecimal"))
}

/// The Linux errno of a status; EIO for errors that only NFS has.
fn status(text: &str) -> Result<u32, String> {
    const EIO: u32 = 5;
    if text == "OK" {
        return Ok(0);
    }
    Ok(match hex32(text.as_bytes())? {
        0 => 0,
        same @ (1 | 2 | 5 | 6 | 13 | 17..=22 | 27 | 28 | 30 | 31) => same,
        63 => 36,
        66 => 39,
        69 => 122,
        70 => 116,
        71 => 66,
        10_004 => 95,
        _ => EIO,
    })
}
