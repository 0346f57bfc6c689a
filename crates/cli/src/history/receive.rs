//! `firn receive`: makes an image the replica of another volume's state, from a stream of `firn send`.

use super::snapshot::{check_name, shown};
use crate::failure::{Done, Exit, Failure};
use crate::interrupt::HalfMade;
use crate::mkfs::{self, open_failed};
use crate::names::readable;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count, parse_size};
use clap::Args;
use firnfs::FsError;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, FileDevice, FileOptions, SystemClock};
use firnfs_format::TimeNs;
use firnfs_format::stream::StreamHeader;
use firnfs_manage::{ReceiveError, Received, StreamReader};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Blocks of the disk, as long as it is not known.
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

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
    /// The snapshot that it has become.
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
        check_name("snapshot", name)?;
    }
    let mut input = Input::open(args)?;
    let received = match receive(args, &mut input) {
        Ok(received) => received,
        Err(Refused::Stream(error, at_bytes)) => {
            return Err(failure(args, &error, input.keep_until(at_bytes, &error)?));
        }
        Err(Refused::Image(failure)) => return Err(failure),
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
        let files = Count(summary.differing_inodes).of("file or directory", "files and directories");
        let content = Bytes(summary.content_bytes);
        writeln!(out, "{files} differed, {content} of content")
    })
}

/// Why nothing was received.
enum Refused {
    /// The stream is at fault, at that byte.
    Stream(ReceiveError, u64),
    /// The image is at fault.
    Image(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Image(failure)
    }
}

fn receive(args: &ReceiveArgs, input: &mut Input) -> Result<Received, Refused> {
    let mut stream = StreamReader::new(input).map_err(|e| Refused::Stream(e, 0))?;
    let header = stream.header().clone();
    let half_made = HalfMade::watch()?;
    let device = match args.image.exists() {
        true => FileDevice::open(&args.image, &FileOptions::default()).map_err(|e| open_failed(&e))?,
        false => half_made.make(&args.image, || new_image(args, &header))?,
    };
    let volume = crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&header));
    let bar = Bar::of_entries();
    let mut watch = |files, bytes| bar.show(files, u64::from(header.inodes), Bytes(bytes));
    let result = firnfs_manage::receive(volume, &mut stream, &name, &mut watch);
    let received = result.map_err(|error| Refused::Stream(error, stream.at_bytes()))?;
    half_made.keep();
    Ok(received)
}

/// The name of the snapshot. It may not have the form of a time, as the names of automatic states do.
fn name_of(header: &StreamHeader) -> String {
    match check_name("snapshot", &header.name) {
        Ok(()) => header.name.clone(),
        Err(_) => format!("state-{}", header.to),
    }
}

/// Makes a new image with an empty volume like the one that was sent.
fn new_image(args: &ReceiveArgs, header: &StreamHeader) -> Done<FileDevice> {
    if header.from.is_some() {
        let message =
            format!("{} does not exist, and the stream has only what changed", readable(&args.image));
        return Err(Failure::new(Exit::Refused, message).advise(WHOLE));
    }
    let size_bytes = args.size.unwrap_or(header.size_bytes);
    let (uuid, hash_key) = mkfs::identity()?;
    let options = MkfsOptions {
        size_bytes,
        block_bytes: header.block_bytes,
        segment_bytes: header.segment_bytes,
        physical_block_bytes: PHYSICAL_BLOCK_BYTES,
        inline_max_bytes: u32::from(header.inline_max_bytes),
        label: String::new(),
        uuid,
        hash_key,
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (0, 0),
    };
    check_size(&options)?;
    let device =
        FileDevice::create(&args.image, size_bytes, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let physical_block_bytes = device.geometry().physical_block_bytes;
    let options = MkfsOptions { physical_block_bytes, ..options };
    firnfs_manage::format(&device, &options).map_err(|e| {
        // It would hold no volume. The caller reports the failure that led here.
        let _ = std::fs::remove_file(&args.image);
        mkfs::impossible(&e)
    })?;
    Ok(device)
}

/// Refuses a size that is too small for an empty volume with these segments, and says which one is not.
fn check_size(options: &MkfsOptions) -> Done {
    let Some(least_bytes) = mkfs::least_log(options, None)? else { return Ok(()) };
    let (size, segment) = (Bytes(options.size_bytes), Bytes(options.segment_bytes.into()));
    let least = Bytes(least_bytes);
    let message = format!(
        "{size} is too small: the segments of {segment} of the volume that was sent need at least {least}"
    );
    let advice = format!("use --size {}M or more; what was sent has to fit, too", least_bytes >> 20);
    Err(Failure::usage(message).advise(advice))
}

/// What to do if a stream does not fit.
const WHOLE: &str = "receive all of a state (firn send PATH@STATE) into a new image";

/// The failure of a stream that was not received. `kept_bytes` of it are kept.
fn failure(args: &ReceiveArgs, error: &ReceiveError, kept_bytes: Option<u64>) -> Failure {
    let image = readable(&args.image);
    let left = if args.image.exists() { "as it was" } else { "not made" };
    let failure = match error {
        ReceiveError::Unfit(_) => Failure::new(Exit::Refused, format!("{image}: {error}")),
        _ => Failure::failed(format!("{error}; {image} is {left}")),
    };
    match (error, kept_bytes, &args.keep) {
        (ReceiveError::Cut { .. } | ReceiveError::Damaged { .. }, Some(bytes), Some(kept)) => failure.advise(format!(
            "{} has the first {bytes} bytes: firn send ... --skip {bytes} | firn receive {image} --keep {}",
            readable(&kept),
            readable(&kept)
        )),
        (ReceiveError::Cut { .. }, ..) => failure.advise("send it again; with --keep FILE it could be continued"),
        (ReceiveError::Unfit(_), ..) => failure.advise(WHOLE),
        (ReceiveError::Fs(FsError::NoSpace), ..) if args.size.is_some() && !args.image.exists() => {
            failure.advise("make it larger; without --size it becomes as large as the volume that was sent")
        }
        _ => failure,
    }
}

/// Standard input, after the part that was kept of it; copies what it reads.
struct Input {
    kept: Option<(PathBuf, File)>,
    /// The kept file has been read completely.
    is_live: bool,
}

impl Input {
    fn open(args: &ReceiveArgs) -> Done<Self> {
        let Some(path) = &args.keep else { return Ok(Self { kept: None, is_live: true }) };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|e| Failure::io("cannot open", path, &e))?;
        Ok(Self { kept: Some((path.clone(), file)), is_live: false })
    }

    /// Keeps the correct part of the stream: all that arrived, or after damage what was before it. Returns its length.
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
