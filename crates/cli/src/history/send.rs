//! `firn send`: writes a state of a volume, or what changed since an older one, as a stream for `firn receive`.
//!
//! The command reads an image itself. On a mount the daemon sends: it connects to a socket of the command, in a directory that
//! only the command's user may enter, and writes the stream there.
//!
//! - `out`: where the stream goes. This file: the command, and the daemon's side.

mod out;

use super::snapshot::shown;
use super::states::{State, States, failure_of};
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count, parse_size};
use crate::socket::{self, Called};
use crate::target::{self, Target};
use clap::Args;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs_format::Epoch;
use firnfs_format::stream::Frame;
use firnfs_fuse::control::{Client, ClientError, ErrorKind, OpError, Registry};
use firnfs_fuse::mount::table::Mount;
use firnfs_manage::{ReceiveError, SendError, SendProgress, Sent, StreamReader};
use firnfs_volume::Volume;
use out::{Out, Unsent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Arguments of `firn send`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn send /mnt@monday > monday.firn               all of a state
  firn send /mnt@monday..tuesday > tuesday.firn     what changed since
  firn send /mnt@monday | ssh host firn receive copy.img
  firn send disk.img@monday --output monday.firn    of an image that is not mounted
  firn send /mnt@monday --skip 1048576 --output monday.firn
                                                    the rest of a stream that was cut

A stream has files, directories, links, times, owners, ACLs and attributes, holes, and the checksum of each block. Of two states
the command reads what differs, and the metadata that leads there. 'firn log PATH' lists the states; a snapshot stays until somebody deletes it, an automatic state
may go while it is sent.

--output makes a new file; an existing one is not replaced. A file that an interrupted command has begun stays, and --skip with its
length continues it.

Not in a stream: quotas, settings of the volume, other states.")]
pub struct SendArgs {
    /// Any path on a mount, an image file or a block device, with a state, or an older one and a newer one
    #[arg(value_name = "PATH@[OLDER..]STATE", add = values::mounts_at_range())]
    pub state: OsString,
    /// Write to this new file instead of standard output; with --skip, behind what the file has
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave out the first bytes: the receiver has them
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    pub skip: u64,
    /// Print JSON for programs
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// Sends a state: a [`SendRequest`]. The answer is a [`SentView`], when the stream is complete.
pub const SEND_OP: &str = "send";

/// See [`SEND_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendRequest {
    /// The older state; without it, all of the newer one is sent.
    pub from: Option<u32>,
    /// The state.
    pub to: u32,
    /// Bytes to leave out.
    #[serde(default)]
    pub skip_bytes: u64,
    /// The local socket that the stream goes to.
    pub socket: PathBuf,
}

/// The error of a damaged volume; a device that fails has EIO.
const DAMAGED: &str = "EUCLEAN";

/// What was sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SentView {
    /// Files and directories that differ.
    pub differing_inodes: u64,
    /// Bytes of content.
    pub content_bytes: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
}

impl From<&Sent> for SentView {
    fn from(sent: &Sent) -> Self {
        Self { differing_inodes: sent.inodes, content_bytes: sent.content_bytes, stream_bytes: sent.bytes }
    }
}

/// What the command prints.
#[derive(Serialize)]
struct Summary {
    /// The path on the command line.
    path: String,
    /// The older state; null if all was sent.
    from_state: Option<String>,
    /// The state.
    to_state: String,
    #[serde(flatten)]
    sent: SentView,
}

/// The daemon's side.
pub struct Service {
    volume: Weak<Volume<Lfs>>,
    is_closing: AtomicBool,
}

impl Service {
    /// The service of a volume that is being mounted. Holds the volume weakly, except while it sends a state.
    pub fn new(volume: Weak<Volume<Lfs>>) -> Arc<Self> {
        Arc::new(Self { volume, is_closing: AtomicBool::new(false) })
    }

