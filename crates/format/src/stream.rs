//! The send stream: what changed from one state of a volume to another one, as frames. `firn send` writes it, `firn receive` reads it.
//!
//! Inodes have the numbers that they have where they come from, and the one that receives gives them the same. The frames come in this
//! order: names that are lost, inodes that are made, names that are gained, the end of names; then for each inode what changed of its
//! content and attributes, closed by [`Frame::Attributes`]; then the end. So a receiver needs nothing of what comes later.
//!
//! Each frame has a checksum that depends on the stream's header and on the frame's number: frames of another stream, lost ones, and ones
//! out of order are noticed. The content of blocks also has the checksums of the pointers that lead to it on the sending volume.

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use crate::units::{Epoch, InodeNo, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// "firnsend".
pub const STREAM_MAGIC: [u8; 8] = *b"firnsend";
/// Version of the streams that are written.
pub const STREAM_VERSION: u32 = 2;
/// Version of streams whose frames have the checksum of the whole header. They are still read.
const WHOLE_HEADER_VERSION: u32 = 1;
/// Longest name of a state in a header, in bytes.
pub const STATE_NAME_MAX: usize = crate::checkpoint::POINT_NAME_MAX;
/// Bytes of a stream's header.
pub const STREAM_HEADER_BYTES: usize = 160;
/// Bytes before the payload of a frame.
pub const FRAME_HEADER_BYTES: usize = 16;
/// Bytes of content in one frame, at most.
pub const CONTENT_MAX_BYTES: usize = 1 << 20;
/// Longest payload of a frame, in bytes: content with a checksum for each sector, and less than 1 KiB before them.
pub const PAYLOAD_MAX_BYTES: usize = CONTENT_MAX_BYTES + CONTENT_MAX_BYTES / 512 * 8 + 1024;

layout! {
    /// Header of a send stream.
    StreamRaw = 160 {
        /// "firnsend"
        magic: [u8; 8],
        /// 2; 1 in streams whose frames have the checksum of the whole header
        version: U32,
        /// CRC-32C of the header, this field taken as zero
        crc: U32,
        /// UUID of the volume that the states are from
        uuid: [u8; 16],
        /// Size of that volume in bytes
        size_bytes: U64,
        /// Block size of that volume in bytes
        block_bytes: U32,
        /// Segment size of that volume in bytes
        segment_bytes: U32,
        /// State that the receiver has to have, by the number of its checkpoint; 0 = none, the stream has all of the state
        from_epoch: U32,
        /// State that it has afterwards
        to_epoch: U32,
        /// When that state was made
        to_time: I64,
        /// First inode number never used in it
        next_ino: U64,
        /// Bytes of its name
        name_len: U16,
        /// Inodes that differ; all ones if there are more than that
        inodes: U32,
        /// Largest file that is kept in its inode on that volume, in bytes
        inline_max: U16,
        /// Name of the state
        name: [u8; 80],
    }
}

layout! {
    /// Header of a frame of a send stream.
    FrameRaw = 16 {
        /// Kind
        kind: U16,
        /// Zero
        reserved: U16,
        /// Bytes of the payload that follows
        len: U32,
        /// Position in the stream: 0, 1, 2 ...
        number: U32,
        /// CRC-32C of the stream's checksum, the fields before, and the payload
        crc: U32,
    }
}

/// Header of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHeader {
    /// Version, [`STREAM_VERSION`] or older.
    pub version: u32,
    /// UUID of the volume that the states are from.
    pub uuid: [u8; 16],
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its block size in bytes.
    pub block_bytes: u32,
    /// Its segment size in bytes.
    pub segment_bytes: u32,
    /// Largest file that it keeps in its inode, in bytes.
    pub inline_max_bytes: u16,
    /// State that the receiver has to have; `None`: the stream has all of the state.
    pub from: Option<Epoch>,
    /// State that it has afterwards.
    pub to: Epoch,
    /// When that was made.
    pub to_time: TimeNs,
    /// First inode number never used in it.
    pub next_ino: InodeNo,
    /// Inodes that differ, for people who wait; the stream has as many [`Frame::Attributes`], or fewer.
    pub inodes: u32,
    /// Name of the state, at most [`STATE_NAME_MAX`] bytes.
    pub name: String,
}

