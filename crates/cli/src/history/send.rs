//! `firn send`: writes a state of a volume, or what changed since an older one, as a stream for `firn receive`.
//!
//! Of an image the command reads itself. On a mount the daemon does: it connects to a socket of the command, in a directory that only its
//! user may enter, and writes the stream there.

use super::snapshot::shown;
use super::states::{State, States, failure_of};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, parse_size};
use crate::socket;
use crate::target::{self, Target};
use clap::Args;
use firnfs::lfs::Lfs;
use firnfs_format::Epoch;
use firnfs_format::stream::Frame;
use firnfs_fuse::control::{Client, ErrorKind, OpError, Registry};
use firnfs_fuse::mount::table::Mount;
use firnfs_manage::{SendError, SendProgress, Sent, StreamReader};
use firnfs_volume::Volume;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// Arguments of `firn send`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn send /mnt@monday > monday.firn               all of a state
  firn send /mnt@monday..tuesday > tuesday.firn     what changed since
  firn send /mnt@monday | ssh host firn receive copy.img
  firn send disk.img@monday --output monday.firn    of an image that is not mounted
  firn send /mnt@monday --skip 1048576 >> monday.firn
                                                    the rest of a stream that was cut

A stream has files, directories, links, times, owners, ACLs and attributes, holes, and the checksum of each block. Of a state
it reads what differs, no more. 'firn log PATH' lists the states; a snapshot stays until somebody deletes it, an automatic state
may go while it is sent.

Not in a stream: quotas, settings of the volume, other states.")]
pub struct SendArgs {
    /// Any path on a mount, an image file or a block device, with a state, or an older one and a newer one
    #[arg(value_name = "PATH@[OLDER..]STATE")]
    pub state: OsString,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave out the first bytes: the receiver has them
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    pub skip: u64,
    /// Print JSON for programs
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// Sends a state: a [`SendRequest`], answered with a [`SentView`] when the stream is complete.
pub const SEND_OP: &str = "send";

/// See [`SEND_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendRequest {
    /// The older state; without it, all of the other one is sent.
    pub from: Option<u32>,
    /// The state.
    pub to: u32,
    /// Bytes that are left out.
    #[serde(default)]
    pub skip_bytes: u64,
    /// The local socket that the stream goes to.
    pub socket: PathBuf,
}

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

/// Registers the daemon's side. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let help = "writes the state of checkpoint 'to', or what changed since 'from', as a stream to the local socket 'socket'";
    registry.register(SEND_OP, help, move |request| {
        let SendRequest { from, to, skip_bytes, socket } = socket::arguments(request)?;
        let volume = socket::open(&volume)?;
        let refused = |e: std::io::Error| OpError::new(ErrorKind::Failed, e.to_string());
        let mut out =
            std::io::BufWriter::with_capacity(1 << 20, UnixStream::connect(&socket).map_err(refused)?);
        let sent =
            firnfs_manage::send(&volume, from.map(Epoch), Epoch(to), skip_bytes, &mut out, &mut |_| {});
        let sent = sent.map_err(|e| match e {
            SendError::Fs(error) => OpError::from(&error),
            SendError::Io(error) => refused(error),
        })?;
        socket::answer(&SentView::from(&sent))
    });
}

