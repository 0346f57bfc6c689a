//! Reads the device: aligned, several reads at once, with the look-ahead that the store asked for.
//!
//! A caller with several reads submits them together and waits once: all fetches of one operation ([`Reader::fetch_all`]), all
//! blocks of one read of content ([`Reader::carry_out`]). Those that lie together on the device become one read, in whatever order
//! they were asked for. What the store expects to be needed soon is submitted after them, and not waited for ([`Reader::start`]):
//! whoever needs it first waits for it. Bytes read before they are needed are in `ahead`. They may be older than the device, whose
//! blocks may have been rewritten. The store's verifier detects that, and the reader reads the device again; bytes that the
//! verifier cannot judge go to the store with the token of their read ([`Reader::take_started`]), and the store drops what is
//! stale. A read ahead that fails is forgotten: the error shows when the bytes are needed and read again.
//!
//! Callers: `volume` and `waiting`; outside this crate, callers that read a volume's device raw ([`Reader::exact`]).

use crate::ahead::{PIECE_MAX_BYTES, ReadAhead, SOON_MAX_BYTES, Started, Window};
use crate::in_place::Run;
use crate::never_waiting::{self, Landed, Missing};
use crate::scattered::Scattered;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use firnfs::FsError;
use firnfs::engine::Verify;
use firnfs::fetch::{Ahead, Fetch, Fetched, Soon, Token};
use firnfs::store::{Piece, ReadPlan};
use firnfs_device::{AlignedBuf, Completion, Device, Request, Tag};
use std::sync::{Arc, OnceLock};

/// If the caller reads ahead by itself, nothing is started for reads that are at least this long.
const LARGE_BYTES: usize = 64 << 10;
/// Longest single read.
const READ_MAX_BYTES: u64 = 1 << 20;
/// A store's fetches this close to each other become one read: the bytes between them cost less than a request.
const GAP_BYTES: u64 = 4096;

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
    fn range(&self, read: &Window, at_bytes: u64, len_bytes: u64) -> Fetched {
        let joined = || {
            let window = self.goes_on.as_ref()?;
            let inside = window.end().checked_sub(at_bytes)?;
            let first = window.range(at_bytes, inside)?;
            let rest = read.range(window.end(), len_bytes.checked_sub(inside)?)?;
            Some(Fetched::from(&*[first, rest].concat()))
        };
        read.part(at_bytes, len_bytes).or_else(joined).unwrap_or_else(|| Fetched::from(&[][..]))
    }
}

/// Reads that were submitted, each to be waited for.
struct Submitted(Vec<(Span, Tag)>);