impl StreamHeader {
    /// The bytes of the header.
    ///
    /// # Panics
    /// If the name is too long.
    #[must_use]
    pub fn encode(&self) -> [u8; STREAM_HEADER_BYTES] {
        let mut raw = StreamRaw::new_zeroed();
        raw.magic = STREAM_MAGIC;
        raw.version = self.version.into();
        raw.uuid = self.uuid;
        raw.size_bytes = self.size_bytes.into();
        raw.block_bytes = self.block_bytes.into();
        raw.segment_bytes = self.segment_bytes.into();
        raw.inline_max = self.inline_max_bytes.into();
        raw.from_epoch = self.from.map_or(0, |epoch| epoch.0).into();
        raw.to_epoch = self.to.0.into();
        raw.to_time = self.to_time.0.into();
        raw.next_ino = self.next_ino.0.into();
        raw.inodes = self.inodes.into();
        raw.name_len = (self.name.len() as u16).into();
        raw.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        raw.crc = crate::crc32c(raw.as_bytes()).into();
        let mut bytes = [0; STREAM_HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// What is no header of a stream that this code knows.
    pub fn decode(bytes: &[u8; STREAM_HEADER_BYTES]) -> Result<Self, DecodeError> {
        let raw = StreamRaw::read_from_bytes(bytes)
            .map_err(|_| DecodeError::new("header of a stream", STREAM_HEADER_BYTES, bytes.len()))?;
        ensure(raw.magic == STREAM_MAGIC, "a send stream", "\"firnsend\" at its beginning", "other bytes")?;
        let mut zeroed = raw;
        zeroed.crc = 0.into();
        let crc = crate::crc32c(zeroed.as_bytes());
        ensure(crc == raw.crc.get(), "checksum of the stream's header", raw.crc.get(), crc)?;
        let version = raw.version.get();
        let is_known = (WHOLE_HEADER_VERSION..=STREAM_VERSION).contains(&version);
        ensure(is_known, "version of the stream", format_args!("{STREAM_VERSION} at most"), version)?;
        let name =
            raw.name.get(..usize::from(raw.name_len.get())).and_then(|name| std::str::from_utf8(name).ok());
        let name =
            name.ok_or_else(|| DecodeError::new("name of the state", "UTF-8, 80 bytes at most", "others"))?;
        Ok(Self {
            version,
            uuid: raw.uuid,
            size_bytes: raw.size_bytes.get(),
            block_bytes: raw.block_bytes.get(),
            segment_bytes: raw.segment_bytes.get(),
            inline_max_bytes: raw.inline_max.get(),
            from: Some(Epoch(raw.from_epoch.get())).filter(|epoch| epoch.0 > 0),
            to: Epoch(raw.to_epoch.get()),
            to_time: TimeNs(raw.to_time.get()),
            next_ino: InodeNo(raw.next_ino.get()),
            inodes: raw.inodes.get(),
            name: name.to_owned(),
        })
    }

    /// What the checksums of the frames begin with. Neither the size of the volume nor the name of the state counts: both may change
    /// before the rest of a stream that was cut is sent.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        if self.version == WHOLE_HEADER_VERSION {
            return crate::crc32c(&self.encode());
        }
        crate::crc32c(&Self { size_bytes: 0, name: String::new(), ..self.clone() }.encode())
    }
}

/// The attributes that close what a stream has about an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Which inode.
    pub ino: InodeNo,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Last access.
    pub atime: TimeNs,
    /// Last change of content.
    pub mtime: TimeNs,
    /// Last change of the inode.
    pub ctime: TimeNs,
}

/// A frame; see the module's head for the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A directory loses a name.
    Lose {
        /// The directory.
        dir: InodeNo,
        /// What has the name.
        ino: InodeNo,
        /// Whether that exists afterwards.
        is_kept: bool,
        /// The name.
        name: &'a [u8],
    },
    /// An inode is made, without content.
    Make {
        /// Its number.
        ino: InodeNo,
        /// Type of file, as in inode records.
        kind: u8,
        /// Device number.
        rdev: u64,
        /// When it was made.
        btime: TimeNs,
        /// Where a symbolic link leads.
        target: &'a [u8],
    },
    /// A directory gains a name.
    Gain {
        /// The directory.
        dir: InodeNo,
        /// What gets the name.
        ino: InodeNo,
        /// The name.
        name: &'a [u8],
    },
    /// All names are as they will be.
    NamesEnd,
    /// The size of a file, before its content: what lies beyond is gone.
    Size {
        /// Which inode.
        ino: InodeNo,
        /// Size in bytes.
        size_bytes: u64,
    },
    /// Content of a file.
    Content {
        /// Which inode.
        ino: InodeNo,
        /// Where it begins.
        at_bytes: u64,
        /// For each block the CRC-32C and the stored length in bytes of its pointer; empty for content of an inode record.
        pointers: Vec<(u32, u32)>,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A part of a file without content.
    Hole {
        /// Which inode.
        ino: InodeNo,
        /// Where it begins.
        at_bytes: u64,
        /// How long it is, in bytes.
        len_bytes: u64,
        /// Whether its space is charged.
        is_reserved: bool,
    },
    /// An extended attribute.
    Xattr {
        /// Which inode.
        ino: InodeNo,
        /// Name with its namespace.
        name: &'a [u8],
        /// Value; `None`: the inode has no such attribute any more.
        value: Option<&'a [u8]>,
    },
    /// Closes what there is about an inode.
    Attributes(Attributes),
    /// The stream is complete.
    End,
}

