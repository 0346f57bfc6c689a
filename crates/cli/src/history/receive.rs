//! `firn receive`: makes an image the replica of another volume's state, from a stream of `firn send`.

use super::snapshot::{check_name, shown};
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::{fill_random, open_failed, random_uuid};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, parse_size};
use clap::Args;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, FileDevice, FileOptions, SystemClock};
use firnfs_format::TimeNs;
use firnfs_format::stream::StreamHeader;
use firnfs_manage::{ReceiveError, Received, StreamReader};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `firn receive`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn send /mnt@monday | firn receive copy.img                    a new image
  firn send /mnt@monday..tuesday | firn receive copy.img           brings it up to date
  firn receive copy.img < tuesday.firn                             from a file
  ssh host firn send /mnt@monday | firn receive copy.img --keep part
                                                                   can be continued if it is cut

Each state that was received is a snapshot of the image. All of a stream counts, or nothing: if it is cut or damaged, if there
is no room, or if the machine fails, the image is what it was. The image must not be mounted, and must not have been changed
since the last stream. There has to be room for all that the stream brings before anything old is given back.")]
pub struct ReceiveArgs {
    /// An image file or block device that received the older state; or a new file, for all of a state
    pub image: PathBuf,
    /// Name of the snapshot that it becomes [default: the name of the state that was sent]
    #[arg(long)]
    pub name: Option<String>,
    /// Size of a new image [default: that of the volume that was sent]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Keep what arrives in this file until it is complete; begin with what it has
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What the command prints.
#[derive(Serialize)]
struct Summary {
    /// The image.
    image: String,
    /// The snapshot that it is now.
    to_state: String,
    /// Number of its checkpoint.
    epoch: u32,
    /// Files and directories that differed.
    differing_inodes: u64,
    /// Bytes of content.
    content_bytes: u64,
    /// Bytes of the stream.
    stream_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// No stream, or one that is damaged, cut, or for another volume or state; no room; the image is in use.
pub fn run(args: &ReceiveArgs, output: &mut Output) -> Done {
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("a stream cannot be typed")
            .advise("let it come from a file, with <, or from a pipe"));
    }
    if let Some(name) = &args.name {
        check_name(name)?;
    }
    let mut input = Input::open(args)?;
    let result = receive(args, &mut input);
    let received = match result {
        Ok(received) => received,
        Err((error, at_bytes)) => return Err(failure(args, &error, input.keep_until(at_bytes, &error)?)),
    };
    if let Some(kept) = &args.keep {
        std::fs::remove_file(kept).map_err(|e| Failure::io("cannot remove", kept, &e))?;
    }
    let summary = Summary {
        image: shown(&args.image),
        to_state: received.point.name,
        epoch: received.point.epoch.0,
        differing_inodes: received.files,
        content_bytes: received.content_bytes,
        stream_bytes: received.bytes,
    };
    output.show(args.json, &summary, |out| {
        writeln!(out, "{}: has state {}, as a snapshot", summary.image, summary.to_state)?;
        let (files, content) = (summary.differing_inodes, Bytes(summary.content_bytes));
        writeln!(out, "{files} files and directories differed, {content} of content")
    })
}

type Failed = (ReceiveError, u64);

fn receive(args: &ReceiveArgs, input: &mut Input) -> Result<Received, Failed> {
    let mut stream = StreamReader::new(input).map_err(|e| (e, 0))?;
    let header = stream.header().clone();
    let is_new = !args.image.exists();
    let volume = open_image(args, &header, is_new).map_err(|e| (e, stream.at_bytes()))?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&header));
    let bar = Bar::of_entries();
    let mut watch = |files, bytes| bar.show(files, u64::from(header.inodes), Bytes(bytes));
    let result = firnfs_manage::receive(volume, &mut stream, &name, &mut watch);
    drop(bar);
    result.map_err(|error| {
        if is_new {
            // Best effort: the failure is what counts.
            let _ = std::fs::remove_file(&args.image);
        }
        (error, stream.at_bytes())
    })
}

/// A snapshot cannot be called like a time, as automatic states are.
fn name_of(header: &StreamHeader) -> String {
    match check_name(&header.name) {
        Ok(()) => header.name.clone(),
        Err(_) => format!("state-{}", header.to),
    }
}

