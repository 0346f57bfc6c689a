//! Reads a workload from any stream, block by block.
//!
//! Invariants: at most one block is in memory, stored and plain, in buffers of fixed size; what a file claims about sizes is
//! compared with these before it is used. A frame's checksum is verified before its records are read. After an error the
//! iterator ends.

use crate::block::take_record;
use crate::error::Error;
use crate::header::{Header, fill};
use crate::layout::{
    BLOCK_MAX_BYTES, FORM_CONTINUED, FORM_LAST, FORM_PLAIN, FORM_ZSTD, FRAME_MAGIC, FrameRaw, KIND_BLOCK,
    KIND_END,
};
use crate::pack::{End, Position, crc_of};
use crate::record::Record;
use crate::records;
use std::io::Read;
use zerocopy::FromBytes;

/// An iterator of records.
pub struct Reader<R: Read> {
    input: R,
    header: Header,
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Box<[u8]>,
    plain: Box<[u8]>,
    block: Current,
    at: Position,
    /// Bytes of the file that were read.
    read_bytes: u64,
    end: Option<End>,
    has_failed: bool,
}

/// The block that is being read.
#[derive(Default)]
struct Current {
    /// Of `plain`.
    from: usize,
    to: usize,
    records_left: u32,
    last_ns: u64,
    /// Where its frame begins, in bytes.
    at_bytes: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The stream cannot be read, or is not a workload that this version reads.
    pub fn new(mut input: R) -> Result<Self, Error> {
        let (header, read_bytes) = Header::read(&mut input)?;
        Ok(Self {
            input,
            header,
            decompressor: zstd::bulk::Decompressor::new()?,
            stored: vec![0; BLOCK_MAX_BYTES].into_boxed_slice(),
            plain: vec![0; BLOCK_MAX_BYTES].into_boxed_slice(),
            block: Current::default(),
            at: Position::default(),
            read_bytes,
            end: None,
            has_failed: false,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Records that were lost before the last one that was read, or before the end once that is reached.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.at.lost
    }

    /// How the file ends; `None` before the end is reached.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes of the file that were read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { record: self.at.records + 1, at_bytes: self.block.at_bytes, what: what.into() }
    }

    /// The next record, or `None` at the end.
    fn advance(&mut self) -> Result<Option<Record>, Error> {
        while self.block.records_left == 0 {
            if self.block.from < self.block.to {
                let left = self.block.to - self.block.from;
                return Err(self.damaged(format!("{left} bytes follow the last record of the block")));
            }
            if self.end.is_some() || !self.read_frame()? {
                return Ok(None);
            }
        }
        let mut bytes = &self.plain[self.block.from..self.block.to];
        let taken = take_record(&mut bytes, &mut self.block.last_ns);
        self.block.from = self.block.to - bytes.len();
        let record = taken.map_err(|what| self.damaged(what))?;
        self.block.records_left -= 1;
        self.at.records += 1;
        self.at.end_ns = self.at.end_ns.max(record.end_ns());
        Ok(Some(record))
    }

    /// Reads a frame; false if it is the end of the file.
    fn read_frame(&mut self) -> Result<bool, Error> {
        self.block = Current { at_bytes: self.read_bytes, ..Current::default() };
        let mut bytes = [0; size_of::<FrameRaw>()];
        let filled = fill(&mut self.input, &mut bytes)?;
        self.read_bytes += filled as u64;
        if filled == 0 {
            return Err(self.damaged("the file ends here, without the mark of its end: it was cut short"));
        }
        let raw = FrameRaw::read_from_bytes(&bytes[..filled])
            .map_err(|_| self.damaged("the file is cut short within the head of a block"))?;
        if raw.magic != FRAME_MAGIC {
            return Err(self.damaged("no block begins here"));
        }
        let (stored_bytes, plain_bytes) = (raw.stored_bytes.get() as usize, raw.plain_bytes.get() as usize);
        if stored_bytes > BLOCK_MAX_BYTES || plain_bytes > BLOCK_MAX_BYTES {
            return Err(self.damaged(format!(
                "a block claims {} bytes, more than {BLOCK_MAX_BYTES}",
                stored_bytes.max(plain_bytes)
            )));
        }
        let filled = fill(&mut self.input, &mut self.stored[..stored_bytes])?;
        self.read_bytes += filled as u64;
        if filled < stored_bytes {
            return Err(
                self.damaged(format!("the file is cut short: {filled} of {stored_bytes} bytes of a block"))
            );
        }
        let (expected, found) = (raw.crc.get(), crc_of(raw, &self.stored[..stored_bytes]));
        if expected != found {
            return Err(
                self.damaged(format!("the checksum is {found:08x}, not {expected:08x} as the block states"))
            );
        }
        if raw.before.get() != self.at.records {
            return Err(self.damaged(format!("a block states {} records before it", raw.before.get())));
        }
        if raw.lost.get() < self.at.lost {
            return Err(self.damaged("a block states fewer lost records than the one before"));
        }
        self.at.lost = raw.lost.get();
        match raw.kind.get() {
            KIND_BLOCK => self.unpack(&raw, stored_bytes, plain_bytes).map(|()| true),
            KIND_END => self.read_end(&raw).map(|()| false),
            kind => Err(self.damaged(format!("a frame has the unknown kind {kind}"))),
        }
    }

    fn unpack(&mut self, raw: &FrameRaw, stored_bytes: usize, plain_bytes: usize) -> Result<(), Error> {
        let (stored, plain) = (&self.stored[..stored_bytes], &mut self.plain[..plain_bytes]);
        let unpacked = match raw.form.get() {
            FORM_PLAIN if stored_bytes == plain_bytes => {
                plain.copy_from_slice(stored);
                Ok(plain_bytes)
            }
            FORM_PLAIN => Err("two lengths that should be the same differ".to_owned()),
            FORM_ZSTD => self.decompressor.decompress_to_buffer(stored, plain).map_err(|e| e.to_string()),
            form => Err(format!("unknown form {form}")),
        };
        match unpacked {
            Ok(len) if len == plain_bytes && raw.count.get() > 0 => {
                self.block.to = plain_bytes;
                self.block.records_left = raw.count.get();
                self.block.last_ns = raw.time_ns.get();
                Ok(())
            }
            Ok(_) if raw.count.get() == 0 => Err(self.damaged("a block has no records")),
            Ok(len) => Err(self.damaged(format!("a block has {len} bytes, not {plain_bytes} as it states"))),
            Err(why) => Err(self.damaged(format!("a block cannot be unpacked: {why}"))),
        }
    }

    fn read_end(&mut self, raw: &FrameRaw) -> Result<(), Error> {
        let end = match raw.form.get() {
            FORM_LAST => End::Last,
            FORM_CONTINUED => End::Continued,
            form => return Err(self.damaged(format!("the end has the unknown form {form}"))),
        };
        if raw.count.get() != 0 || raw.stored_bytes.get() != 0 || raw.plain_bytes.get() != 0 {
            return Err(self.damaged("the end has content"));
        }
        if raw.time_ns.get() != self.at.end_ns {
            return Err(self.damaged("the end states another time than the records"));
        }
        if fill(&mut self.input, &mut [0])? != 0 {
            return Err(self.damaged("bytes follow the end"));
        }
        self.end = Some(end);
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        records::item(self.advance(), &mut self.has_failed)
    }
}