const LOSE: u16 = 1;
const MAKE: u16 = 2;
const GAIN: u16 = 3;
const NAMES_END: u16 = 4;
const SIZE: u16 = 5;
const CONTENT: u16 = 6;
const HOLE: u16 = 7;
const XATTR: u16 = 8;
const ATTRIBUTES: u16 = 9;
const END: u16 = 10;

/// Bytes of a [`Frame::Content`] before its bytes, for that many blocks.
#[must_use]
pub fn content_overhead_bytes(blocks: usize) -> usize {
    FRAME_HEADER_BYTES + 8 + 8 + 4 + blocks * 8
}

impl<'a> Frame<'a> {
    /// Appends the frame to `out`. `stream`: [`StreamHeader::checksum`].
    pub fn encode(&self, stream: u32, number: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + FRAME_HEADER_BYTES, 0);
        let kind = self.put_payload(out);
        let mut raw = FrameRaw {
            kind: kind.into(),
            reserved: 0.into(),
            len: ((out.len() - start - FRAME_HEADER_BYTES) as u32).into(),
            number: number.into(),
            crc: 0.into(),
        };
        raw.crc = checksum(stream, &raw, &out[start + FRAME_HEADER_BYTES..]).into();
        out[start..start + FRAME_HEADER_BYTES].copy_from_slice(raw.as_bytes());
    }

    fn put_payload(&self, out: &mut Vec<u8>) -> u16 {
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match self {
            Self::Lose { dir, ino, is_kept, name } => {
                put(&dir.0.to_le_bytes());
                put(&ino.0.to_le_bytes());
                put(&[u8::from(*is_kept)]);
                put(name);
                LOSE
            }
            Self::Make { ino, kind, rdev, btime, target } => {
                put(&ino.0.to_le_bytes());
                put(&[*kind]);
                put(&rdev.to_le_bytes());
                put(&btime.0.to_le_bytes());
                put(target);
                MAKE
            }
            Self::Gain { dir, ino, name } => {
                put(&dir.0.to_le_bytes());
                put(&ino.0.to_le_bytes());
                put(name);
                GAIN
            }
            Self::NamesEnd => NAMES_END,
            Self::Size { ino, size_bytes } => {
                put(&ino.0.to_le_bytes());
                put(&size_bytes.to_le_bytes());
                SIZE
            }
            Self::Content { ino, at_bytes, pointers, bytes } => {
                put(&ino.0.to_le_bytes());
                put(&at_bytes.to_le_bytes());
                put(&(pointers.len() as u32).to_le_bytes());
                for (crc, stored_bytes) in pointers {
                    put(&crc.to_le_bytes());
                    put(&stored_bytes.to_le_bytes());
                }
                put(bytes);
                CONTENT
            }
            Self::Hole { ino, at_bytes, len_bytes, is_reserved } => {
                put(&ino.0.to_le_bytes());
                put(&at_bytes.to_le_bytes());
                put(&len_bytes.to_le_bytes());
                put(&[u8::from(*is_reserved)]);
                HOLE
            }
            Self::Xattr { ino, name, value } => {
                put(&ino.0.to_le_bytes());
                put(&[u8::from(value.is_some()), name.len() as u8]);
                put(name);
                put(value.unwrap_or_default());
                XATTR
            }
            Self::Attributes(a) => {
                put(&a.ino.0.to_le_bytes());
                put(&a.mode.to_le_bytes());
                put(&a.uid.to_le_bytes());
                put(&a.gid.to_le_bytes());
                put(&a.nlink.to_le_bytes());
                put(&a.size_bytes.to_le_bytes());
                put(&a.atime.0.to_le_bytes());
                put(&a.mtime.0.to_le_bytes());
                put(&a.ctime.0.to_le_bytes());
                ATTRIBUTES
            }
            Self::End => END,
        }
    }

    /// Reads a frame from its header and its payload.
    ///
    /// # Errors
    /// A wrong checksum or number, an unknown kind, a payload that does not fit it.
    pub fn decode(
        header: &FrameHeader,
        stream: u32,
        number: u32,
        payload: &'a [u8],
    ) -> Result<Self, DecodeError> {
        ensure(header.0.number.get() == number, "number of a frame", number, header.0.number.get())?;
        let crc = checksum(stream, &header.0, payload);
        ensure(crc == header.0.crc.get(), "checksum of a frame", header.0.crc.get(), crc)?;
        let mut fields = Fields(payload);
        let frame = match header.0.kind.get() {
            LOSE => Self::Lose {
                dir: fields.ino()?,
                ino: fields.ino()?,
                is_kept: fields.flag()?,
                name: fields.rest(),
            },
            MAKE => Self::Make {
                ino: fields.ino()?,
                kind: u8::from_le_bytes(fields.take()?),
                rdev: u64::from_le_bytes(fields.take()?),
                btime: fields.time()?,
                target: fields.rest(),
            },
            GAIN => Self::Gain { dir: fields.ino()?, ino: fields.ino()?, name: fields.rest() },
            NAMES_END => Self::NamesEnd,
            SIZE => Self::Size { ino: fields.ino()?, size_bytes: u64::from_le_bytes(fields.take()?) },
            CONTENT => {
                let (ino, at_bytes) = (fields.ino()?, u64::from_le_bytes(fields.take()?));
                let count = u32::from_le_bytes(fields.take()?) as usize;
                ensure(count <= payload.len() / 8, "blocks of a frame", "those in it", count)?;
                let pointer =
                    |_| Ok((u32::from_le_bytes(fields.take()?), u32::from_le_bytes(fields.take()?)));
                let pointers = (0..count).map(pointer).collect::<Result<_, DecodeError>>()?;
                Self::Content { ino, at_bytes, pointers, bytes: fields.rest() }
            }
            HOLE => Self::Hole {
                ino: fields.ino()?,
                at_bytes: u64::from_le_bytes(fields.take()?),
                len_bytes: u64::from_le_bytes(fields.take()?),
                is_reserved: fields.flag()?,
            },
            XATTR => {
                let (ino, is_there) = (fields.ino()?, fields.flag()?);
                let [len] = fields.take()?;
                let name = fields.slice(usize::from(len))?;
                Self::Xattr { ino, name, value: is_there.then(|| fields.rest()) }
            }
            ATTRIBUTES => Self::Attributes(Attributes {
                ino: fields.ino()?,
                mode: u16::from_le_bytes(fields.take()?),
                uid: u32::from_le_bytes(fields.take()?),
                gid: u32::from_le_bytes(fields.take()?),
                nlink: u32::from_le_bytes(fields.take()?),
                size_bytes: u64::from_le_bytes(fields.take()?),
                atime: fields.time()?,
                mtime: fields.time()?,
                ctime: fields.time()?,
            }),
            END => Self::End,
            other => return Err(DecodeError::new("kind of a frame", "1 to 10", other)),
        };
        ensure(fields.0.is_empty(), "length of a frame", "that of its fields", payload.len())?;
        Ok(frame)
    }
}

