//! Sending a state of a volume: what changed since an older one, or all of it, as a stream of frames (`firnfs_format::stream`).
//!
//! Inodes that differ come from both inode maps, blocks that differ from both block trees, so a send reads what changed and the metadata
//! that leads there. Both states may not be dropped meanwhile. The same two states give the same frames, whatever the cleaner moves, and the
//! same header, except for the volume's size and the state's name: a stream that was cut can be made again from the byte where it ended. The
//! crash explorer holds it to that.
//!
//! - `names`: names that directories lose and gain. `content`: content and attributes. `damage`: which file an error is about. This file:
//!   the order, and the frames.
//!
//! Callers: `firn send`; the daemon, for a mounted volume.

mod content;
mod damage;
mod names;

pub(crate) use content::RECEIVED_XATTR;

use firnfs::FsError;
use firnfs::inode::{Inode, Kind};
use firnfs::lfs::{Differing, Lfs, RECORDS_AT_ONCE, title};
use firnfs::states::{in_view, view_of};
use firnfs::store::Store;
use firnfs_format::checkpoint::Point;
use firnfs_format::stream::{Frame, STREAM_VERSION, StreamHeader, content_overhead_bytes};
use firnfs_format::{Epoch, InodeNo};
use firnfs_volume::Volume;
use std::collections::BTreeSet;
use std::io::Write;

/// Why a state was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The caller has stopped it.
    #[error("stopped")]
    Stopped,
    /// The volume failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The stream could not be written.
    #[error("writing the stream: {0}")]
    Io(#[from] std::io::Error),
}

/// How far a send has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendProgress {
    /// Inodes whose content has been sent.
    pub inodes: u64,
    /// Inodes that differ.
    pub of_inodes: u64,
    /// Bytes of the stream so far.
    pub bytes: u64,
}

/// What was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Header of the stream.
    pub header: StreamHeader,
    /// Inodes that differ.
    pub inodes: u64,
    /// Bytes of content in the stream.
    pub content_bytes: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

/// Sends what state `to` has and state `from` does not have; all of `to` if `from` is `None`. Leaves out the first `skip_bytes`,
/// which the receiver has. Continues while `go_on`, called for every inode, returns true. Keeps some 24 bytes in memory for each
/// inode that differs, and the names of one directory.
///
/// # Errors
/// `Stopped`; `NotFound` if a state is not retained; `Invalid` if `from` is not the older one; `Corrupt`, which names the path of a
/// damaged file if that is found soon; `Io`.
pub fn send(
    volume: &Volume<Lfs>,
    from: Option<Epoch>,
    to: Epoch,
    skip_bytes: u64,
    out: &mut dyn Write,
    go_on: &mut dyn FnMut(SendProgress) -> bool,
) -> Result<Sent, SendError> {
    let points = crate::history::points(volume)?;
    let whole = |epoch| points.iter().find(|point| point.epoch == epoch);
    let point = whole(to).ok_or(FsError::NotFound)?;
    if let Some(from) = from {
        whole(from).ok_or(FsError::NotFound)?;
        if from >= to {
            return Err(FsError::Invalid("the state to start from: it is not the older one").into());
        }
    }
    let from_state = from.map(|epoch| State::look_into(volume, epoch)).transpose()?;
    let to_state = State::look_into(volume, to)?;
    let (items, replaced) = find_items(volume, from_state, to_state, go_on)?;
    let header = header(volume, from, point, items.len())?;
    let mut sender = Sender {
        volume,
        from: from_state,
        to: to_state,
        block_bytes: header.block_bytes,
        items,
        replaced,
        frames: Frames::new(&header, skip_bytes, out)?,
        content_bytes: 0,
    };
    sender.names(go_on)?;
    let of_inodes = sender.items.len() as u64;
    for at in 0..sender.items.len() {
        let so_far = SendProgress { inodes: at as u64, of_inodes, bytes: sender.frames.at_bytes };
        if !go_on(so_far) {
            return Err(SendError::Stopped);
        }
        let sent = sender.content_of(at);
        sent.map_err(|error| sender.with_path(error, at))?;
    }
    sender.frames.put(&Frame::End)?;
    sender.frames.out.flush()?;
    Ok(Sent { inodes: of_inodes, content_bytes: sender.content_bytes, bytes: sender.frames.at_bytes, header })
}

fn header(
    volume: &Volume<Lfs>,
    from: Option<Epoch>,
    to: &Point,
    inodes: usize,
) -> Result<StreamHeader, FsError> {
    volume.run_quietly(|vfs, _| {
        let (sb, geo) = (vfs.store().superblock(), vfs.store().geometry());
        Ok(StreamHeader {
            version: STREAM_VERSION,
            uuid: sb.uuid,
            size_bytes: sb.size_bytes,
            block_bytes: geo.block_bytes,
            segment_bytes: geo.segment_bytes,
            inline_max_bytes: u16::try_from(sb.inline_max_bytes).unwrap_or(u16::MAX),
            from,
            to: to.epoch,
            to_time: to.time,
            next_ino: to.next_ino,
            inodes: u32::try_from(inodes).unwrap_or(u32::MAX),
            name: title(to),
        })
    })
}

/// A state that is read.
#[derive(Clone, Copy)]
struct State {
    epoch: Epoch,
    view: u16,
}

impl State {
    fn look_into(volume: &Volume<Lfs>, epoch: Epoch) -> Result<Self, FsError> {
        let root = volume.run_quietly(|vfs, _| vfs.store_mut().look_into(epoch))?;
        Ok(Self { epoch, view: view_of(root) })
    }

    fn ino(self, ino: InodeNo) -> InodeNo {
        in_view(self.view, ino)
    }