    /// Registers the operation.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let service = Arc::clone(self);
        let help = "writes the state of checkpoint 'to', or what changed since 'from', as a stream to the local socket 'socket'";
        registry.register(SEND_OP, help, move |request| socket::answer(&service.send(request)?));
    }

    fn send(&self, request: &Value) -> Result<SentView, OpError> {
        let SendRequest { from, to, skip_bytes, socket } = socket::arguments(request)?;
        let volume = socket::open(&self.volume)?;
        let failed = |e: std::io::Error| OpError::new(ErrorKind::Failed, e.to_string());
        let stream = UnixStream::connect(&socket).map_err(failed)?;
        stream.set_write_timeout(Some(NAP)).map_err(failed)?;
        let mut out = BufWriter::with_capacity(1 << 20, Patient { stream, service: self });
        let mut go_on = |_| !self.is_closing.load(Ordering::SeqCst);
        let sent = firnfs_manage::send(&volume, from.map(Epoch), Epoch(to), skip_bytes, &mut out, &mut go_on);
        if sent.is_err() {
            // Discards what is left of a stream that failed.
            let _ = out.into_parts();
        }
        match sent {
            Ok(sent) => Ok(SentView::from(&sent)),
            Err(_) if self.is_closing.load(Ordering::SeqCst) => Err(socket::closing()),
            Err(SendError::Fs(error @ FsError::Corrupt { .. })) => {
                Err(OpError { errno: Some(DAMAGED.to_owned()), ..OpError::from(&error) })
            }
            Err(SendError::Fs(error)) => Err(OpError::from(&error)),
            Err(error) => Err(OpError::new(ErrorKind::Failed, error.to_string())),
        }
    }

    /// Ends all sends, before the volume is closed.
    pub fn end(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }
}

/// Longest wait for a reader before the daemon looks whether the volume is being closed.
const NAP: Duration = Duration::from_millis(100);

/// A socket whose reader may be slow, but not slower than the close of the volume.
struct Patient<'s> {
    stream: UnixStream,
    service: &'s Service,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            if self.service.is_closing.load(Ordering::SeqCst) {
                return Err(std::io::ErrorKind::ConnectionAborted.into());
            }
            match self.stream.write(bytes) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs the command.
///
/// # Errors
/// No volume, no such state; the output cannot be written; damage.
pub fn run(args: &SendArgs, output: &mut Output) -> Done {
    let (path, word) = super::place::split_state(&args.state);
    let Some(word) = word else {
        return Err(Failure::usage(format!("which state of {}?", readable(&path))).advise(format!(
            "write {}@STATE; 'firn log {}' lists the states",
            readable(&path),
            shell_word(&path)
        )));
    };
    let (older, newer) = match word.split_once("..") {
        Some((older, newer)) => (Some(older), newer),
        None => (None, word.as_str()),
    };
    let states = States::of(&path)?;
    let from = older.map(|word| states.find(word).cloned()).transpose()?;
    let to = states.find(newer)?.clone();
    let range = (from.as_ref().map(|state| epoch_of(state, &path)).transpose()?, epoch_of(&to, &path)?);
    refuse_wrong_order(&path, from.as_ref().zip(range.0), (&to, range.1))?;
    let mut out = Out::of(args)?;
    // A whole state is about as long as its live data. How much differs from an older state is not known.
    let about_bytes = if from.is_none() { to.told.map_or(0, |told| told.live_bytes) } else { 0 };
    let bar = SendBar { bar: Bar::of_bytes(), about_bytes };
    let sent = match target::resolve(&path)? {
        Target::Mounted(mount) => send_from_mount(&mount, range, args.skip, &mut out, &bar)?,
        Target::Image(image) => send_from_image(&image, range, args.skip, &mut out, &bar)?,
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(unsent) => return out.give_up(unsent),
    };
    out.close()?;
    drop(bar);
    let Some(file) = &args.output else { return Ok(()) };
    let (from_state, to_state) = (from.map(|state| state.name), to.name);
    let summary = Summary { path: shown(&path), from_state, to_state, sent };
    output.show(args.json, &summary, |out| {
        writeln!(out, "{}: {}, {}", readable(&file), summary.to_state, Bytes(sent.stream_bytes))?;
        let files =
            Count(sent.differing_inodes).of("file or directory differs", "files and directories differ");
        writeln!(out, "{files}, {} of content", Bytes(sent.content_bytes))
    })
}

