//! Writes a workload to any stream, without seeking.

use crate::block::Block;
use crate::error::Error;
use crate::header::Header;
use crate::pack::{End, Packer, Position};
use crate::record::Record;
use std::io::Write;

/// Writes one file. Without [`Writer::finish`] the file has no end, and readers report that.
pub struct Writer<W: Write> {
    out: W,
    packer: Packer,
    block: Block,
    at: Position,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(mut out: W, header: &Header) -> Result<Self, Error> {
        out.write_all(&header.encode())?;
        Ok(Self { out, packer: Packer::new()?, block: Block::new(), at: Position::default() })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Writing failed, or a name is too long.
    pub fn push<N: AsRef<[u8]>>(&mut self, record: &Record<N>) -> Result<(), Error> {
        if !self.block.has_room() {
            self.write_block()?;
        }
        let number = self.at.records + u64::from(self.block.count()) + 1;
        self.block.push(record).map_err(|source| Error::Unwritable { record: number, source })
    }

    /// Says that this many records were lost between the last one and the next.
    ///
    /// # Errors
    /// Writing failed.
    pub fn lose(&mut self, count: u64) -> Result<(), Error> {
        if count > 0 {
            self.write_block()?;
            self.at.lost = self.at.lost.saturating_add(count);
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<(), Error> {
        if self.block.count() > 0 {
            self.out.write_all(self.packer.block(&self.block, self.at))?;
            self.at.records += u64::from(self.block.count());
            self.at.end_ns = self.at.end_ns.max(self.block.end_ns());
            self.block.clear();
        }
        Ok(())
    }

    /// Ends the file; returns the stream and how many records the file has.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self, end: End) -> Result<(W, u64), Error> {
        self.write_block()?;
        self.out.write_all(self.packer.end(self.at, end))?;
        self.out.flush()?;
        Ok((self.out, self.at.records))
    }
}