    /// An inode that has a name; `None` if it has none.
    fn named(self, volume: &Volume<Lfs>, ino: InodeNo) -> Result<Option<Inode>, FsError> {
        match volume.run_quietly(|vfs, _| Ok(vfs.store_mut().inode(self.ino(ino))?.clone())) {
            Ok(inode) => Ok(Some(inode).filter(|inode| inode.nlink > 0)),
            Err(FsError::NotFound | FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// An inode that differs.
#[derive(Clone, Copy)]
struct Item {
    ino: InodeNo,
    /// It was a directory.
    was_dir: bool,
    /// What it is in the newer state; `None` if it is gone.
    kind: Option<Kind>,
    /// Both states have it, and it is the same file.
    is_same: bool,
}

struct Sender<'s> {
    volume: &'s Volume<Lfs>,
    from: Option<State>,
    to: State,
    block_bytes: u32,
    items: Vec<Item>,
    /// Numbers that other files have in the newer state.
    replaced: BTreeSet<InodeNo>,
    frames: Frames<'s>,
    content_bytes: u64,
}

impl Sender<'_> {
    /// An error of an item, with the item's path.
    fn with_path(&self, error: SendError, at: usize) -> SendError {
        damage::with_path(error, self.volume, (self.from, self.to), self.items[at].ino)
    }
}

/// Finds what differs, in the order of inode numbers, and the numbers that other files have in the newer state.
fn find_items(
    volume: &Volume<Lfs>,
    from: Option<State>,
    to: State,
    go_on: &mut dyn FnMut(SendProgress) -> bool,
) -> Result<(Vec<Item>, BTreeSet<InodeNo>), SendError> {
    let (mut items, mut replaced) = (Vec::new(), BTreeSet::new());
    let mut next = Some(InodeNo::ROOT);
    while let Some(start) = next {
        if !go_on(SendProgress::default()) {
            return Err(SendError::Stopped);
        }
        let mut part: Vec<Differing> = Vec::new();
        next = volume.run_quietly(|vfs, _| {
            part.clear();
            let first = from.map(|state| state.epoch);
            vfs.store_mut().differing_inodes(first, Some(to.epoch), start, &mut part)
        })?;
        for some in part.chunks(RECORDS_AT_ONCE / 2) {
            match load_records(volume, from, to, some) {
                // The look-up of the damaged one fails, too, and knows which one it is.
                Ok(()) | Err(FsError::Corrupt { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            for Differing { ino, .. } in some {
                let item = find_item(volume, from, to, *ino, &mut replaced);
                items.extend(item.map_err(|e| damage::with_path(e.into(), volume, (from, to), *ino))?);
            }
        }
    }
    Ok((items, replaced))
}

/// Reads the records that [`find_item`] needs together.
fn load_records(
    volume: &Volume<Lfs>,
    from: Option<State>,
    to: State,
    differing: &[Differing],
) -> Result<(), FsError> {
    let mut inos = Vec::new();
    for Differing { ino, is_in_first, is_in_second } in differing {
        inos.extend(from.filter(|_| *is_in_first).map(|state| state.ino(*ino)));
        inos.extend(is_in_second.then(|| to.ino(*ino)));
    }
    volume.run_quietly(|vfs, _| vfs.store_mut().load_records(&inos))
}

/// `None` if the inode has no name in either state.
fn find_item(
    volume: &Volume<Lfs>,
    from: Option<State>,
    to: State,
    ino: InodeNo,
    replaced: &mut BTreeSet<InodeNo>,
) -> Result<Option<Item>, FsError> {
    let before = from.map_or(Ok(None), |state| state.named(volume, ino))?;
    let after = to.named(volume, ino)?;
    let is_same = match (&before, &after) {
        (None, None) => return Ok(None),
        (Some(before), Some(after)) => before.generation == after.generation,
        _ => false,
    };
    if before.is_some() && after.is_some() && !is_same {
        replaced.insert(ino);
    }
    let was_dir = before.is_some_and(|inode| inode.kind == Kind::Directory);
    Ok(Some(Item { ino, was_dir, kind: after.map(|inode| inode.kind), is_same }))
}

/// The stream, frame by frame.
struct Frames<'s> {
    out: &'s mut dyn Write,
    /// The value that checksums start from.
    stream: u32,
    /// Number of the next frame.
    number: u32,
    /// Bytes so far, including those left out.
    at_bytes: u64,
    /// Bytes to leave out.
    skip_bytes: u64,
    buffer: Vec<u8>,
}

impl<'s> Frames<'s> {
    fn new(header: &StreamHeader, skip_bytes: u64, out: &'s mut dyn Write) -> Result<Self, SendError> {
        let mut frames =
            Self { out, stream: header.checksum(), number: 0, at_bytes: 0, skip_bytes, buffer: Vec::new() };
        frames.write(&header.encode())?;
        Ok(frames)
    }

    fn put(&mut self, frame: &Frame<'_>) -> Result<(), SendError> {
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        frame.encode(self.stream, self.number, &mut bytes);
        self.number += 1;
        self.write(&bytes)?;
        self.buffer = bytes;
        Ok(())
    }

    /// Skips a frame of content that the receiver has, without making it. False if it has to be made.
    fn pass(&mut self, blocks: usize, content_bytes: usize) -> bool {
        let end_bytes = self.at_bytes + (content_overhead_bytes(blocks) + content_bytes) as u64;
        let is_passed = end_bytes <= self.skip_bytes;
        if is_passed {
            self.at_bytes = end_bytes;
            self.number += 1;
        }
        is_passed
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        let left_out = self.skip_bytes.saturating_sub(self.at_bytes).min(bytes.len() as u64);
        self.out.write_all(&bytes[left_out as usize..])?;
        self.at_bytes += bytes.len() as u64;
        Ok(())
    }
}