fn epoch_of(state: &State, path: &Path) -> Done<u32> {
    let told = state.told.map(|told| told.epoch);
    told.ok_or_else(|| {
        Failure::failed(format!("only the owner of {} and root may send states", readable(&path)))
    })
}

/// Shows how much of a stream is sent.
struct SendBar {
    bar: Bar,
    /// The approximate length of the stream; 0 if it is not known.
    about_bytes: u64,
}

impl SendBar {
    fn show(&self, bytes: u64, files: u64, of_files: u64) {
        let files = format_args!("{} of {} files", Count(files), Count(of_files));
        self.bar.show(bytes, self.about_bytes, files);
    }
}

/// Refuses a state to start from that is not older than the state to send.
fn refuse_wrong_order(path: &Path, from: Option<(&State, u32)>, (to, to_epoch): (&State, u32)) -> Done {
    let Some((from, from_epoch)) = from.filter(|(_, epoch)| *epoch >= to_epoch) else { return Ok(()) };
    if from_epoch == to_epoch {
        let all = shell_word(&with_state(path, &to.name));
        let message = format!("both states are {}, so nothing has changed in between", to.name);
        return Err(Failure::usage(message).advise(format!("'firn send {all}' sends all of it")));
    }
    let turned = shell_word(&with_state(path, &format!("{}..{}", to.name, from.name)));
    let message = format!("{} is newer than {}", from.name, to.name);
    Err(Failure::usage(message).advise(format!("name the older state first: {turned}")))
}

fn with_state(path: &Path, state: &str) -> OsString {
    let mut text = path.as_os_str().to_owned();
    text.push("@");
    text.push(state);
    text
}

/// Sends from an image that is not mounted.
fn send_from_image(
    image: &Path,
    (from, to): (Option<u32>, u32),
    skip_bytes: u64,
    out: &mut Out,
    bar: &SendBar,
) -> Done<Result<SentView, Unsent>> {
    let volume = crate::volume::open_read_only(image)?;
    let mut watch = |at: SendProgress| {
        bar.show(at.bytes, at.inodes, at.of_inodes);
        true
    };
    let sent = firnfs_manage::send(&volume, from.map(Epoch), Epoch(to), skip_bytes, out, &mut watch);
    let failure = |error: &FsError| Failure::fs(format_args!("cannot send {}", readable(image)), error);
    Ok(match sent {
        Ok(sent) => Ok(SentView::from(&sent)),
        Err(SendError::Io(_)) => Err(Unsent::Output),
        Err(SendError::Fs(error @ (FsError::Corrupt { .. } | FsError::NotFound | FsError::Stale))) => {
            Err(Unsent::ForGood(failure(&error)))
        }
        Err(SendError::Fs(error)) => Err(Unsent::ForNow(failure(&error))),
        Err(error @ SendError::Stopped) => Err(Unsent::ForNow(Failure::failed(error.to_string()))),
    })
}

