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
use crate::never_waiting;
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
        self.fetch_before(fetches, GAP_BYTES, &[])
    }

    /// The same: fetches at most `gap_bytes` from each other become one read, and reads that nobody waits for are started behind all
    /// of those.
    fn fetch_before(
        &self,
        fetches: &[Fetch],
        gap_bytes: u64,
        soon: &[Soon],
    ) -> Vec<Result<Fetched, FsError>> {
        let is_held = self.ahead.which_are_held(fetches);
        let (held, mut missing): (Vec<usize>, Vec<usize>) = (0..fetches.len())
            .partition(|&at| is_held[at] && self.verifier.notices_stale(&fetches[at].token));
        missing.sort_by_key(|&at| fetches[at].at_bytes);
        let (spans, span_of) = self.merge(fetches, &missing, gap_bytes);
        let submitted = self.submit(spans);
        // If the reads would make this thread wait, another one carries the operation out again. The store names what is ahead of a
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
                _ if ahead.before_bytes == 0 && self.verifier.notices_stale(token) => {
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
        if never_waiting::ask().is_err() && !self.ahead.has_room(soon) {
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
        if never_waiting::ask().is_err() {
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
        if let Some(window) = self.ahead.window_at(at_bytes) {
            return Some(window);
        }
        never_waiting::ask().ok()?;
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
    /// under way at once, before those that are only started. Every block is verified.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn carry_out(&self, plan: &ReadPlan) -> Result<Scattered, FsError> {
        let fetches: Vec<Fetch> = plan.pieces.iter().filter_map(stored).collect();
        let starts_nothing =
            self.is_read_ahead_above.load(Ordering::Relaxed) && plan.len_bytes() >= LARGE_BYTES;
        let soon = if starts_nothing { &[][..] } else { &plan.soon };
        let mut blocks = self.fetch_before(&fetches, 0, soon).into_iter();
        let mut read = Scattered::default();
        for piece in &plan.pieces {
            match piece {
                Piece::Zeros { len_bytes } => read.add_zeros(*len_bytes),
                Piece::Memory { buf, start, len_bytes } => read.add_block(buf, *start..*start + *len_bytes),
                Piece::Stored { start, len_bytes, .. } => {
                    let block = blocks.next().ok_or(FsError::NoData)??;
                    read.add_read(&block, *start, *len_bytes);
                }
            }
        }
        Ok(read)
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

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs::engine::Unverified;
    use firnfs_device::{CountingDevice, MemDevice};

    #[test]
    fn fetches_that_lie_together_share_the_buffer_into_which_they_were_read() {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(1 << 20));
        let reader = Reader::new(Some(device), Arc::new(Unverified), Arc::default());
        let fetch =
            |at_bytes| Fetch { token: Token::of([0; 5]), at_bytes, len_bytes: 4096, ahead: Ahead::NONE };
        let answers = reader.fetch_all(&[fetch(8192), fetch(4096), fetch(65536)]);
        let [second, first, other] = &answers[..] else { panic!("{answers:?}") };
        let (second, first) = (second.as_ref().unwrap(), first.as_ref().unwrap());
        assert_eq!(first.as_ptr_range().end, second.as_ptr(), "no copies");
        assert!(!first.is_all() && other.as_ref().unwrap().is_all());
    }

    #[test]
    fn blocks_of_a_read_that_are_adjacent_on_the_device_are_one_read_in_whatever_order_they_are_in_the_file()
    {
        const BLOCK: u64 = 4096;
        let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
        let content = |block: u64| vec![block as u8; BLOCK as usize];
        (0..256).for_each(|block| {
            device.write(block * BLOCK, Arc::new(AlignedBuf::copy_of(&content(block)))).unwrap();
        });
        let shared: Arc<dyn Device> = device.clone();
        let reader = Reader::new(Some(shared), Arc::new(Unverified), Arc::default());
        // Two batches of overwrites, each in the order of the file, have every other block.
        let places: Vec<u64> = (0..16).flat_map(|n| [100 + n, 20 + n]).collect();
        let stored = |block: &u64| Piece::Stored {
            token: Token::of([0; 5]),
            at_bytes: block * BLOCK,
            stored_bytes: BLOCK as u32,
            start: 0,
            len_bytes: BLOCK as usize,
        };
        let plan = ReadPlan { pieces: places.iter().map(stored).collect(), ..ReadPlan::default() };
        let before = device.counts();
        let read = reader.carry_out(&plan).unwrap();
        let counts = device.counts().since(&before);
        assert_eq!((counts.reads, counts.read_bytes), (2, 32 * BLOCK));
        let mut out = vec![0; read.len_bytes()];
        read.copy_to(&mut out);
        assert!(out == places.iter().flat_map(|&block| content(block)).collect::<Vec<u8>>());
    }

    /// Bytes are right if each is the first word of the token.
    struct FirstWord;

    impl Verify for FirstWord {
        fn verify(&self, token: &Token, bytes: &[u8]) -> Result<(), FsError> {
            match bytes.iter().all(|&byte| u64::from(byte) == token.words()[0]) {
                true => Ok(()),
                false => Err(FsError::Io("other bytes".to_owned())),
            }
        }
        fn notices_stale(&self, _token: &Token) -> bool {
            true
        }
    }

    #[test]
    fn what_is_ahead_of_a_stream_is_started_even_if_the_read_is_left_to_another_thread() {
        let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
        let shared: Arc<dyn Device> = device.clone();
        let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
        let stored = |at_bytes| Piece::Stored {
            token: Token::of([0; 5]),
            at_bytes,
            stored_bytes: 4096,
            start: 0,
            len_bytes: 4096,
        };
        let soon = vec![Soon { at_bytes: 4096, len_bytes: 64 << 10, token: None }];
        let first = ReadPlan { pieces: vec![stored(0)], soon, ..ReadPlan::default() };
        let refused = crate::never_waiting(|| reader.carry_out(&first)).err();
        assert_eq!(refused, Some(FsError::WouldWait));
        // The store, asked again, names it no more.
        let again = ReadPlan { pieces: vec![stored(0)], ..ReadPlan::default() };
        reader.carry_out(&again).unwrap();
        for n in 1..=16 {
            reader.carry_out(&ReadPlan { pieces: vec![stored(n * 4096)], ..ReadPlan::default() }).unwrap();
        }
        assert_eq!(device.counts().reads, 2, "the read and what is ahead of it");
    }

    #[test]
    fn blocks_that_windows_have_in_an_older_version_are_read_again_and_the_others_come_from_there() {
        const BLOCK: u64 = 4096;
        let device = Arc::new(CountingDevice::new(MemDevice::new(1 << 20)));
        let write = |block: u64, byte: u8| {
            let bytes = AlignedBuf::copy_of(&vec![byte; BLOCK as usize]);
            device.write(block * BLOCK, Arc::new(bytes)).unwrap();
        };
        (0..16).for_each(|block| write(block, 1));
        let shared: Arc<dyn Device> = device.clone();
        let reader = Reader::new(Some(shared), Arc::new(FirstWord), Arc::default());
        let fetch = |block: u64, word: u64| Fetch {
            token: Token::of([word, 0, 0, 0, 0]),
            at_bytes: block * BLOCK,
            len_bytes: BLOCK as u32,
            ahead: Ahead { before_bytes: 0, behind_bytes: 7 * BLOCK as u32 },
        };
        assert!(reader.fetch_all(&[fetch(0, 1)])[0].is_ok());
        [2, 5].into_iter().for_each(|block| write(block, 2));
        let before = device.counts();
        let word = |block: u64| if [2, 5].contains(&block) { 2 } else { 1 };
        let answers = reader.fetch_all(&(0..8).map(|block| fetch(block, word(block))).collect::<Vec<_>>());
        assert!((0..).zip(answers).all(|(block, answer)| u64::from(answer.unwrap()[0]) == word(block)));
        let counts = device.counts().since(&before);
        assert_eq!((counts.reads, counts.read_bytes), (2, 2 * BLOCK));
        // What the device itself has wrong is an error.
        assert!(reader.fetch_all(&[fetch(3, 9)])[0].is_err());
    }
}