/// See the module's head.
pub struct Reader {
    device: Option<Arc<dyn Device>>,
    verifier: Arc<dyn Verify>,
    unit_bytes: u64,
    ahead: ReadAhead,
    ahead_max_bytes: AtomicU32,
    /// The caller reads ahead by itself.
    is_read_ahead_above: AtomicBool,
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
            ahead: ReadAhead::default(),
            ahead_max_bytes: AtomicU32::new(u32::MAX),
            is_read_ahead_above: AtomicBool::new(false),
            before_blocking,
        }
    }

    fn device(&self) -> Result<&dyn Device, FsError> {
        self.device.as_deref().ok_or_else(|| FsError::Io("the store has no device".to_owned()))
    }

    fn about_to_block(&self) {
        debug_assert_eq!(never_waiting::ask(), Ok(()), "a thread that may not wait is about to");
        if let Some(hook) = self.before_blocking.get() {
            hook();
        }
    }

    /// Submits reads of aligned ranges together.
    fn submit(&self, spans: Vec<Span>) -> Result<Submitted, FsError> {
        if spans.is_empty() {
            return Ok(Submitted(Vec::new()));
        }
        never_waiting::ask()?;
        let device = self.device()?;
        let submit = |span: Span| {
            let len_bytes = (span.end - span.start) as u32;
            let tag = device.submit(Request::Read { at_bytes: span.start, len_bytes });
            (span, tag)
        };
        Ok(Submitted(spans.into_iter().map(submit).collect()))
    }

    /// Waits for reads; returns one answer for each range.
    fn finish(&self, submitted: Submitted) -> Vec<(Span, Result<Window, FsError>)> {
        let Some(device) = self.device.as_deref() else { return Vec::new() };
        if !submitted.0.is_empty() {
            self.about_to_block();
        }
        let answer = |(span, tag): (Span, Tag)| {
            let window =
                data_of(device.wait(tag)).map(|data| Window { at_bytes: span.start, data: Arc::new(data) });
            (span, window)
        };
        submitted.0.into_iter().map(answer).collect()
    }

    /// Bounds the look-ahead, whatever the store asks for.
    pub fn limit_ahead(&self, ahead_max_bytes: u32) {
        self.ahead_max_bytes.store(ahead_max_bytes, Ordering::Relaxed);
    }

    /// The caller reads ahead by itself: nothing is started for its long reads.
    pub fn leave_long_reads_alone(&self) {
        self.is_read_ahead_above.store(true, Ordering::Relaxed);
    }

    /// A range with its look-ahead, aligned outwards and within the device.
    fn span(&self, at_bytes: u64, len_bytes: u64, ahead: Ahead) -> Span {
        let most = self.ahead_max_bytes.load(Ordering::Relaxed);
        let (before, behind) =
            (u64::from(ahead.before_bytes.min(most)), u64::from(ahead.behind_bytes.min(most)));
        let start = at_bytes.saturating_sub(before) / self.unit_bytes * self.unit_bytes;
        let needed = (at_bytes + len_bytes).next_multiple_of(self.unit_bytes);
        // The range itself is kept even beyond the device's end, so that the device refuses it.
        let end = (needed + behind.next_multiple_of(self.unit_bytes)).min(self.whole_units()).max(needed);
        Span { start, end, has_ahead: ahead != Ahead::NONE, goes_on: None }
    }

    fn whole_units(&self) -> u64 {
        let size_bytes = self.device.as_ref().map_or(0, |device| device.geometry().size_bytes);
        size_bytes / self.unit_bytes * self.unit_bytes
    }

    /// The same read without its beginning at `at_bytes`, if that is in a window.
    fn behind_window(&self, span: Span, at_bytes: u64) -> Span {
        match self.ahead.window_before(at_bytes, span.end) {
            Some(window) => Span { start: window.end(), goes_on: Some(window), ..span },
            None => span,
        }
    }

    /// Reads everything that a store asked for at once, and verifies it; returns one answer for each fetch.
    pub fn fetch_all(&self, fetches: &[Fetch]) -> Vec<Result<Fetched, FsError>> {
        self.fetch_before(fetches, GAP_BYTES, &[], || ())
    }

    /// The same: fetches at most `gap_bytes` from each other become one read, and reads that nobody waits for are started behind all
    /// of those. Does `meanwhile` before it waits.
    fn fetch_before(
        &self,
        fetches: &[Fetch],
        gap_bytes: u64,
        soon: &[Soon],
        meanwhile: impl FnOnce(),
    ) -> Vec<Result<Fetched, FsError>> {
        let mut is_held = self.ahead.which_are_held(fetches);
        for (is_held, fetch) in is_held.iter_mut().zip(fetches) {
            *is_held |= never_waiting::landed_at(fetch.at_bytes).is_some();
        }
        let (held, mut missing): (Vec<usize>, Vec<usize>) = (0..fetches.len())
            .partition(|&at| is_held[at] && self.verifier.notices_stale(&fetches[at].token));
        missing.sort_by_key(|&at| fetches[at].at_bytes);
        let (spans, span_of) = self.merge(fetches, &missing, gap_bytes);
        let submitted = self.ask_to_read(fetches, &missing, &spans).and_then(|()| self.submit(spans));
        // If the reads would make this thread wait, the operation is carried out again. The store names what is ahead of a
        // stream only the first time, so it is started now, if there is room.
        self.start(soon);
        if (missing.is_empty() || submitted.is_err())
            && !soon.is_empty()
            && let Some(device) = &self.device
        {
            device.start_reads();
        }
        let submitted = match submitted {
            Ok(submitted) => submitted,
            Err(why) => return fetches.iter().map(|_| Err(why.clone())).collect(),
        };
        meanwhile();
        let mut answers: Vec<Option<Result<Fetched, FsError>>> = fetches.iter().map(|_| None).collect();
        // Windows may be older than the device.
        let mut stale: Vec<usize> = Vec::new();
        for at in held {
            match self.fetch_held(&fetches[at]) {
                Some(bytes) => answers[at] = Some(Ok(bytes)),
                None => stale.push(at),
            }
        }
        let read = self.finish(submitted);
        for (&at, &span) in missing.iter().zip(&span_of) {
            let (span, window) = &read[span];
            match self.answer(&fetches[at], span, window) {
                Err(_) if span.goes_on.is_some() && window.is_ok() => stale.push(at),
                answer => answers[at] = Some(answer),
            }
        }
        for (&at, answer) in stale.iter().zip(self.again(fetches, &stale)) {
            answers[at] = Some(answer);
        }
        let ahead = read.into_iter().filter(|(span, _)| span.has_ahead);
        ahead.filter_map(|(_, window)| window.ok()).for_each(|window| self.ahead.keep_beside(window));
        let never = || Err(FsError::Io("a fetch was not answered".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(never)).collect()
    }

    /// Asks before these fetches are read. What is read before another attempt is as old as a window, so only bytes that the verifier
    /// can judge are.
    fn ask_to_read(&self, fetches: &[Fetch], missing: &[usize], spans: &[Span]) -> Result<(), FsError> {
        if missing.iter().any(|&at| !self.verifier.notices_stale(&fetches[at].token)) {
            return never_waiting::ask();
        }
        if spans.is_empty() {
            return Ok(());
        }
        never_waiting::ask_to_read(spans.iter().map(|span| Missing {
            at_bytes: span.start,
            len_bytes: (span.end - span.start) as u32,
            has_ahead: span.has_ahead,
        }))
    }

    /// Takes up what an attempt that could not wait found to be missing, and what became of the read. `None` if it failed: an operation that
    /// may wait meets the error.
    pub fn landed(&self, missing: &Missing, completion: Completion) -> Option<Landed> {
        let data = data_of(completion).ok()?;
        let window = Window { at_bytes: missing.at_bytes, data: Arc::new(data) };
        if missing.has_ahead {
            self.ahead.keep_beside(window.clone());
        }
        Some(Landed(window))
    }

    /// The bytes of a fetch from windows, if they verify.
    fn fetch_held(&self, fetch: &Fetch) -> Option<Fetched> {
        let bytes = self.held(fetch.at_bytes, u64::from(fetch.len_bytes))?;
        self.verifier.verify(&fetch.token, &bytes).is_ok().then_some(bytes)
    }

    /// The bytes of a fetch from the read that has them.
    fn answer(
        &self,
        fetch: &Fetch,
        span: &Span,
        window: &Result<Window, FsError>,
    ) -> Result<Fetched, FsError> {
        let window = window.as_ref().map_err(FsError::clone)?;
        let bytes = span.range(window, fetch.at_bytes, u64::from(fetch.len_bytes));
        self.verifier.verify(&fetch.token, &bytes).map(|()| bytes)
    }

    /// Reads some of the fetches without the windows, all of them at once.
    fn again(&self, fetches: &[Fetch], which: &[usize]) -> Vec<Result<Fetched, FsError>> {
        let span =
            |&at: &usize| self.span(fetches[at].at_bytes, u64::from(fetches[at].len_bytes), Ahead::NONE);
        match self.submit(which.iter().map(span).collect()) {
            Ok(submitted) => {
                let read = self.finish(submitted).into_iter().zip(which);
                read.map(|((span, window), &at)| self.answer(&fetches[at], &span, &window)).collect()
            }
            Err(why) => which.iter().map(|_| Err(why.clone())).collect(),
        }
    }

    /// Merges fetches, sorted by place, that lie close to each other into one read. Returns the reads, and which one serves
    /// each fetch.
    fn merge(&self, fetches: &[Fetch], sorted: &[usize], gap_bytes: u64) -> (Vec<Span>, Vec<usize>) {
        let mut spans: Vec<Span> = Vec::new();
        let mut span_of = Vec::with_capacity(sorted.len());
        for &at in sorted {
            let Fetch { token, at_bytes, len_bytes, ahead } = &fetches[at];
            let span = self.span(*at_bytes, u64::from(*len_bytes), *ahead);
            match spans.last_mut() {
                Some(last)
                    if (last.start..=last.end + gap_bytes).contains(&span.start)
                        && span.end.max(last.end) - last.start <= READ_MAX_BYTES =>
                {
                    last.end = last.end.max(span.end);
                    last.has_ahead |= span.has_ahead;
                }
                _ if ahead.before_bytes == 0
                    && self.verifier.notices_stale(token)
                    && !never_waiting::is_inside() =>
                {
                    spans.push(self.behind_window(span, *at_bytes));
                }
                _ => spans.push(span),
            }
            span_of.push(spans.len() - 1);
        }
        (spans, span_of)
    }

    /// Starts reads that nobody waits for now. Those for which there is no room any more are waited for: they are the oldest, so
    /// they are complete, unless the device is slower than everything that reads ahead.
    fn start(&self, soon: &[Soon]) {
        let Some(device) = self.device.as_deref() else { return };
        if never_waiting::is_inside() && !self.ahead.has_room(soon) {
            return;
        }
        let most = self.ahead_max_bytes.load(Ordering::Relaxed).min(SOON_MAX_BYTES);
        for soon in soon {
            let len_bytes = u64::from(soon.len_bytes.min(most));
            let start = soon.at_bytes / self.unit_bytes * self.unit_bytes;
            let end = (soon.at_bytes + len_bytes).next_multiple_of(self.unit_bytes).min(self.whole_units());
            let piece_bytes = match soon.token {
                // The store can use only all of it.
                Some(_) if soon.len_bytes > most => continue,
                Some(_) => u64::from(SOON_MAX_BYTES) + 2 * self.unit_bytes,
                None => PIECE_MAX_BYTES,
            };
            let mut at_bytes = start;
            while at_bytes < end {
                let len_bytes = piece_bytes.min(end - at_bytes) as u32;
                if !self.ahead.holds(at_bytes, len_bytes.into()) {
                    let tag = device.submit(Request::Read { at_bytes, len_bytes });
                    let excess = self.ahead.add(Started { soon: *soon, at_bytes, len_bytes, tag });
                    excess.into_iter().for_each(|oldest| self.retire(oldest));
                }
                at_bytes += u64::from(len_bytes);
            }
        }
    }

    /// Waits for a read that nobody has needed so far.
    fn retire(&self, started: Started) {
        let is_for_store = started.soon.token.is_some();
        if let Ok(window) = self.land(started)
            && !is_for_store
        {
            self.ahead.keep_streamed(window);
        }
    }

    /// Waits for a read that was started.
    fn land(&self, started: Started) -> Result<Window, FsError> {
        let device = self.device()?;
        self.about_to_block();
        let data = data_of(device.wait(started.tag))?;
        Ok(Window { at_bytes: started.at_bytes, data: Arc::new(data) })
    }

    /// Takes the reads started for the store that have the first byte of one of these fetches; returns the fetches that are left.
    pub(crate) fn take_started(&self, fetches: &[Fetch]) -> (Vec<(Token, Started)>, Vec<Fetch>) {
        if never_waiting::is_inside() {
            if fetches.iter().any(|fetch| self.ahead.is_started(fetch.at_bytes, true)) {
                let _another_thread_waits_for_it = never_waiting::ask();
            }
            return (Vec::new(), fetches.to_vec());
        }
        let mut taken: Vec<(Token, Started)> = Vec::new();
        let mut left = Vec::new();
        for fetch in fetches {
            if taken.iter().any(|(_, read)| read.holds(fetch.at_bytes)) {
                continue;
            }
            match self.ahead.take_of_store(fetch.at_bytes) {
                Some(found) => taken.push(found),
                None => left.push(*fetch),
            }
        }
        (taken, left)
    }

    /// Waits for a read that was started for the store; `None` if it failed.
    pub(crate) fn land_for_store(&self, token: &Token, started: Started) -> Option<Fetched> {
        let Soon { at_bytes, len_bytes, .. } = started.soon;
        let window = self.land(started).ok()?;
        let bytes = window.part(at_bytes, u64::from(len_bytes))?;
        self.verifier.verify(token, &bytes).is_ok().then_some(bytes)
    }

    /// The bytes of a range from windows, and from reads that become windows, for which it waits; `None` if a part is missing.
    fn held(&self, at_bytes: u64, len_bytes: u64) -> Option<Fetched> {
        let window = self.window_at(at_bytes)?;
        if let Some(part) = window.part(at_bytes, len_bytes) {
            return Some(part);
        }
        let (mut bytes, mut window, end) = (Vec::new(), window, at_bytes + len_bytes);
        loop {
            let at = at_bytes + bytes.len() as u64;
            bytes.extend_from_slice(window.range(at, window.end().min(end) - at)?);
            if bytes.len() as u64 == len_bytes {
                return Some(Fetched::from(&*bytes));
            }
            window = self.window_at(at_bytes + bytes.len() as u64)?;
        }
    }

    fn window_at(&self, at_bytes: u64) -> Option<Window> {
        if let Some(window) = never_waiting::landed_at(at_bytes).or_else(|| self.ahead.window_at(at_bytes)) {
            return Some(window);
        }
        if never_waiting::is_inside() {
            if self.ahead.is_started(at_bytes, false) {
                let _another_thread_waits_for_it = never_waiting::ask();
            }
            return None;
        }
        let window = self.land(self.ahead.take_at(at_bytes)?).ok()?;
        self.ahead.keep_streamed(window.clone());
        Some(window)
    }

    /// Reads exactly that range, aligned outwards to the device's blocks; does not verify it.
    ///
    /// # Errors
    /// `Io`.
    pub fn exact(&self, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        self.alone(at_bytes, len_bytes).map(|bytes| bytes.to_vec())
    }

    fn alone(&self, at_bytes: u64, len_bytes: u64) -> Result<Fetched, FsError> {
        let submitted = self.submit(vec![self.span(at_bytes, len_bytes, Ahead::NONE)])?;
        let (span, window) = self.finish(submitted).pop().ok_or(FsError::NoData)?;
        Ok(span.range(&window?, at_bytes, len_bytes))
    }

    /// Carries out a read plan: blocks that are adjacent on the device become one read, wherever in the file it belongs, and all reads are
    /// under way at once, before those that are only started. Every block is verified. Blocks that lie in the order of the file may be read
    /// into `room`, if it is as long as the read.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn carry_out(&self, plan: &ReadPlan, room: &mut [u8]) -> Result<Scattered, FsError> {
        let run = (plan.len_bytes() <= room.len())
            .then(|| Run::longest(plan, self.unit_bytes))
            .flatten()
            .filter(|run| !self.ahead.has_any_of(&run.device_range()));
        let is_in_run = |at: usize| run.as_ref().is_some_and(|run| run.pieces.contains(&at));
        let others = plan.pieces.iter().enumerate().filter(|(at, _)| !is_in_run(*at));
        let fetches: Vec<Fetch> = others.filter_map(|(_, piece)| stored(piece)).collect();
        let starts_nothing =
            self.is_read_ahead_above.load(Ordering::Relaxed) && plan.len_bytes() >= LARGE_BYTES;
        let soon = if starts_nothing { &[][..] } else { &plan.soon };
        let mut landed = Ok(());
        let mut read_run = |run: &Run| {
            self.read_run(run, room)?;
            run.verify(plan, room, &*self.verifier)
        };
        let meanwhile = || landed = run.as_ref().map_or(Ok(()), &mut read_run);
        let blocks: Result<Vec<_>, _> = self.fetch_before(&fetches, 0, soon, meanwhile).into_iter().collect();
        let mut blocks = blocks?.into_iter();
        match landed {
            Err(FsError::WouldWait) => return Err(FsError::WouldWait),
            // What the device could not read may lie between the blocks.
            Err(_) => return self.carry_out(plan, &mut []),
            Ok(()) => {}
        }
        let mut read = Scattered::default();
        for (at, piece) in plan.pieces.iter().enumerate() {
            match piece {
                Piece::Stored { len_bytes, .. } if is_in_run(at) => read.add_in_place(*len_bytes),
                Piece::Zeros { len_bytes } => read.add_zeros(*len_bytes),
                Piece::Memory { buf, start, len_bytes } => read.add_block(buf, *start..*start + *len_bytes),
                Piece::Stored { start, len_bytes, .. } => {
                    let block = blocks.next().ok_or(FsError::NoData)?;
                    read.add_read(&block, *start, *len_bytes);
                }
            }
        }
        Ok(read)
    }

    /// Reads a run on this thread, while other reads that it has submitted are under way.
    fn read_run(&self, run: &Run, room: &mut [u8]) -> Result<(), FsError> {
        never_waiting::ask()?;
        let device = self.device()?;
        device.start_reads();
        self.about_to_block();
        run.read(device, room)
    }
}

impl Drop for Reader {
    /// Each request is waited for.
    fn drop(&mut self) {
        let Some(device) = &self.device else { return };
        for started in self.ahead.take_all() {
            let _nobody_needs_it = device.wait(started.tag);
        }
    }
}

fn data_of(completion: Completion) -> Result<AlignedBuf, FsError> {
    match completion {
        Ok(Some(data)) => Ok(data),
        Ok(None) => Err(FsError::Io("the device returned no data".to_owned())),
        Err(e) => Err(FsError::Io(e.to_string())),
    }
}

/// The fetch for a piece on the device.
fn stored(piece: &Piece) -> Option<Fetch> {
    let &Piece::Stored { token, at_bytes, stored_bytes, .. } = piece else { return None };
    Some(Fetch { token, at_bytes, len_bytes: stored_bytes, ahead: Ahead::NONE })
}