/// Asks the daemon to send, and passes the stream on.
fn send_from_mount(
    mount: &Mount,
    (from, to): (Option<u32>, u32),
    skip_bytes: u64,
    out: &mut Out,
    bar: &SendBar,
) -> Done<Result<SentView, Unsent>> {
    let client = Client::for_mount(mount).map_err(|e| failure_of(&e))?;
    let request = |socket| SendRequest { from, to, skip_bytes, socket };
    let Called { stream, answer } = socket::be_called(client, SEND_OP, request)?;
    let passed = pass_on(stream, skip_bytes == 0, out, bar);
    let answer = answer.wait::<SentView>();
    let is_output = |error: &ClientError| is_broken_socket(error) && out.has_failed();
    Ok(match (passed, answer) {
        (Ok(()), Ok(sent)) => Ok(sent),
        (Err(_), Ok(_)) if out.has_failed() => Err(Unsent::Output),
        (Err(_), Err(error)) if is_output(&error) => Err(Unsent::Output),
        // The daemon knows why it has ended a stream itself.
        (Ok(()) | Err(ReceiveError::Cut { .. } | ReceiveError::Io(_)), Err(error)) => {
            Err(unsent_by_daemon(mount, &error))
        }
        (Err(error @ (ReceiveError::Cut { .. } | ReceiveError::Io(_))), Ok(_)) => {
            Err(Unsent::ForNow(Failure::failed(error.to_string())))
        }
        (Err(error), _) => Err(Unsent::ForGood(Failure::failed(error.to_string()))),
    })
}

/// True if the daemon failed only because this command reads no more.
fn is_broken_socket(error: &ClientError) -> bool {
    let is_broken = |refused: &OpError| refused.kind == ErrorKind::Failed && refused.errno.is_none();
    matches!(error, ClientError::Refused(refused) if is_broken(refused))
}

fn unsent_by_daemon(mount: &Mount, error: &ClientError) -> Unsent {
    let refused = match error {
        ClientError::Refused(refused) => refused,
        _ => return Unsent::ForNow(failure_of(error)),
    };
    let place = &mount.mountpoint;
    match refused.errno.as_deref() {
        Some(DAMAGED) => {
            let message = format!("cannot send {}: {}", readable(place), refused.message);
            let advice =
                format!("the volume is damaged: 'firn scrub {}' lists the damaged files", shell_word(place));
            Unsent::ForGood(Failure::new(Exit::NotAVolume, message).advise(advice))
        }
        Some("ENOENT" | "ESTALE") => {
            let message = format!("a state of {} was deleted while it was sent", readable(place));
            let advice = "a snapshot stays until somebody deletes it, an automatic state may go";
            Unsent::ForGood(Failure::failed(message).advise(advice))
        }
        _ => Unsent::ForNow(failure_of(error)),
    }
}

/// Copies a stream and verifies every frame from its beginning.
fn pass_on(
    stream: UnixStream,
    is_whole: bool,
    out: &mut dyn Write,
    bar: &SendBar,
) -> Result<(), ReceiveError> {
    let mut both = Both { from: stream, to: out };
    if !is_whole {
        return Ok(pass_rest(&mut both)?);
    }
    let mut reader = StreamReader::new(&mut both)?;
    let (mut files, of_files) = (0, u64::from(reader.header().inodes));
    loop {
        match reader.next_frame()? {
            Frame::Attributes(_) => files += 1,
            Frame::End => return Ok(()),
            _ => {}
        }
        bar.show(reader.at_bytes(), files, of_files);
    }
}

/// Copies the rest of a stream, in which frames cannot be told apart.
fn pass_rest(both: &mut Both<'_>) -> std::io::Result<()> {
    let bar = Bar::of_bytes_without_end();
    let (mut buffer, mut passed_bytes) = (vec![0; 1 << 20], 0);
    loop {
        match both.read(&mut buffer)? as u64 {
            0 => return Ok(()),
            len_bytes => passed_bytes += len_bytes,
        }
        bar.show(passed_bytes, passed_bytes, "sent");
    }
}

/// A reader that also writes everything that it reads.
struct Both<'o> {
    from: UnixStream,
    to: &'o mut dyn Write,
}

impl Read for Both<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let len = self.from.read(bytes)?;
        self.to.write_all(&bytes[..len])?;
        Ok(len)
    }
}
