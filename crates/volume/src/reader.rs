//! Reads the device: aligned, several reads at once, with the look-ahead that the store asked for.
//!
//! A caller with several reads submits them together and waits once: all fetches of one operation ([`Reader::fetch_all`]), all
//! stretches of one read ([`Reader::carry_out`]). The reader keeps the bytes read beside them ([`Ahead`])
//! in *windows*, and serves later reads from them. A window may be older than the device, whose blocks may have been rewritten:
//! the store's verifier detects that, and the reader reads the device again. Bytes that the verifier cannot judge are always
//! read from the device.
//!
//! Callers: `volume` and `waiting`; outside this crate, callers that read a volume's device raw ([`Reader::exact`]).

use crate::never_waiting;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use firnfs::FsError;
use firnfs::engine::Verify;
use firnfs::fetch::{Ahead, Fetch};
use firnfs::store::{Piece, ReadPlan};
use firnfs_device::{AlignedBuf, Device, Request};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Windows that are kept.
const WINDOWS: usize = 16;
/// Stretches at least this long are read without look-ahead: a caller that asks for so much reads ahead by itself.
const LARGE_BYTES: u64 = 64 << 10;
/// Longest single read.
const READ_MAX_BYTES: u64 = 1 << 20;
/// Fetches this close to each other become one read: the bytes between them cost less than a request.
const GAP_BYTES: u64 = 4096;

/// A stretch of the device that was read.
#[derive(Clone)]
struct Window {
    at_bytes: u64,
    data: Arc<AlignedBuf>,
}

impl Window {
    fn end(&self) -> u64 {
        self.at_bytes + self.data.len() as u64
    }

    /// The bytes of a range, if it lies inside.
    fn range(&self, at_bytes: u64, len_bytes: u64) -> Option<&[u8]> {
        let from = usize::try_from(at_bytes.checked_sub(self.at_bytes)?).ok()?;
        self.data.get(from..from.checked_add(len_bytes as usize)?)
    }
}

/// A read to be submitted: a range of the device. If a window covers its beginning, the read starts at the window's end: a disk
/// with a head does not seek back.
#[derive(Clone)]
struct Span {
    start: u64,
    end: u64,
    has_ahead: bool,
    /// The window that covers its beginning.
    goes_on: Option<Window>,
}

impl Span {
    /// The bytes of a range that begins in the span, or in the window before it, given the bytes that were read.
    fn range<'a>(&self, read: &'a Window, at_bytes: u64, len_bytes: u64) -> Cow<'a, [u8]> {
        if let Some(bytes) = read.range(at_bytes, len_bytes) {
            return Cow::Borrowed(bytes);
        }
        let joined = self.goes_on.as_ref().and_then(|window| {
            let inside = window.end().checked_sub(at_bytes)?;
            let mut bytes = window.range(at_bytes, inside)?.to_vec();
            bytes.extend_from_slice(read.range(window.end(), len_bytes.checked_sub(inside)?)?);
            Some(bytes)
        });
        Cow::Owned(joined.unwrap_or_default())
    }
}

/// See the module's head.
pub struct Reader {
    device: Option<Arc<dyn Device>>,
    verifier: Arc<dyn Verify>,
    unit_bytes: u64,
    size_bytes: u64,
    /// The most recently used is last: a directory's window outlives those of its files, which come and go.
    windows: Mutex<VecDeque<Window>>,
    ahead_max_bytes: AtomicU32,
    before_blocking: Arc<OnceLock<fn()>>,
}

impl Reader {
    /// Reads `device` for a store; `None` for a store without a device. `before_blocking`, once set, is called before each
    /// wait.
    pub fn new(
        device: Option<Arc<dyn Device>>,
        verifier: Arc<dyn Verify>,
        before_blocking: Arc<OnceLock<fn()>>,
    ) -> Self {
        let shape = device.as_ref().map(|device| device.geometry());
        Self {
            device,
            verifier,
            unit_bytes: shape.map_or(512, |shape| u64::from(shape.logical_block_bytes.max(512))),
            size_bytes: shape.map_or(0, |shape| shape.size_bytes),
            windows: Mutex::default(),
            ahead_max_bytes: AtomicU32::new(u32::MAX),
            before_blocking,
        }
    }

    fn device(&self) -> Result<&dyn Device, FsError> {
        self.device.as_deref().ok_or_else(|| FsError::Io("the store has no device".to_owned()))
    }

