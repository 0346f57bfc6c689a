//! Reads what strace writes about calls on files: `strace -f -y -ttt -T -e trace=file,desc,process -o TRACE PROGRAM`.
//!
//! `-ttt` gives times (`-tt` will do), `-T` durations, `-y` paths of descriptors. Without `-y` descriptors are followed from the calls
//! that open, duplicate and inherit them. strace knows files by their paths, so a file is the hash of its absolute path: a file
//! that is renamed is another file afterwards, and a relative path is one of its own unless `-y` says where it begins. Mapped memory does
//! not show. Pipes, sockets and descriptors of unknown files are left out, and so are calls that concern no file.
//!
//! Parts: `syntax` (a line), `calls` (a call to a record), `descriptors`, `errno`.

mod calls;
mod descriptors;
mod errno;
mod syntax;

use crate::error::Error;
use crate::lines::{Lines, Start};
use crate::record::Record;
use crate::records;
use calls::Tracer;
use std::collections::{HashMap, VecDeque};
use std::io::BufRead;
use syntax::{Event, Line};

/// Bytes of calls that have begun and not ended; more is no trace.
const UNFINISHED_MAX_BYTES: usize = 8 << 20;

/// An iterator of records, in the order in which calls end.
pub struct Reader<R> {
    lines: Lines<R>,
    start: Start,
    clock: syntax::Clock,
    tracer: Tracer,
    /// The beginning of a call, by process: time and text.
    unfinished: HashMap<u32, (u64, Vec<u8>)>,
    unfinished_bytes: usize,
    ready: VecDeque<Record>,
    has_failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads a text.
    pub fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input),
            start: Start::default(),
            clock: syntax::Clock::default(),
            tracer: Tracer::default(),
            unfinished: HashMap::new(),
            unfinished_bytes: 0,
            ready: VecDeque::new(),
            has_failed: false,
        }
    }

    /// Time of the first line, in nanoseconds since 1970; 0 before it is read, and if the trace has only times of the day.
    pub fn start_ns(&self) -> u64 {
        if self.clock.is_of_day() { 0 } else { self.start.start_ns() }
    }

    /// Bytes of the text that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.lines.read_bytes()
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            let Some(line) = self.lines.next_line()? else { return Ok(None) };
            if line.is_empty() {
                continue;
            }
            let taken = match Line::parse(line, &mut self.clock) {
                Ok(Line { pid, time_ns, event }) => {
                    let time_ns = self.start.since(time_ns);
                    let event = event.into_owned();
                    self.take(pid, time_ns, event)
                }
                Err(what) => Err(what),
            };
            taken.map_err(|what| self.lines.wrong(what))?;
        }
    }

    fn take(&mut self, pid: u32, time_ns: u64, event: Event<Vec<u8>>) -> Result<(), String> {
        match event {
            Event::Nothing => Ok(()),
            Event::Exited => {
                self.tracer.exited(pid);
                self.forget_unfinished(pid);
                Ok(())
            }
            Event::Call(text) => self.call(pid, time_ns, &text),
            Event::Begun(text) => {
                self.forget_unfinished(pid);
                self.unfinished_bytes += text.len();
                if self.unfinished_bytes > UNFINISHED_MAX_BYTES {
                    return Err("too many calls have begun and not ended".into());
                }
                self.unfinished.insert(pid, (time_ns, text));
                Ok(())
            }
            Event::Resumed(rest) => {
                // A trace that was attached to a running program may begin with ends.
                let Some((began_ns, mut text)) = self.forget_unfinished(pid) else { return Ok(()) };
                text.extend_from_slice(&rest);
                self.call(pid, began_ns, &text)
            }
        }
    }

    fn forget_unfinished(&mut self, pid: u32) -> Option<(u64, Vec<u8>)> {
        let begun = self.unfinished.remove(&pid)?;
        self.unfinished_bytes -= begun.1.len();
        Some(begun)
    }

    fn call(&mut self, pid: u32, time_ns: u64, text: &[u8]) -> Result<(), String> {
        let call = syntax::Call::parse(text)?;
        self.tracer.call(pid, time_ns, &call, &mut self.ready)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        records::item(self.advance(), &mut self.has_failed)
    }
}
