//! Receiving a state of another volume: all of the stream counts, or nothing of it does.
//!
//! What is written counts only with the snapshot that ends it (`Lfs::hold_back`). So a stream that is cut, damaged or hostile leaves the
//! volume as it was, and so does a crash. Names change by the operations that users have, in an order in which no name is in the way
//! of another (`names`): the volume is sound whatever the stream says.
//!
//! The volume keeps in an attribute of its root directory which state it received last; a stream that starts from another one is refused,
//! and so is one for a volume that was changed since.
//!
//! - `stream`: frames from bytes. `names`: names and new inodes. `content`: content and attributes. Caller: `firn receive`.

mod content;
mod names;
mod stream;

pub use stream::StreamReader;

use crate::LogVolume;
use crate::send::RECEIVED_XATTR;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs::states::local;
use firnfs::vfs::XattrMode;
use firnfs_format::checkpoint::Point;
use firnfs_format::stream::{Frame, StreamHeader};
use firnfs_format::{DecodeError, Epoch, InodeNo};
use firnfs_volume::Volume;
use names::Staging;

/// Why a stream was not received. The volume has not changed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The stream ended too early. Everything before was correct.
    #[error("the stream ends at byte {at_bytes}, before its end")]
    Cut {
        /// Where it ended.
        at_bytes: u64,
    },
    /// The bytes are no stream, or a damaged one.
    #[error("the stream is damaged at byte {at_bytes}: {why}")]
    Damaged {
        /// Where the frame begins.
        at_bytes: u64,
        /// What is wrong.
        why: DecodeError,
    },
    /// The stream asks for something that no sender asks for.
    #[error("the stream is wrong at byte {at_bytes}: {why}")]
    Wrong {
        /// Where the frame begins.
        at_bytes: u64,
        /// What is wrong.
        why: String,
    },
    /// The stream is for another volume, or for another state of this one.
    #[error("{0}")]
    Unfit(String),
    /// The volume failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The stream could not be read.
    #[error("reading the stream: {0}")]
    Io(#[from] std::io::Error),
}

/// What was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// The snapshot that it has become.
    pub point: Point,
    /// Files and directories that differed.
    pub files: u64,
    /// Bytes of content.
    pub content_bytes: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

/// The state that a volume received last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastReceived {
    /// The volume that it came from.
    pub uuid: [u8; 16],
    /// The number of its checkpoint there.
    pub epoch: Epoch,
    /// The name of its snapshot here.
    pub name: String,
}

/// The order in which frames may follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Losing,
    Making,
    Gaining,
    Content,
    Ended,
}

/// A volume that receives.
struct Receiver<'v> {
    volume: &'v Volume<Lfs>,
    header: StreamHeader,
    phase: Phase,
    staging: Option<Staging>,
    /// Files that are done.
    files: u64,
    content_bytes: u64,
}

