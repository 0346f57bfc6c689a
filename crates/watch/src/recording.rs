//! A recording of a watch: ticks in a file.
//!
//! ```text
//!  file:   "FIRNWTCH"  u32 version (1)  block ...
//!  block:  u32 magic "FWB1"   u32 stored bytes   u32 raw bytes   u32 ticks
//!          i64 first tick's ns   i64 last tick's ns   u32 CRC-32C of the 32 bytes before and of the content
//!          content: zstd of JSON, a tick a line; the first tick has the whole map
//! ```
//! All numbers are little-endian. A block has at most [`BLOCK_TICKS`] ticks; so a recording that ends in a crash lacks at most a
//! minute of ticks a second, and a replay that seeks reads two blocks.
//!
//! Invariants: a reader allocates at most [`RAW_MAX`] bytes for a block, whatever the file says, and never panics on its content; a
//! writer ends the file at [`FILE_MAX`].

use crate::deltas::Deltas;
use crate::state::State;
use crate::tick::Tick;
use crc_fast::{CrcAlgorithm, Digest};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Ticks of a block at most.
pub const BLOCK_TICKS: u32 = 60;
/// Bytes of a block before compression at most: a whole map of the largest volume, and more.
pub const RAW_MAX: u32 = 32 << 20;
/// A recording ends at this size.
pub const FILE_MAX: u64 = 1 << 30;
/// A block that has this many bytes is full.
const BLOCK_BYTES: usize = 4 << 20;
const MAGIC: &[u8; 8] = b"FIRNWTCH";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 12;
const BLOCK_MAGIC: &[u8; 4] = b"FWB1";
const BLOCK_HEADER_BYTES: usize = 36;
const LEVEL: i32 = 3;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadRecording {
    /// It is something else.
    #[error("it is no recording of firn watch")]
    NotOne,
    /// A later version of firn wrote it.
    #[error("it has version {0}, and this firn reads version {VERSION}")]
    Version(u32),
    /// A block is damaged.
    #[error("the block at byte {at} is damaged: {why}")]
    Damaged {
        /// Where it begins.
        at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// True if a file that begins with these bytes is a recording.
#[must_use]
pub fn is_recording(begin: &[u8]) -> bool {
    begin.starts_with(MAGIC)
}

/// Writes a recording.
pub struct Writer<W: Write> {
    out: W,
    deltas: Deltas,
    raw: Vec<u8>,
    ticks: u32,
    first_ns: i64,
    last_ns: i64,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self {
            out,
            deltas: Deltas::default(),
            raw: Vec::new(),
            ticks: 0,
            first_ns: 0,
            last_ns: 0,
            written: HEADER_BYTES,
        })
    }

    /// Adds the newest tick of a state. False once the file has [`FILE_MAX`] bytes: it takes no more.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, state: &State) -> io::Result<bool> {
        if self.written >= FILE_MAX {
            return Ok(false);
        }
        let Some(tick) = self.deltas.next(state, self.ticks == 0) else { return Ok(true) };
        if self.ticks == 0 {
            self.first_ns = tick.now_ns;
        }
        self.last_ns = tick.now_ns;
        serde_json::to_writer(&mut self.raw, &tick)?;
        self.raw.push(b'\n');
        self.ticks += 1;
        if self.ticks >= BLOCK_TICKS || self.raw.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(true)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.ticks == 0 {
            return Ok(());
        }
        let content = zstd::bulk::compress(&self.raw, LEVEL)?;
        let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + content.len());
        block.extend_from_slice(BLOCK_MAGIC);
        block.extend_from_slice(&(content.len() as u32).to_le_bytes());
        block.extend_from_slice(&(self.raw.len() as u32).to_le_bytes());
        block.extend_from_slice(&self.ticks.to_le_bytes());
        block.extend_from_slice(&self.first_ns.to_le_bytes());
        block.extend_from_slice(&self.last_ns.to_le_bytes());
        let crc = checksum(&block, &content);
        block.extend_from_slice(&crc.to_le_bytes());
        block.extend_from_slice(&content);
        self.out.write_all(&block)?;
        self.out.flush()?;
        self.written += block.len() as u64;
        self.raw.clear();
        self.ticks = 0;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        Ok(self.out)
    }
}

