//! Stores snapshots: a header, checksummed blocks of records by ascending inode number, and an end with the checksum of the whole state.
//!
//! Invariants of reading: a checksum is verified before its bytes are used; a length is compared with its bound before anything is
//! allocated; memory grows only by records that were decoded. A damaged file is one error that names the record.

use super::{Entry, Extent, Meta, Snapshot};
use firnfs_format::crc32c;
use firnfs_workload::varint;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"firnsnap";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 20;
const TEXT_MAX_BYTES: usize = 64 << 10;
const FRAME_MAGIC: &[u8; 4] = b"SFRM";
const FRAME_BYTES: usize = 24;
/// Bytes of records at which a block is full; the last record may be longer.
const BLOCK_BYTES: usize = 64 << 10;
/// Longest block: one file may have many extents.
const BLOCK_MAX_BYTES: usize = 64 << 20;
const END: u32 = 0;
const ZSTD_LEVEL: i32 = 3;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not begin as a snapshot does.
    #[error("not a snapshot: it does not begin with the magic \"firnsnap\"")]
    NotASnapshot,
    /// It is of a later version.
    #[error("snapshot format {0} is newer than this program, which reads format {VERSION}")]
    Version(u32),
    /// The header is cut short or damaged.
    #[error("the header is damaged: {0}")]
    Header(String),
    /// A record is cut short or damaged.
    #[error("record {record} (byte {at_bytes} of the file): {what}")]
    Damaged {
        /// The first record that cannot be read, counted from 1.
        record: u64,
        /// Where its block begins, in bytes.
        at_bytes: u64,
        /// What is wrong.
        what: String,
    },
    /// The snapshot that it is based on is not the one that it was made from.
    #[error("it is a difference to another {0} than the one found")]
    Base(String),
}

/// Writes a snapshot, or only what differs from an earlier one, whose file has that name. Returns the bytes written.
///
/// # Errors
/// Writing failed.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, base: Option<(&str, &Snapshot)>) -> io::Result<u64> {
    let of =
        |(file, base): (&str, &Snapshot)| super::Base { file: file.to_owned(), state_crc: state_crc(base) };
    let meta = Meta { base: base.map(of), ..snapshot.meta.clone() };
    let text = serde_json::to_vec(&meta)?;
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&(text.len() as u32).to_le_bytes());
    header.extend_from_slice(&crc32c(&text).to_le_bytes());
    out.write_all(&header)?;
    out.write_all(&text)?;
    let mut writer =
        Blocks { out, plain: Vec::new(), count: 0, last_ino: 0, bytes: (header.len() + text.len()) as u64 };
    let old = base.map(|(_, base)| &base.files);
    let gone = old.into_iter().flatten().filter(|(ino, _)| !snapshot.files.contains_key(ino));
    let is_new = |ino: &u64, entry: &Entry| old.is_none_or(|old| old.get(ino) != Some(entry));
    let present = snapshot.files.iter().filter(|(ino, entry)| is_new(ino, entry));
    // Both ascend: one pass puts them into one order.
    let (mut gone, mut present) = (gone.map(|(&ino, _)| ino).peekable(), present.peekable());
    loop {
        match (gone.peek(), present.peek()) {
            (Some(&dead), next) if next.is_none_or(|(ino, _)| dead < **ino) => {
                gone.next();
                writer.put(dead, None)?;
            }
            (_, Some(&(&ino, entry))) => {
                present.next();
                writer.put(ino, Some(entry))?;
            }
            _ => break,
        }
    }
    writer.finish(state_crc(snapshot))
}

/// Checksum of the files, in one order and encoding.
fn state_crc(snapshot: &Snapshot) -> u32 {
    let mut digest = crc32c(&[]);
    let mut bytes = Vec::new();
    for (ino, entry) in &snapshot.files {
        bytes.clear();
        bytes.extend_from_slice(&digest.to_le_bytes());
        encode(&mut bytes, 0, *ino, Some(entry));
        digest = crc32c(&bytes);
    }
    digest
}

/// A record: inode number (from the one before), whether the file exists, and what the snapshot says of it.
fn encode(out: &mut Vec<u8>, last_ino: u64, ino: u64, entry: Option<&Entry>) {
    varint::put(out, ino.wrapping_sub(last_ino));
    let Some(entry) = entry else { return out.push(0) };
    out.push(1);
    out.push(entry.kind);
    varint::put(out, entry.generation);
    varint::put(out, entry.dir);
    varint::put(out, entry.size_bytes);
    varint::put(out, varint::zigzag(entry.ctime_ns));
    varint::put(out, entry.extents.len() as u64);
    let (mut file_end, mut disk_end) = (0u64, 0u64);
    for extent in &entry.extents {
        varint::put(out, varint::zigzag(extent.file_at_bytes.wrapping_sub(file_end).cast_signed()));
        varint::put(out, varint::zigzag(extent.disk_at_bytes.wrapping_sub(disk_end).cast_signed()));
        varint::put(out, extent.len_bytes);
        file_end = extent.file_at_bytes.wrapping_add(extent.len_bytes);
        disk_end = extent.disk_at_bytes.wrapping_add(extent.len_bytes);
    }
}