/// Receives a stream into a volume that nobody else uses, as a snapshot called `name`, and closes the volume. `watch` gets the
/// number of files that are complete, and the bytes of the stream so far.
///
/// # Errors
/// See [`ReceiveError`]: nothing has changed then.
pub fn receive(
    volume: Volume<Lfs>,
    stream: &mut StreamReader<'_>,
    name: &str,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<Received, ReceiveError> {
    let result = receive_all(&volume, stream, name, watch);
    match &result {
        Ok(_) => volume.close()?,
        // What was held back is dropped together with the store.
        Err(_) => drop(volume.into_vfs()),
    }
    result
}

fn receive_all(
    volume: &Volume<Lfs>,
    stream: &mut StreamReader<'_>,
    name: &str,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<Received, ReceiveError> {
    let header = stream.header().clone();
    fits(volume, &header)?;
    volume.run(|vfs, now| vfs.store_mut().hold_back(now))?;
    let mut receiver =
        Receiver { volume, header, phase: Phase::Losing, staging: None, files: 0, content_bytes: 0 };
    while receiver.phase != Phase::Ended {
        let at_bytes = stream.at_bytes();
        let frame = stream.next_frame()?;
        receiver.apply(frame).map_err(|wrong| wrong.at(at_bytes))?;
        watch(receiver.files, stream.at_bytes());
    }
    let Receiver { header, files, content_bytes, .. } = receiver;
    note_received(volume, &header, name)?;
    let point = volume.make_point(name)?;
    Ok(Received { point, files, content_bytes, bytes: stream.at_bytes() })
}

/// Why a frame was not applied.
enum Wrong {
    Frame(String),
    Fs(FsError),
}

impl From<FsError> for Wrong {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl Wrong {
    fn at(self, at_bytes: u64) -> ReceiveError {
        match self {
            Self::Frame(why) => ReceiveError::Wrong { at_bytes, why },
            // The volume failed; everything else is the stream's fault.
            Self::Fs(
                error @ (FsError::NoSpace | FsError::Io(_) | FsError::Corrupt { .. } | FsError::ReadOnly(_)),
            ) => ReceiveError::Fs(error),
            Self::Fs(error) => ReceiveError::Wrong { at_bytes, why: error.to_string() },
        }
    }
}

impl Receiver<'_> {
    fn apply(&mut self, frame: Frame<'_>) -> Result<(), Wrong> {
        let phase = match frame {
            Frame::Lose { .. } => Phase::Losing,
            Frame::Make { .. } => Phase::Making,
            Frame::Gain { .. } | Frame::NamesEnd => Phase::Gaining,
            _ => Phase::Content,
        };
        let is_in_order = if phase == Phase::Content { self.phase == phase } else { self.phase <= phase };
        if !is_in_order {
            return Err(Wrong::Frame(format!("a frame for {phase:?} after one for {:?}", self.phase)));
        }
        if self.phase == Phase::Losing && phase > Phase::Losing {
            self.remove_gone()?;
        }
        self.phase = phase;
        match frame {
            Frame::Lose { dir, ino, is_kept, name } => self.lose(dir, ino, is_kept, name)?,
            Frame::Make { ino, kind, rdev, btime, target } => self.make(ino, kind, (rdev, btime), target)?,
            Frame::Gain { dir, ino, name } => self.gain(dir, ino, name)?,
            Frame::NamesEnd => {
                self.end_names()?;
                self.phase = Phase::Content;
            }
            Frame::Size { ino, size_bytes } => self.resize(ino, size_bytes)?,
            Frame::Content { ino, at_bytes, pointers, bytes } => {
                self.content(ino, at_bytes, &pointers, bytes)?
            }
            Frame::Hole { ino, at_bytes, len_bytes, is_reserved } => {
                self.hole(ino, (at_bytes, len_bytes), is_reserved)?;
            }
            Frame::Xattr { ino, name, value } => self.xattr(ino, name, value)?,
            Frame::Attributes(attributes) => {
                self.attributes(&attributes)?;
                self.files += 1;
            }
            Frame::End => self.phase = Phase::Ended,
        }
        Ok(())
    }

    /// An inode number that a stream may name.
    fn users(&self, ino: InodeNo) -> Result<InodeNo, Wrong> {
        let is_staging = self.staging.as_ref().is_some_and(|staging| staging.dir == ino);
        // The number of a file of the present, not of a state or a clone.
        let is_whole = local(ino) == ino;
        let is_users = ino == InodeNo::ROOT || ino >= InodeNo::FIRST_USER && is_whole;
        if is_users && !is_staging {
            Ok(ino)
        } else {
            Err(Wrong::Frame(format!("inode {ino} is no file of users")))
        }
    }
}

/// Whether a stream is for the volume as it is.
fn fits(volume: &Volume<Lfs>, header: &StreamHeader) -> Result<(), ReceiveError> {
    let last = last_received(volume)?;
    let Some(from) = header.from else {
        let attr = volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT))?;
        let mut entries = 0;
        volume.run(|vfs, now| {
            entries = 0;
            vfs.readdir(now, attr.ino, 0, &mut |_| {
                entries += 1;
                entries < 3
            })
        })?;
        return match entries < 3 && last.is_none() {
            true => Ok(()),
            false => Err(ReceiveError::Unfit(
                "the stream is a whole state, which only an empty volume can receive".to_owned(),
            )),
        };
    };
    let Some(last) = last else {
        return Err(ReceiveError::Unfit(
            "the stream has what changed since an older state, but the volume has not received that state"
                .to_owned(),
        ));
    };
    if last.uuid != header.uuid || last.epoch != from {
        return Err(ReceiveError::Unfit(format!(
            "the stream starts from the state of checkpoint {from}; what the volume received last is that of checkpoint {} of {}volume",
            last.epoch,
            if last.uuid == header.uuid { "the same " } else { "another " },
        )));
    }
    let points = volume.points()?;
    let point = points.iter().find(|point| point.name == last.name).ok_or_else(|| {
        ReceiveError::Unfit(format!(
            "the snapshot '{}', which the volume received last, was deleted",
            last.name
        ))
    })?;
    match volume.differing_inodes(point.epoch, None)?.len() {
        0 => Ok(()),
        changed => Err(ReceiveError::Unfit(format!(
            "the volume has changed since it received '{}': {changed} files differ",
            last.name
        ))),
    }
}

/// The state that a volume received last; `None` if it never received one.
///
/// # Errors
/// `Io`, `Corrupt`.
pub fn last_received(volume: &Volume<Lfs>) -> Result<Option<LastReceived>, FsError> {
    let value = match volume.run(|vfs, _| vfs.getxattr(InodeNo::ROOT, RECEIVED_XATTR)) {
        Ok(value) => value,
        Err(FsError::NoAttribute) => return Ok(None),
        Err(error) => return Err(error),
    };
    let parse = || {
        let (uuid, rest) = value.split_first_chunk::<16>()?;
        let (epoch, name) = rest.split_first_chunk::<4>()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        Some(LastReceived { uuid: *uuid, epoch: Epoch(u32::from_le_bytes(*epoch)), name })
    };
    Ok(parse())
}

/// Notes the state that the volume is about to have received. The root directory keeps the times that the stream gave it.
fn note_received(volume: &Volume<Lfs>, header: &StreamHeader, name: &str) -> Result<(), FsError> {
    let mut value = header.uuid.to_vec();
    value.extend_from_slice(&header.to.0.to_le_bytes());
    value.extend_from_slice(name.as_bytes());
    volume.run(|vfs, _| {
        let ctime = vfs.getattr(InodeNo::ROOT)?.ctime;
        vfs.setxattr(ctime, InodeNo::ROOT, RECEIVED_XATTR, &value, XattrMode::Any)
    })
}