fn open_image(
    args: &ReceiveArgs,
    header: &StreamHeader,
    is_new: bool,
) -> Result<firnfs_volume::Volume<firnfs::lfs::Lfs>, ReceiveError> {
    let unfit = |e: &dyn std::fmt::Display| ReceiveError::Unfit(e.to_string());
    if is_new && header.from.is_some() {
        return Err(ReceiveError::Unfit(format!(
            "the stream has what changed since an older state, and {} does not exist",
            args.image.display()
        )));
    }
    if is_new {
        let size_bytes = args.size.unwrap_or(header.size_bytes);
        make_image(&args.image, header, size_bytes).inspect_err(|_| {
            let _ = std::fs::remove_file(&args.image);
        })?;
    }
    let device =
        FileDevice::open(&args.image, &FileOptions::default()).map_err(|e| unfit(&open_failed(&e)))?;
    crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime).map_err(|e| unfit(&e))
}

/// A new image with an empty volume like the one that was sent.
fn make_image(image: &Path, header: &StreamHeader, size_bytes: u64) -> Result<(), ReceiveError> {
    let unfit = |e: &dyn std::fmt::Display| ReceiveError::Unfit(e.to_string());
    let file = OpenOptions::new().write(true).create_new(true).open(image)?;
    file.set_len(size_bytes)?;
    let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| unfit(&open_failed(&e)))?;
    let mut random = [0; 32];
    fill_random(&mut random).map_err(|e| unfit(&e))?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| random[at + i]));
    let options = MkfsOptions {
        size_bytes,
        block_bytes: header.block_bytes,
        segment_bytes: header.segment_bytes,
        physical_block_bytes: device.geometry().physical_block_bytes,
        inline_max_bytes: u32::from(header.inline_max_bytes),
        label: String::new(),
        uuid: random_uuid(std::array::from_fn(|i| random[i])),
        hash_key: [word(16), word(24)],
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (0, 0),
    };
    Ok(firnfs_manage::format(&device, &options)?)
}

/// What to tell of a stream that was not received. `kept_bytes`: so much of it is kept.
fn failure(args: &ReceiveArgs, error: &ReceiveError, kept_bytes: Option<u64>) -> Failure {
    let image = args.image.display();
    let unchanged = if args.image.exists() { format!("; {image} is as it was") } else { String::new() };
    let failure = match error {
        ReceiveError::Unfit(_) => Failure::new(Exit::Refused, format!("{image}: {error}")),
        _ => Failure::failed(format!("{image}: {error}{unchanged}")),
    };
    match (error, kept_bytes, &args.keep) {
        (ReceiveError::Cut { .. } | ReceiveError::Damaged { .. }, Some(bytes), Some(kept)) => failure.advise(format!(
            "{} has the first {bytes} bytes: firn send ... --skip {bytes} | firn receive {image} --keep {}",
            kept.display(),
            kept.display()
        )),
        (ReceiveError::Cut { .. }, ..) => failure.advise("send it again; with --keep FILE it could be continued"),
        (ReceiveError::Unfit(_), ..) => failure.advise("receive all of a state (firn send PATH@STATE) into a new image"),
        _ => failure,
    }
}

/// Standard input, after what was kept of it, and with a copy of it.
struct Input {
    kept: Option<(PathBuf, File)>,
    /// All of the file has been read.
    is_live: bool,
}

impl Input {
    fn open(args: &ReceiveArgs) -> Done<Self> {
        let Some(path) = &args.keep else { return Ok(Self { kept: None, is_live: true }) };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|e| Failure::io("cannot open", path, &e))?;
        Ok(Self { kept: Some((path.clone(), file)), is_live: false })
    }

    /// Keeps what is right of the stream: all that came, but after damage only what was before it. Returns how much that is.
    fn keep_until(&self, at_bytes: u64, error: &ReceiveError) -> Done<Option<u64>> {
        let Some((path, file)) = &self.kept else { return Ok(None) };
        let cannot = |e: std::io::Error| Failure::io("cannot keep", path, &e);
        if matches!(error, ReceiveError::Damaged { .. }) {
            file.set_len(at_bytes).map_err(cannot)?;
        }
        file.sync_all().map_err(cannot)?;
        Ok(Some(file.metadata().map_err(cannot)?.len()))
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let Some((_, file)) = &mut self.kept else { return std::io::stdin().lock().read(bytes) };
        if !self.is_live {
            let len = file.read(bytes)?;
            if len > 0 {
                return Ok(len);
            }
            self.is_live = true;
        }
        let len = std::io::stdin().lock().read(bytes)?;
        file.write_all(&bytes[..len])?;
        Ok(len)
    }
}