/// The bytes before the payload of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader(FrameRaw);

impl FrameHeader {
    /// Reads it.
    ///
    /// # Errors
    /// A payload that is longer than any may be.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, DecodeError> {
        let raw = FrameRaw::read_from_bytes(bytes)
            .map_err(|_| DecodeError::new("header of a frame", FRAME_HEADER_BYTES, bytes.len()))?;
        let len = raw.len.get() as usize;
        ensure(
            len <= PAYLOAD_MAX_BYTES,
            "length of a frame",
            format_args!("{PAYLOAD_MAX_BYTES} at most"),
            len,
        )?;
        Ok(Self(raw))
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.0.len.get() as usize
    }
}

fn checksum(stream: u32, header: &FrameRaw, payload: &[u8]) -> u32 {
    let mut zeroed = *header;
    zeroed.crc = stream.into();
    crate::crc32c_of(&[zeroed.as_bytes(), payload])
}

/// What is left of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (first, rest) = self.0.split_at_checked(len).ok_or_else(|| {
            DecodeError::new("length of a frame", format_args!("{len} bytes more"), self.0.len())
        })?;
        self.0 = rest;
        Ok(first)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut field = [0; N];
        field.copy_from_slice(self.slice(N)?);
        Ok(field)
    }

    fn ino(&mut self) -> Result<InodeNo, DecodeError> {
        self.take().map(|bytes| InodeNo(u64::from_le_bytes(bytes)))
    }

    fn time(&mut self) -> Result<TimeNs, DecodeError> {
        self.take().map(|bytes| TimeNs(i64::from_le_bytes(bytes)))
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        let [flag] = self.take()?;
        ensure(flag <= 1, "a flag of a frame", "0 or 1", flag)?;
        Ok(flag == 1)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