    /// Submits reads of aligned ranges together and waits for all of them; returns one answer for each range.
    fn read_spans(&self, spans: &[Span]) -> Result<Vec<Result<Window, FsError>>, FsError> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        never_waiting::ask()?;
        let device = self.device()?;
        if let Some(hook) = self.before_blocking.get() {
            hook();
        }
        let submit = |span: &Span| {
            let len_bytes = (span.end - span.start) as u32;
            device.submit(Request::Read { at_bytes: span.start, len_bytes })
        };
        let tags: Vec<_> = spans.iter().map(submit).collect();
        let answers = spans.iter().zip(tags).map(|(span, tag)| match device.wait(tag) {
            Ok(Some(data)) => Ok(Window { at_bytes: span.start, data: Arc::new(data) }),
            Ok(None) => Err(FsError::Io("the device returned no data".to_owned())),
            Err(e) => Err(FsError::Io(e.to_string())),
        });
        Ok(answers.collect())
    }

    /// Bounds the look-ahead, whatever the store asks for.
    pub fn limit_ahead(&self, ahead_max_bytes: u32) {
        self.ahead_max_bytes.store(ahead_max_bytes, Ordering::Relaxed);
    }

    /// A range with its look-ahead, aligned outwards and within the device.
    fn span(&self, at_bytes: u64, len_bytes: u64, ahead: Ahead) -> Span {
        let most = self.ahead_max_bytes.load(Ordering::Relaxed);
        let (before, behind) =
            (u64::from(ahead.before_bytes.min(most)), u64::from(ahead.behind_bytes.min(most)));
        let start = at_bytes.saturating_sub(before) / self.unit_bytes * self.unit_bytes;
        let needed = (at_bytes + len_bytes).next_multiple_of(self.unit_bytes);
        let whole_units = self.size_bytes / self.unit_bytes * self.unit_bytes;
        // The range itself is kept even beyond the device's end, so that the device refuses it.
        let end = (needed + behind.next_multiple_of(self.unit_bytes)).min(whole_units).max(needed);
        Span { start, end, has_ahead: ahead != Ahead::NONE, goes_on: None }
    }

    /// The same for the next read of a stream, whose beginning may be in a window.
    fn span_in_stream(&self, at_bytes: u64, len_bytes: u64, ahead: Ahead) -> Span {
        let span = self.span(at_bytes, len_bytes, ahead);
        let windows = self.windows.lock();
        let contains = |w: &&Window| w.at_bytes <= at_bytes && at_bytes < w.end() && w.end() < span.end;
        match windows.iter().rev().find(contains) {
            Some(window) if ahead.before_bytes == 0 => {
                Span { start: window.end(), goes_on: Some(window.clone()), ..span }
            }
            _ => span,
        }
    }

    /// Reads everything that a store asked for at once, and verifies it; returns one answer for each fetch.
    pub fn fetch_all(&self, fetches: &[Fetch]) -> Vec<Result<Vec<u8>, FsError>> {
        let mut answers: Vec<Option<Result<Vec<u8>, FsError>>> =
            fetches.iter().map(|fetch| self.in_windows(fetch).map(Ok)).collect();
        let mut missing: Vec<usize> = (0..fetches.len()).filter(|&at| answers[at].is_none()).collect();
        missing.sort_by_key(|&at| fetches[at].at_bytes);
        let (spans, span_of) = self.merge(fetches, &missing);
        let read = match self.read_spans(&spans) {
            Ok(read) => read,
            Err(why) => return fetches.iter().map(|_| Err(why.clone())).collect(),
        };
        for (&at, &span) in missing.iter().zip(&span_of) {
            let fetch = &fetches[at];
            answers[at] = Some(read[span].clone().and_then(|window| {
                let bytes = spans[span].range(&window, fetch.at_bytes, u64::from(fetch.len_bytes));
                match self.verifier.verify(&fetch.token, &bytes) {
                    Ok(()) => Ok(bytes.into_owned()),
                    // The window may be older than the device.
                    Err(_) if spans[span].goes_on.is_some() => self.again(fetch),
                    Err(why) => Err(why),
                }
            }));
        }
        let ahead = spans.iter().zip(&read).filter(|(span, _)| span.has_ahead);
        self.keep(ahead.filter_map(|(_, window)| window.as_ref().ok().cloned()));
        let never = || Err(FsError::Io("a fetch was not answered".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(never)).collect()
    }

    /// Reads one fetch alone, ignoring the windows.
    fn again(&self, fetch: &Fetch) -> Result<Vec<u8>, FsError> {
        let bytes = self.exact(fetch.at_bytes, u64::from(fetch.len_bytes))?;
        self.verifier.verify(&fetch.token, &bytes).map(|()| bytes)
    }

    /// Merges fetches, sorted by place, that lie close to each other into one read. Returns the reads, and which one serves
    /// each fetch.
    fn merge(&self, fetches: &[Fetch], sorted: &[usize]) -> (Vec<Span>, Vec<usize>) {
        let mut spans: Vec<Span> = Vec::new();
        let mut span_of = Vec::with_capacity(sorted.len());
        for &at in sorted {
            let Fetch { at_bytes, len_bytes, ahead, .. } = fetches[at];
            let span = match self.verifier.notices_stale(&fetches[at].token) {
                true => self.span_in_stream(at_bytes, u64::from(len_bytes), ahead),
                false => self.span(at_bytes, u64::from(len_bytes), ahead),
            };
            match spans.last_mut() {
                Some(last)
                    if (last.start..=last.end + GAP_BYTES).contains(&span.start)
                        && span.goes_on.is_none()
                        && span.end.max(last.end) - last.start <= READ_MAX_BYTES =>
                {
                    last.end = last.end.max(span.end);
                    last.has_ahead |= span.has_ahead;
                }
                _ => spans.push(span),
            }
            span_of.push(spans.len() - 1);
        }
        (spans, span_of)
    }

    /// The bytes of a fetch, if a window holds them and they verify.
    fn in_windows(&self, fetch: &Fetch) -> Option<Vec<u8>> {
        if !self.verifier.notices_stale(&fetch.token) {
            return None;
        }
        let window = self.window_with(fetch.at_bytes, u64::from(fetch.len_bytes))?;
        let bytes = window.range(fetch.at_bytes, u64::from(fetch.len_bytes))?;
        self.verifier.verify(&fetch.token, bytes).is_ok().then(|| bytes.to_vec())
    }

    /// The window that holds a range; it becomes the most recently used.
    fn window_with(&self, at_bytes: u64, len_bytes: u64) -> Option<Window> {
        let mut windows = self.windows.lock();
        let inside = |w: &Window| at_bytes >= w.at_bytes && at_bytes + len_bytes <= w.end();
        let found = windows.iter().rposition(inside)?;
        let window = windows.remove(found)?;
        windows.push_back(window.clone());
        Some(window)
    }

    fn keep(&self, windows: impl Iterator<Item = Window>) {
        let mut kept = self.windows.lock();
        for window in windows {
            if kept.len() >= WINDOWS {
                kept.pop_front();
            }
            kept.push_back(window);
        }
    }

    /// Reads exactly that range, aligned outwards to the device's blocks; does not verify it.
    ///
    /// # Errors
    /// `Io`.
    pub fn exact(&self, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        let span = self.span(at_bytes, len_bytes, Ahead::NONE);
        let window = self.read_spans(&[span])?.pop().unwrap_or_else(|| Err(FsError::NoData))?;
        Ok(window.range(at_bytes, len_bytes).unwrap_or(&[]).to_vec())
    }

    /// Carries out a read plan: adjacent stretches become one read, and all reads are under way at once. Every block is
    /// verified.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn carry_out(&self, plan: &ReadPlan, out: &mut [u8]) -> Result<(), FsError> {
        let mut waiting: Vec<(Run<'_>, Span)> = Vec::new();
        let (mut at, mut done) = (0, 0);
        while at < plan.pieces.len() {
            if copy_memory(&plan.pieces[at], &mut out[done..]) {
                done += plan.pieces[at].len_bytes();
                at += 1;
                continue;
            }
            let is_last = |count: usize| at + count == plan.pieces.len();
            let mut run = Run { pieces: &plan.pieces[at..at + run_length(&plan.pieces[at..])], at_out: done };
            let ends_plan = is_last(run.pieces.len());
            at += run.pieces.len();
            done += run.len_out();
            self.begin_in_windows(&mut run, out);
            if let Some((start, end)) = run.place() {
                let wants_ahead = ends_plan && end - start < LARGE_BYTES;
                let ahead = if wants_ahead { plan.ahead } else { Ahead::NONE };
                let span = match run.notices_stale(&*self.verifier) {
                    true => self.span_in_stream(start, end - start, ahead),
                    false => self.span(start, end - start, ahead),
                };
                waiting.push((run, span));
            }
        }
        let spans: Vec<Span> = waiting.iter().map(|(_, span)| span.clone()).collect();
        let read = self.read_spans(&spans)?;
        let mut result = Ok(());
        for ((run, span), window) in waiting.iter().zip(read) {
            let copied = window.and_then(|window| {
                if span.has_ahead {
                    self.keep(std::iter::once(window.clone()));
                }
                run.pieces.iter().try_fold(run.at_out, |at_out, piece| {
                    let Some((at_bytes, len_bytes)) = stored(piece) else { return Ok(at_out) };
                    let target = &mut out[at_out..at_out + piece.len_bytes()];
                    let copied = self.copy_stored(piece, &span.range(&window, at_bytes, len_bytes), target);
                    if copied.is_err() && span.goes_on.is_some() {
                        // The window may be older than the device.
                        self.copy_stored(piece, &self.exact(at_bytes, len_bytes)?, target)?;
                    } else {
                        copied?;
                    }
                    Ok(at_out + piece.len_bytes())
                })
            });
            result = result.and(copied.map(drop));
        }
        result
    }

    /// Serves as many of a run's first pieces as possible from windows; the rest stays in the run.
    fn begin_in_windows(&self, run: &mut Run<'_>, out: &mut [u8]) {
        while let Some((first, rest)) = run.pieces.split_first()
            && let Piece::Stored { token, at_bytes, stored_bytes, .. } = first
            && self.verifier.notices_stale(token)
            && let Some(window) = self.window_with(*at_bytes, u64::from(*stored_bytes))
        {
            let target = &mut out[run.at_out..run.at_out + first.len_bytes()];
            let block = window.range(*at_bytes, u64::from(*stored_bytes)).unwrap_or(&[]);
            if self.copy_stored(first, block, target).is_err() {
                return;
            }
            *run = Run { pieces: rest, at_out: run.at_out + first.len_bytes() };
        }
    }

    /// Verifies the bytes of a stored piece, and copies the part that was asked for.
    fn copy_stored(&self, piece: &Piece, block: &[u8], target: &mut [u8]) -> Result<(), FsError> {
        let Piece::Stored { token, start, len_bytes, .. } = piece else { return Ok(()) };
        self.verifier.verify(token, block)?;
        // Bytes beyond the stored length are zero.
        let tail = block.get(*start..).unwrap_or(&[]);
        let have = tail.len().min(*len_bytes);
        target[..have].copy_from_slice(&tail[..have]);
        target[have..].fill(0);
        Ok(())
    }
}