fn checksum(header: &[u8], content: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(content);
    digest.finalize() as u32
}

/// A block of a recording, without its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    at: u64,
    stored_bytes: u32,
    raw_bytes: u32,
    /// Its ticks.
    pub ticks: u32,
    /// Time of the first.
    pub first_ns: i64,
    /// Time of the last.
    pub last_ns: i64,
}

/// Reads a recording.
pub struct Reader<R> {
    input: R,
    blocks: Vec<BlockInfo>,
    is_torn: bool,
}

impl<R: Read + Seek> Reader<R> {
    /// Finds the blocks of a recording; an incomplete last one is left out.
    ///
    /// # Errors
    /// See [`BadRecording`].
    pub fn new(mut input: R) -> Result<Self, BadRecording> {
        let len = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let mut header = [0; HEADER_BYTES as usize];
        if len < HEADER_BYTES {
            return Err(BadRecording::NotOne);
        }
        input.read_exact(&mut header)?;
        if !is_recording(&header) {
            return Err(BadRecording::NotOne);
        }
        let version = u32_at(&header, 8);
        if version != VERSION {
            return Err(BadRecording::Version(version));
        }
        let mut reader = Self { input, blocks: Vec::new(), is_torn: false };
        let mut at = HEADER_BYTES;
        while at < len {
            let Some(block) = reader.block_at(at, len)? else {
                reader.is_torn = true;
                break;
            };
            at += BLOCK_HEADER_BYTES as u64 + u64::from(block.stored_bytes);
            reader.blocks.push(block);
        }
        Ok(reader)
    }

    /// The header of a block; `None` if the file ends in it.
    fn block_at(&mut self, at: u64, len: u64) -> Result<Option<BlockInfo>, BadRecording> {
        if len - at < BLOCK_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let damaged = |why| Err(BadRecording::Damaged { at, why });
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.input.seek(SeekFrom::Start(at))?;
        self.input.read_exact(&mut header)?;
        let (stored_bytes, raw_bytes, ticks) = (u32_at(&header, 4), u32_at(&header, 8), u32_at(&header, 12));
        let (first_ns, last_ns) = (i64_at(&header, 16), i64_at(&header, 24));
        if header[..4] != *BLOCK_MAGIC {
            return damaged("no block begins there");
        }
        if stored_bytes > RAW_MAX || raw_bytes > RAW_MAX || ticks == 0 || ticks > BLOCK_TICKS {
            return damaged("its sizes are impossible");
        }
        if u64::from(stored_bytes) > len - at - BLOCK_HEADER_BYTES as u64 {
            return Ok(None);
        }
        Ok(Some(BlockInfo { at, stored_bytes, raw_bytes, ticks, first_ns, last_ns }))
    }

    /// Its blocks, in order.
    #[must_use]
    pub fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    /// The last block is incomplete and was left out.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The ticks of a block; none if there is no such block.
    ///
    /// # Errors
    /// See [`BadRecording`].
    pub fn ticks(&mut self, block: usize) -> Result<Vec<Tick>, BadRecording> {
        let Some(&BlockInfo { at, stored_bytes, raw_bytes, ticks, .. }) = self.blocks.get(block) else {
            return Ok(Vec::new());
        };
        let damaged = |why| BadRecording::Damaged { at, why };
        self.input.seek(SeekFrom::Start(at))?;
        let mut stored = vec![0; BLOCK_HEADER_BYTES + stored_bytes as usize];
        self.input.read_exact(&mut stored)?;
        let (header, content) = stored.split_at(BLOCK_HEADER_BYTES);
        if checksum(&header[..32], content) != u32_at(header, 32) {
            return Err(damaged("its checksum is wrong"));
        }
        let raw = zstd::bulk::decompress(content, raw_bytes as usize);
        let raw = raw.map_err(|_| damaged("it cannot be decompressed"))?;
        let lines = raw.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(ticks as usize);
        let found: Result<Vec<Tick>, _> = lines.map(serde_json::from_slice).collect();
        found.map_err(|_| damaged("a tick in it cannot be understood"))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i64::from_le_bytes(*word))
}

#[cfg(test)]
#[path = "recording_tests.rs"]
pub(crate) mod tests;