/// Reverse of [`encode`]; `None` if the bytes are none.
fn decode(bytes: &mut &[u8], last_ino: u64) -> Option<(u64, Option<Entry>)> {
    let ino = last_ino.checked_add(varint::take(bytes)?)?;
    match take_byte(bytes)? {
        0 => return Some((ino, None)),
        1 => {}
        _ => return None,
    }
    let mut entry = Entry {
        kind: take_byte(bytes)?,
        generation: varint::take(bytes)?,
        dir: varint::take(bytes)?,
        size_bytes: varint::take(bytes)?,
        ctime_ns: varint::unzigzag(varint::take(bytes)?),
        extents: Vec::new(),
    };
    let (mut file_end, mut disk_end) = (0u64, 0u64);
    for _ in 0..varint::take(bytes)? {
        let file_at_bytes = file_end.wrapping_add_signed(varint::unzigzag(varint::take(bytes)?));
        let disk_at_bytes = disk_end.wrapping_add_signed(varint::unzigzag(varint::take(bytes)?));
        let len_bytes = varint::take(bytes)?;
        file_end = file_at_bytes.checked_add(len_bytes)?;
        disk_end = disk_at_bytes.checked_add(len_bytes)?;
        entry.extents.push(Extent { file_at_bytes, disk_at_bytes, len_bytes });
    }
    Some((ino, Some(entry)))
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// Collects records into blocks.
struct Blocks<'a> {
    out: &'a mut dyn Write,
    plain: Vec<u8>,
    count: u32,
    last_ino: u64,
    bytes: u64,
}

impl Blocks<'_> {
    fn put(&mut self, ino: u64, entry: Option<&Entry>) -> io::Result<()> {
        encode(&mut self.plain, self.last_ino, ino, entry);
        self.last_ino = ino;
        self.count += 1;
        if self.plain.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        if self.plain.len() > BLOCK_MAX_BYTES {
            return Err(io::Error::other("a file has too many extents for a snapshot"));
        }
        let stored = zstd::bulk::compress(&self.plain, ZSTD_LEVEL)?;
        self.frame(self.count, self.plain.len() as u32, &stored)?;
        (self.count, self.last_ino) = (0, 0);
        self.plain.clear();
        Ok(())
    }

    fn frame(&mut self, count: u32, plain_bytes: u32, stored: &[u8]) -> io::Result<()> {
        let mut frame = FRAME_MAGIC.to_vec();
        for number in [0, count, plain_bytes, stored.len() as u32, 0] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.extend_from_slice(stored);
        let crc = crc32c(&frame);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        self.bytes += frame.len() as u64;
        self.out.write_all(&frame)
    }

    fn finish(mut self, state_crc: u32) -> io::Result<u64> {
        self.flush()?;
        self.frame(END, 0, &state_crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.bytes)
    }
}

/// Reads the header.
///
/// # Errors
/// It cannot be read, is no snapshot, or is damaged.
pub fn read_meta(input: &mut dyn Read) -> Result<(Meta, u64), SnapshotError> {
    let mut header = [0; HEADER_BYTES];
    let filled = fill(input, &mut header)?;
    if filled < 8 || header[..8] != *MAGIC {
        return Err(SnapshotError::NotASnapshot);
    }
    let cut = || SnapshotError::Header("the file ends within it".to_owned());
    if filled < HEADER_BYTES {
        return Err(cut());
    }
    if word(&header, 8) != VERSION {
        return Err(SnapshotError::Version(word(&header, 8)));
    }
    let text_bytes = word(&header, 12) as usize;
    if text_bytes > TEXT_MAX_BYTES {
        return Err(SnapshotError::Header(format!(
            "it claims {text_bytes} bytes, more than {TEXT_MAX_BYTES}"
        )));
    }
    let mut text = vec![0; text_bytes];
    if fill(input, &mut text)? < text_bytes {
        return Err(cut());
    }
    if crc32c(&text) != word(&header, 16) {
        return Err(SnapshotError::Header("its checksum is wrong".to_owned()));
    }
    let meta: Meta = serde_json::from_slice(&text).map_err(|why| SnapshotError::Header(why.to_string()))?;
    if meta.block_bytes == 0 {
        return Err(SnapshotError::Header("its blocks have no length".to_owned()));
    }
    Ok((meta, (HEADER_BYTES + text_bytes) as u64))
}