/// Stored pieces that are adjacent on the device, and where their bytes go.
struct Run<'a> {
    pieces: &'a [Piece],
    at_out: usize,
}

impl Run<'_> {
    fn len_out(&self) -> usize {
        self.pieces.iter().map(Piece::len_bytes).sum()
    }

    /// Whether the first piece may come from a window, as the verifier says.
    fn notices_stale(&self, verifier: &dyn Verify) -> bool {
        matches!(self.pieces.first(), Some(Piece::Stored { token, .. }) if verifier.notices_stale(token))
    }

    /// Start and end on the device; `None` if nothing is left.
    fn place(&self) -> Option<(u64, u64)> {
        let (start, _) = stored(self.pieces.first()?)?;
        let (last, len_bytes) = stored(self.pieces.last()?)?;
        Some((start, last + len_bytes))
    }
}

/// Copies a stretch that is not on the device; false if it is.
fn copy_memory(piece: &Piece, out: &mut [u8]) -> bool {
    let out = match piece {
        Piece::Stored { .. } => return false,
        other => &mut out[..other.len_bytes()],
    };
    match piece {
        Piece::Memory { buf, start, len_bytes } => out.copy_from_slice(&buf[*start..*start + *len_bytes]),
        Piece::Zeros { .. } | Piece::Stored { .. } => out.fill(0),
    }
    true
}

fn stored(piece: &Piece) -> Option<(u64, u64)> {
    match piece {
        Piece::Stored { at_bytes, stored_bytes, .. } => Some((*at_bytes, u64::from(*stored_bytes))),
        _ => None,
    }
}

/// How many pieces, from the first on, are adjacent on the device; 0 if the first is not on the device.
fn run_length(pieces: &[Piece]) -> usize {
    let Some((start, len_bytes)) = pieces.first().and_then(stored) else { return 0 };
    let mut end = start + len_bytes;
    let mut run = 1;
    while let Some((at, len_bytes)) = pieces.get(run).and_then(stored)
        && at == end
        && end - start < READ_MAX_BYTES
    {
        end += len_bytes;
        run += 1;
    }
    run
}
