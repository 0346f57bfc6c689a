//! Recordings of `firn watch`: writing one beside a display, and showing one again.

use super::{WatchArgs, is_shown_on_terminal, new_file, print, show};
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::tell::tell;
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::recording::{self, Reader, Writer};
use firnfs_watch::replay::Replay;
use firnfs_watch::screen::Owners;
use firnfs_watch::screen::keys::Action;
use firnfs_watch::state::State;
use firnfs_watch::web::{MAILED_FRAMES, Mailed};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::Instant;

/// A feed that is also recorded. If the file cannot be written any more, the display goes on and says so at the end.
pub struct Recorded<F> {
    feed: F,
    writer: Option<Writer<File>>,
    failed: Option<io::Error>,
}

impl<F: Feed> Recorded<F> {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(feed: F, file: File) -> io::Result<Self> {
        Ok(Self { feed, writer: Some(Writer::new(file)?), failed: None })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(self) -> io::Result<()> {
        match (self.failed, self.writer) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.finish()?.sync_all(),
            (None, None) => Ok(()),
        }
    }

    fn record(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.add(self.feed.state()) {
            (self.failed, self.writer) = (Some(error), None);
        }
    }
}

impl<F: Feed> Feed for Recorded<F> {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        let step = self.feed.step(policies);
        if step == Ok(Step::Changed) {
            self.record();
        }
        step
    }

    fn state(&self) -> &State {
        self.feed.state()
    }

    fn label(&self) -> String {
        let recording = if self.writer.is_some() { "recording" } else { "NOT RECORDING" };
        format!("{}, {recording}", self.feed.label())
    }

    fn owners(&mut self, segment: u64) -> Owners {
        self.feed.owners(segment)
    }

    fn unanswered(&self) -> &'static str {
        self.feed.unanswered()
    }

    fn act(&mut self, action: Action) {
        self.feed.act(action);
    }
}

/// True if a path is a file that begins as a recording does.
pub fn is_recording(path: &Path) -> bool {
    let mut begin = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let read = || File::open(path)?.take(8).read_to_end(&mut begin);
    is_file && { read }().is_ok() && recording::is_recording(&begin)
}

/// Shows a recording: on the terminal in its own time, as lines or a page all at once.
///
/// # Errors
/// It cannot be read, or the page cannot be written.
pub fn run(args: &WatchArgs, output: &mut Output) -> Done {
    if args.web.is_some() || args.record.is_some() {
        return Err(Failure::usage(format!("{} is a recording", args.path.display()))
            .advise("--web and --record are for mounts; --html makes a page of a recording"));
    }
    let file = File::open(&args.path).map_err(|e| Failure::io("cannot open", &args.path, &e))?;
    let replay = Reader::new(BufReader::new(file)).and_then(|reader| Replay::new(reader, Instant::now()));
    let mut replay = replay
        .map_err(|e| Failure::new(Exit::NotAVolume, format!("cannot read {}: {e}", args.path.display())))?;
    let shown = match &args.html {
        Some(path) => page(&mut replay, path),
        None if is_shown_on_terminal(args.json) => show(&mut replay, args, output),
        None => lines(&mut replay, args, output),
    };
    if let Some(damage) = replay.damage() {
        tell(format_args!("{}: {damage}; the rest was shown", args.path.display()));
    }
    if replay.is_torn() {
        tell(format_args!("{} was not ended: up to a minute at its end is missing", args.path.display()));
    }
    shown
}

fn lines(replay: &mut Replay<BufReader<File>>, args: &WatchArgs, output: &mut Output) -> Done {
    let mut number = 0;
    while print(output, args.json, replay.state(), number)? {
        number += 1;
        if args.count.is_some_and(|count| number >= count) || !replay.next_tick() {
            break;
        }
    }
    Ok(())
}

fn page(replay: &mut Replay<BufReader<File>>, path: &Path) -> Done {
    let mut file = new_file(path, None)?;
    let mut mailed = Mailed::default();
    let mut has_room = mailed.add(replay.state());
    while has_room && replay.next_tick() {
        has_room = mailed.add(replay.state());
    }
    if !has_room && replay.next_tick() {
        tell(format_args!("the page has the first {MAILED_FRAMES} looks of the recording"));
    }
    let written = mailed.page().and_then(|page| file.write_all(page.as_bytes()));
    written.map_err(|e| Failure::io("cannot write", path, &e))
}