/// Reads the records that follow a header; `base` is the state that they change.
///
/// # Errors
/// It cannot be read or is damaged, or `base` is not the state that it was made from.
pub fn read_files(
    input: &mut dyn Read,
    (meta, header_bytes): (Meta, u64),
    base: Option<Snapshot>,
) -> Result<Snapshot, SnapshotError> {
    let files = match (&meta.base, base) {
        (None, _) => BTreeMap::new(),
        (Some(wanted), Some(found)) if state_crc(&found) == wanted.state_crc => found.files,
        (Some(wanted), _) => return Err(SnapshotError::Base(wanted.file.clone())),
    };
    let is_whole = meta.base.is_none();
    let mut snapshot = Snapshot { meta, files };
    let mut frames = Frames { input, records: 0, at_bytes: header_bytes, last_ino: None, state_crc: 0 };
    while let Some((count, plain)) = frames.next()? {
        frames.take_records(count, &plain, is_whole, &mut snapshot.files)?;
    }
    frames.end()?;
    let (stated, found) = (frames.state_crc, state_crc(&snapshot));
    if stated != found {
        return Err(frames.damaged(format!(
            "the files have the checksum {found:08x}, not {stated:08x} as the end states"
        )));
    }
    Ok(snapshot)
}

struct Frames<'a> {
    input: &'a mut dyn Read,
    records: u64,
    at_bytes: u64,
    /// Of the record before.
    last_ino: Option<u64>,
    /// As the end states it.
    state_crc: u32,
}

/// Number of records, and their bytes.
type Block = (u32, Vec<u8>);

impl Frames<'_> {
    fn damaged(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::Damaged { record: self.records + 1, at_bytes: self.at_bytes, what: what.into() }
    }

    /// A frame with its stored bytes, verified.
    fn frame(&mut self) -> Result<(u32, u32, Vec<u8>), SnapshotError> {
        let mut head = [0; FRAME_BYTES];
        if fill(self.input, &mut head)? < FRAME_BYTES {
            return Err(self.damaged("the file ends here, without the mark of its end: it was cut short"));
        }
        let [count, plain_bytes, stored_bytes] = [8, 12, 16].map(|at| word(&head, at));
        if head[..4] != *FRAME_MAGIC {
            return Err(self.damaged("no block begins here"));
        }
        if plain_bytes.max(stored_bytes) as usize > BLOCK_MAX_BYTES {
            return Err(self.damaged(format!("a block claims {} bytes", plain_bytes.max(stored_bytes))));
        }
        let stated = word(&head, 4);
        head[4..8].fill(0);
        let mut bytes = head.to_vec();
        // Grows by what is there, not by what the frame claims.
        let read = self.input.take(stored_bytes.into()).read_to_end(&mut bytes)?;
        if read < stored_bytes as usize {
            return Err(
                self.damaged(format!("the file is cut short: {read} of {stored_bytes} bytes of a block"))
            );
        }
        if crc32c(&bytes) != stated {
            return Err(self.damaged("the checksum of a block is wrong"));
        }
        bytes.drain(..FRAME_BYTES);
        Ok((count, plain_bytes, bytes))
    }

    fn next(&mut self) -> Result<Option<Block>, SnapshotError> {
        let (count, plain_bytes, stored) = self.frame()?;
        if count == END {
            let crc = <[u8; 4]>::try_from(stored).map_err(|_| self.damaged("the end has another length"))?;
            self.state_crc = u32::from_le_bytes(crc);
            return Ok(None);
        }
        let mut plain = Vec::new();
        let unpacked = zstd::stream::read::Decoder::new(&stored[..])
            .and_then(|decoder| decoder.take(u64::from(plain_bytes) + 1).read_to_end(&mut plain));
        match unpacked {
            Ok(len) if len == plain_bytes as usize => {
                self.at_bytes += (FRAME_BYTES + stored.len()) as u64;
                Ok(Some((count, plain)))
            }
            Ok(_) => Err(self.damaged("a block has another length than it states")),
            Err(why) => Err(self.damaged(format!("a block cannot be unpacked: {why}"))),
        }
    }

    fn take_records(
        &mut self,
        count: u32,
        plain: &[u8],
        is_whole: bool,
        files: &mut BTreeMap<u64, Entry>,
    ) -> Result<(), SnapshotError> {
        let (mut rest, mut last_ino) = (plain, 0);
        for _ in 0..count {
            let Some((ino, entry)) = decode(&mut rest, last_ino) else {
                return Err(self.damaged("a record is damaged"));
            };
            if self.last_ino.is_some_and(|before| ino <= before) {
                return Err(self.damaged("the records are not in the order of inode numbers"));
            }
            (last_ino, self.last_ino) = (ino, Some(ino));
            match entry {
                Some(entry) => {
                    files.insert(ino, entry);
                }
                None if is_whole => return Err(self.damaged("a whole snapshot says that a file is gone")),
                None => {
                    files.remove(&ino);
                }
            }
            self.records += 1;
        }
        if rest.is_empty() { Ok(()) } else { Err(self.damaged("bytes follow the last record of a block")) }
    }

    /// Nothing may follow the end.
    fn end(&mut self) -> Result<(), SnapshotError> {
        match fill(self.input, &mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged("bytes follow the end")),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads until the buffer is full or the input ends; returns how many bytes there were.
fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(filled)
}
