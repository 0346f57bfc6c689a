//! Blocks: records as bytes, before compression.
//!
//! ```text
//! block  := record*
//! record := op{1} fields{varint} time{varint} (what `fields` announces, in the order of its bits)
//! ```
//!
//! `time` is the difference to the record before (in the block; the first: to the block's time), zigzag-encoded: threads that
//! record together may write down an operation after one that began later. A block can be read without the others.

use crate::error::TooLong;
use crate::layout::{BLOCK_MAX_BYTES, NAME_MAX_BYTES};
use crate::record::{FileId, Op, Outcome, Record};
use crate::varint;

/// Bits of `fields`.
mod field {
    pub const DURATION: u64 = 1 << 0;
    pub const CLIENT: u64 = 1 << 1;
    pub const FILE: u64 = 1 << 2;
    pub const NAME: u64 = 1 << 3;
    pub const TO_FILE: u64 = 1 << 4;
    pub const TO_NAME: u64 = 1 << 5;
    pub const MADE: u64 = 1 << 6;
    pub const OFFSET: u64 = 1 << 7;
    pub const TO_OFFSET: u64 = 1 << 8;
    pub const LENGTH: u64 = 1 << 9;
    pub const ARGUMENT: u64 = 1 << 10;
    /// It was done, and returned nothing or 0.
    pub const DONE: u64 = 1 << 11;
    /// It was done; the count follows.
    pub const COUNT: u64 = 1 << 12;
    /// It failed; the errno follows.
    pub const ERRNO: u64 = 1 << 13;
    pub const ALL: u64 = (1 << 14) - 1;
    pub const OUTCOMES: u64 = DONE | COUNT | ERRNO;
}

/// Most bytes of one record: every number at its longest, and two names.
const RECORD_MAX_BYTES: usize = 1 + 13 * varint::MAX_BYTES + 2 * (varint::MAX_BYTES + NAME_MAX_BYTES);

/// Records as bytes, at most [`BLOCK_MAX_BYTES`] of them.
#[derive(Clone, Default, Debug)]
pub struct Block {
    bytes: Vec<u8>,
    count: u32,
    first_ns: u64,
    last_ns: u64,
    end_ns: u64,
}

impl Block {
    /// An empty block that will not allocate again.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(BLOCK_MAX_BYTES), ..Self::default() }
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.first_ns, self.last_ns, self.end_ns) = (0, 0, 0, 0);
    }

    /// Records in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Time of the first record, in ns since the start.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// The latest end of an operation, in ns since the start.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// The records' bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether any record fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.bytes.len() + RECORD_MAX_BYTES <= BLOCK_MAX_BYTES
    }

    /// Appends a record. The caller checks [`Block::has_room`] before.
    ///
    /// # Errors
    /// A name is too long; the block is unchanged.
    pub fn push<N: AsRef<[u8]>>(&mut self, record: &Record<N>) -> Result<(), TooLong> {
        debug_assert!(self.has_room());
        let (name, to_name) = (record.name.as_ref(), record.to_name.as_ref());
        if let Some(name) = [name, to_name].into_iter().find(|name| name.len() > NAME_MAX_BYTES) {
            return Err(TooLong(name.len()));
        }
        if self.count == 0 {
            (self.first_ns, self.last_ns) = (record.time_ns, record.time_ns);
        }
        let since = record.time_ns.wrapping_sub(self.last_ns).cast_signed();
        let out = &mut self.bytes;
        out.push(record.op as u8);
        varint::put(out, fields_of(record));
        varint::put(out, varint::zigzag(since));
        put_some(out, record.duration_ns);
        put_some(out, Some(u64::from(record.client)).filter(|client| *client != 0));
        put_some(out, id(record.file));
        put_name(out, name);
        put_some(out, id(record.to_file));
        put_name(out, to_name);
        put_some(out, id(record.made));
        put_some(out, record.offset);
        put_some(out, record.to_offset);
        put_some(out, record.length);
        put_some(out, record.argument.map(u64::from));
        match record.outcome {
            Outcome::Done(count) if count != 0 => varint::put(out, count),
            Outcome::Failed(errno) => varint::put(out, u64::from(errno)),
            _ => {}
        }
        self.count += 1;
        self.last_ns = record.time_ns;
        self.end_ns = self.end_ns.max(record.end_ns());
        Ok(())
    }
}

fn id(file: FileId) -> Option<u64> {
    file.is_some().then_some(file.0)
}

