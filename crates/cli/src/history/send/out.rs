//! Where `firn send` writes the stream: standard output, or a file.
//!
//! A new file is made when the first bytes of the stream are there, and never takes the place of another one. What a failed command has
//! written stays if `--skip` can continue it; otherwise it goes.

use super::SendArgs;
use crate::failure::{Done, Exit, Failure};
use crate::names::{readable, shell_word};
use crate::sizes::Count;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

/// Why there is not all of a stream.
pub enum Unsent {
    /// The output takes no more.
    Output,
    /// The source failed. The rest may be sent later.
    ForNow(Failure),
    /// The source failed, and would fail again.
    ForGood(Failure),
}

/// See the module's head.
pub struct Out {
    sink: Sink,
    /// Why the output takes no more.
    error: Option<io::Error>,
}

enum Sink {
    Stdout(StdoutLock<'static>),
    /// A file that is made with the first bytes.
    New(PathBuf),
    File(Target),
}

/// An open file.
struct Target {
    file: File,
    path: PathBuf,
    /// It held this many bytes before; `None` if there was no such file.
    held_bytes: Option<u64>,
    /// A device or pipe keeps nothing.
    is_regular: bool,
}

impl Out {
    /// The output that a command line names. The rest of a stream is appended to its beginning.
    ///
    /// # Errors
    /// A terminal; a file that exists, or with `--skip` one that does not; the file does not end where the rest begins.
    pub fn of(args: &SendArgs) -> Done<Self> {
        let sink = match &args.output {
            None if io::stdout().is_terminal() => {
                return Err(Failure::usage("a stream is nothing for a terminal")
                    .advise("write it to a file, with > or --output, or into a pipe"));
            }
            None => Sink::Stdout(io::stdout().lock()),
            Some(path) => match (path.metadata(), args.skip) {
                (Ok(meta), skip_bytes) => Sink::File(Target::existing(path, &meta, skip_bytes)?),
                (Err(e), 0) if e.kind() == io::ErrorKind::NotFound => Sink::New(path.clone()),
                (Err(e), _) if e.kind() == io::ErrorKind::NotFound => return Err(nothing_to_continue(path)),
                (Err(e), _) => return Err(cannot_write(path, &e)),
            },
        };
        Ok(Self { sink, error: None })
    }

    /// The output has failed.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends a whole stream. A file is durable then.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn close(mut self) -> Done {
        match &mut self.sink {
            Sink::Stdout(out) => match out.flush() {
                Ok(()) => Ok(()),
                Err(error) => Self { error: Some(error), ..self }.give_up(Unsent::Output),
            },
            Sink::File(Target { file, path, is_regular: true, .. }) => match file.sync_all() {
                Ok(()) => Ok(()),
                // Nobody knows how much of it is on the disk.
                Err(error) => {
                    let failure = cannot_write(path, &error);
                    self.give_up(Unsent::ForGood(failure))
                }
            },
            Sink::File(_) | Sink::New(_) => Ok(()),
        }
    }

    /// Ends a stream that is not whole. Succeeds if that is what its reader wanted, who closed the pipe.
    ///
    /// # Errors
    /// The stream is not whole.
    pub fn give_up(self, unsent: Unsent) -> Done {
        let (failure, is_for_good) = match (unsent, &self.error) {
            (Unsent::ForNow(failure), _) => (failure, false),
            (Unsent::ForGood(failure), _) => (failure, true),
            (Unsent::Output, Some(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            (Unsent::Output, Some(error)) => (self.failure(error), false),
            (Unsent::Output, None) => (Failure::failed("the stream ended too early"), false),
        };
        Err(match self.sink {
            Sink::File(target) if target.is_regular => target.clear_up(failure, is_for_good),
            _ => failure,
        })
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match &self.sink {
            Sink::Stdout(_) => Failure::io("cannot write the stream to", Path::new("standard output"), error),
            Sink::New(path) | Sink::File(Target { path, .. }) => cannot_write(path, error),
        }
    }

    /// Makes the file if this has not happened.
    fn open(&mut self) -> io::Result<&mut dyn Write> {
        if let Sink::New(path) = &self.sink {
            let file = OpenOptions::new().write(true).create_new(true).open(path)?;
            let path = path.clone();
            self.sink = Sink::File(Target { file, path, held_bytes: None, is_regular: true });
        }
        match &mut self.sink {
            Sink::Stdout(out) => Ok(out),
            Sink::File(Target { file, .. }) => Ok(file),
            Sink::New(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Notes an error, so that it is known later to be the output's.
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.error.get_or_insert(error);
            }
            kind.into()
        })
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = self.open().and_then(|out| out.write(bytes));
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.sink {
            Sink::Stdout(out) => out.flush(),
            Sink::File(_) | Sink::New(_) => Ok(()),
        };
        self.noted(flushed)
    }
}

impl Target {
    /// A file that is there: one that holds the beginning of the stream, or a device or pipe.
    fn existing(path: &Path, meta: &Metadata, skip_bytes: u64) -> Done<Self> {
        let is_regular = meta.is_file();
        if is_regular {
            continues(path, meta.len(), skip_bytes)?;
        }
        let file = OpenOptions::new().write(true).append(is_regular).open(path);
        let file = file.map_err(|e| cannot_write(path, &e))?;
        Ok(Self { file, path: path.to_owned(), held_bytes: Some(meta.len()), is_regular })
    }

    /// Decides what becomes of the part that was written, and says so in the failure.
    fn clear_up(self, failure: Failure, is_for_good: bool) -> Failure {
        let Self { file, path, held_bytes, .. } = self;
        let len_bytes = file.metadata().map_or(0, |meta| meta.len());
        if !is_for_good && len_bytes > 0 {
            let rest = format!(
                "{} has the first {}, and --skip {len_bytes} --output {} sends the rest",
                readable(&path),
                Count(len_bytes).of("byte", "bytes"),
                shell_word(&path)
            );
            let advice = failure.advice.as_ref().map_or(rest.clone(), |advice| format!("{advice}; {rest}"));
            return failure.advise(advice);
        }
        // If this fails, too, the first failure is still the one to tell.
        let _cleared = match held_bytes {
            Some(held_bytes) => file.set_len(held_bytes),
            None => std::fs::remove_file(&path),
        };
        failure
    }
}

/// Refuses a file that is no beginning of `skip_bytes`.
fn continues(path: &Path, len_bytes: u64, skip_bytes: u64) -> Done {
    let name = readable(path);
    if skip_bytes == 0 {
        let mut advice = "remove it, or name another file".to_owned();
        if len_bytes > 0 {
            advice += &format!("; if it is the beginning of this stream, --skip {len_bytes} continues it");
        }
        return Err(Failure::new(Exit::Refused, format!("{name} exists")).advise(advice));
    }
    if len_bytes != skip_bytes {
        let len = Count(len_bytes).of("byte", "bytes");
        let message = format!("{name} has {len}, --skip leaves out {skip_bytes}");
        let advice = match len_bytes {
            0 => "remove it, and send all of the stream".to_owned(),
            _ => format!("the rest begins behind --skip {len_bytes}"),
        };
        return Err(Failure::usage(message).advise(advice));
    }
    Ok(())
}

fn nothing_to_continue(path: &Path) -> Failure {
    let message = format!("{} is not there, and --skip continues a file that is", readable(path));
    Failure::usage(message).advise("without --skip, all of the stream is sent")
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(Exit::Refused, format!("{} exists", readable(path)))
            .advise("remove it, or name another file"),
        _ => Failure::io("cannot write", path, error),
    }
}