/// Runs the command.
///
/// # Errors
/// No volume, no such state; the output cannot be written; damage.
pub fn run(args: &SendArgs, output: &mut Output) -> Done {
    let (path, word) = super::place::split_state(&args.state);
    let Some(word) = word else {
        return Err(Failure::usage(format!("which state of {}?", path.display())).advise(format!(
            "write {}@STATE; 'firn log {}' lists the states",
            path.display(),
            path.display()
        )));
    };
    let (older, newer) = match word.split_once("..") {
        Some((older, newer)) => (Some(older), newer),
        None => (None, word.as_str()),
    };
    let states = States::of(&path)?;
    let from = older.map(|word| states.find(word).cloned()).transpose()?;
    let to = states.find(newer)?.clone();
    let mut out = open_output(args)?;
    let bar = Bar::of_entries();
    let range = (from.as_ref().map(|state| epoch_of(state, &path)).transpose()?, epoch_of(&to, &path)?);
    let sent = match target::resolve(&path)? {
        Target::Mounted(mount) => send_from_mount(&mount, range, args.skip, &mut *out, &bar)?,
        Target::Image(image) => {
            let volume = crate::volume::open_read_only(&image)?;
            let mut watch = |at: SendProgress| bar.show(at.inodes, at.of_inodes, Bytes(at.bytes));
            let (from, to) = (range.0.map(Epoch), Epoch(range.1));
            let sent = firnfs_manage::send(&volume, from, to, args.skip, &mut *out, &mut watch);
            SentView::from(&sent.map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?)
        }
    };
    out.flush().map_err(|e| Failure::failed(format!("cannot write the stream: {e}")))?;
    drop(bar);
    let Some(file) = &args.output else { return Ok(()) };
    let (from_state, to_state) = (from.map(|state| state.name), to.name);
    let summary = Summary { path: shown(&path), from_state, to_state, sent };
    output.show(args.json, &summary, |out| {
        writeln!(out, "{}: {}, {}", file.display(), summary.to_state, Bytes(sent.stream_bytes))?;
        let (files, content) = (sent.differing_inodes, Bytes(sent.content_bytes));
        writeln!(out, "{files} files and directories differ, {content} of content")
    })
}

fn epoch_of(state: &State, path: &Path) -> Done<u32> {
    let told = state.told.map(|told| told.epoch);
    told.ok_or_else(|| {
        Failure::failed(format!("only the owner of {} and root may send states", path.display()))
    })
}

fn open_output(args: &SendArgs) -> Done<Box<dyn Write>> {
    match &args.output {
        Some(file) => Ok(Box::new(File::create(file).map_err(|e| Failure::io("cannot write", file, &e))?)),
        None if std::io::stdout().is_terminal() => Err(Failure::usage("a stream is nothing for a terminal")
            .advise("write it to a file, with > or --output, or into a pipe")),
        None => Ok(Box::new(std::io::stdout().lock())),
    }
}

/// Has the daemon send, and passes the stream on.
fn send_from_mount(
    mount: &Mount,
    (from, to): (Option<u32>, u32),
    skip_bytes: u64,
    out: &mut dyn Write,
    bar: &Bar,
) -> Done<SentView> {
    let cannot = |e: std::io::Error| Failure::failed(format!("cannot receive from the daemon: {e}"));
    let directory = tempfile::Builder::new().prefix("firn-send-").tempdir().map_err(cannot)?;
    let socket = directory.path().join("stream");
    let listener = UnixListener::bind(&socket).map_err(cannot)?;
    let mut client = Client::for_mount(mount).map_err(|e| failure_of(&e))?;
    let request = SendRequest { from, to, skip_bytes, socket: socket.clone() };
    let request = serde_json::to_value(request).map_err(|e| Failure::failed(e.to_string()))?;
    let asking = std::thread::spawn(move || {
        let answer = client.ask::<SentView>(SEND_OP, request);
        // Wakes the other side if the daemon did not connect.
        let _late = UnixStream::connect(&socket);
        answer
    });
    let (stream, _) = listener.accept().map_err(cannot)?;
    let passed = pass_on(stream, skip_bytes == 0, out, bar);
    let answer = asking.join().map_err(|_| Failure::failed("the question to the daemon was lost"))?;
    let sent = answer.map_err(|e| failure_of(&e))?;
    passed.map(|()| sent)
}

/// Copies a stream; from its beginning, every frame is verified.
fn pass_on(mut stream: UnixStream, is_whole: bool, out: &mut dyn Write, bar: &Bar) -> Done {
    let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("cannot pass the stream on: {e}"));
    if !is_whole {
        return std::io::copy(&mut stream, out).map(drop).map_err(|e| failed(&e));
    }
    let mut both = Both { from: stream, to: out };
    let mut reader = StreamReader::new(&mut both).map_err(|e| failed(&e))?;
    let (mut files, of_files) = (0, u64::from(reader.header().inodes));
    loop {
        match reader.next_frame().map_err(|e| failed(&e))? {
            Frame::Attributes(_) => files += 1,
            Frame::End => return Ok(()),
            _ => {}
        }
        bar.show(files, of_files, Bytes(reader.at_bytes()));
    }
}

/// Writes what it reads.
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