fn put_some(out: &mut Vec<u8>, value: Option<u64>) {
    if let Some(value) = value {
        varint::put(out, value);
    }
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    if !name.is_empty() {
        varint::put(out, name.len() as u64);
        out.extend_from_slice(name);
    }
}

fn fields_of<N: AsRef<[u8]>>(record: &Record<N>) -> u64 {
    let outcome = match record.outcome {
        Outcome::Unknown => 0,
        Outcome::Done(0) => field::DONE,
        Outcome::Done(_) => field::COUNT,
        Outcome::Failed(_) => field::ERRNO,
    };
    [
        (field::DURATION, record.duration_ns.is_some()),
        (field::CLIENT, record.client != 0),
        (field::FILE, record.file.is_some()),
        (field::NAME, !record.name.as_ref().is_empty()),
        (field::TO_FILE, record.to_file.is_some()),
        (field::TO_NAME, !record.to_name.as_ref().is_empty()),
        (field::MADE, record.made.is_some()),
        (field::OFFSET, record.offset.is_some()),
        (field::TO_OFFSET, record.to_offset.is_some()),
        (field::LENGTH, record.length.is_some()),
        (field::ARGUMENT, record.argument.is_some()),
    ]
    .into_iter()
    .filter(|(_, is_there)| *is_there)
    .fold(outcome, |fields, (bit, _)| fields | bit)
}

/// Takes one record from the front of a block. `last_ns` is the time of the record before, or of the block; it becomes that of
/// this record.
///
/// # Errors
/// What is wrong, as text.
pub fn take_record(bytes: &mut &[u8], last_ns: &mut u64) -> Result<Record, &'static str> {
    const CUT: &str = "the record is cut short, or has a number of more than 64 bits";
    let (&code, rest) = bytes.split_first().ok_or(CUT)?;
    *bytes = rest;
    let op = Op::from_code(code).ok_or("no operation has this code")?;
    let fields = varint::take(bytes).ok_or(CUT)?;
    if fields & !field::ALL != 0 {
        return Err("the record has fields that this version does not know");
    }
    if (fields & field::OUTCOMES).count_ones() > 1 {
        return Err("the record has two outcomes");
    }
    let since = varint::unzigzag(varint::take(bytes).ok_or(CUT)?);
    *last_ns = last_ns.wrapping_add_signed(since);
    let number = |bytes: &mut &[u8], bit: u64| -> Result<Option<u64>, &'static str> {
        if fields & bit == 0 { Ok(None) } else { varint::take(bytes).map(Some).ok_or(CUT) }
    };
    let name = |bytes: &mut &[u8], bit: u64| -> Result<Vec<u8>, &'static str> {
        let Some(len) = number(bytes, bit)? else { return Ok(Vec::new()) };
        let len = usize::try_from(len).ok().filter(|len| (1..=NAME_MAX_BYTES).contains(len));
        let len = len.ok_or("a name is empty or too long")?;
        let (name, rest) = bytes.split_at_checked(len).ok_or(CUT)?;
        *bytes = rest;
        Ok(name.to_vec())
    };
    let small = |value: u64| u32::try_from(value).map_err(|_| "a number has more than 32 bits");
    let file = |value: Option<u64>| match value {
        Some(0) => Err("a file has the number 0"),
        value => Ok(FileId(value.unwrap_or(0))),
    };
    Ok(Record {
        time_ns: *last_ns,
        op,
        duration_ns: number(bytes, field::DURATION)?,
        client: small(number(bytes, field::CLIENT)?.unwrap_or(0))?,
        file: file(number(bytes, field::FILE)?)?,
        name: name(bytes, field::NAME)?,
        to_file: file(number(bytes, field::TO_FILE)?)?,
        to_name: name(bytes, field::TO_NAME)?,
        made: file(number(bytes, field::MADE)?)?,
        offset: number(bytes, field::OFFSET)?,
        to_offset: number(bytes, field::TO_OFFSET)?,
        length: number(bytes, field::LENGTH)?,
        argument: number(bytes, field::ARGUMENT)?.map(small).transpose()?,
        outcome: match (number(bytes, field::COUNT)?, number(bytes, field::ERRNO)?) {
            (Some(count), _) => Outcome::Done(count),
            (_, Some(errno)) => Outcome::Failed(small(errno)?),
            _ if fields & field::DONE != 0 => Outcome::Done(0),
            _ => Outcome::Unknown,
        },
    })
}
