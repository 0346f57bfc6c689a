//! `FaultyDisk`: a disk that fails in the ways in which disks fail: errors, latent bad sectors, lost, misdirected and
//! short writes, flipped bits, and complete failure.
//!
//! Faults can be armed at any time, each with its requests ([`On`], a byte range), its time ([`Trigger`]) and its effect
//! ([`Effect`]). The first armed fault that is due decides a request; [`FaultyDisk::injected`] records it, so that a test
//! can tell "survived the fault" from "the fault never happened". Everything runs on the caller's thread; requests are
//! carried out in `submit`, or in a seeded order ([`FaultyDisk::shuffled`]).

use crate::random::seeded;
use firnfs_device::{
    AlignedBuf, Clock, Completion, Device, DeviceError, FailureKind, Geometry, Outbox, Request, Tag,
};
use parking_lot::Mutex;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

const SECTOR_BYTES: u64 = 512;

/// Requests that a fault applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes, which have no place.
    Flush,
    /// Discards.
    Discard,
    /// All of them.
    Any,
}

/// When a fault is due, counted over the requests that it applies to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Trigger {
    /// Every time.
    Always,
    /// Once, after that many.
    Once {
        /// Requests that it ignores first.
        after: u64,
    },
    /// Every time after that many.
    From {
        /// Requests that it ignores first.
        after: u64,
    },
    /// Every time from that moment of the disk's clock on.
    FromTime {
        /// Nanoseconds, as [`Clock::now_ns`] counts them.
        now_ns: i64,
    },
    /// Each time with this probability, 0 to 1.
    Chance(f64),
}

/// What a fault does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The request fails with an I/O error and does nothing.
    Fail,
    /// A write stops short: its first bytes land (rounded down to sectors), then it fails.
    Short {
        /// Bytes that land.
        bytes: u64,
    },
    /// A write is reported done but never happens. The same for a flush or discard; reads are not affected.
    Lost,
    /// A write lands elsewhere and is reported done; a read returns bytes from elsewhere. Wraps around within the disk.
    Misdirected {
        /// Distance in bytes (rounded down to sectors).
        by_bytes: i64,
    },
    /// One bit of the data, drawn by seed, is flipped on its way.
    FlipBit,
    /// A write is done, but its sectors cannot be read until they are written again.
    Spoil,
    /// The disk is gone: this request and every one after it fails, until [`FaultyDisk::clear`].
    Vanish,
}

/// A fault.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// Kind of requests.
    pub on: On,
    /// Range of the requests, in bytes; ignored for flushes.
    pub place: Range<u64>,
    /// When it is due.
    pub trigger: Trigger,
    /// Its effect.
    pub effect: Effect,
}

impl Fault {
    /// A fault anywhere on the disk.
    #[must_use]
    pub fn anywhere(on: On, trigger: Trigger, effect: Effect) -> Self {
        Self { on, place: 0..u64::MAX, trigger, effect }
    }

    fn applies_to(&self, request: &Request) -> bool {
        let kind = match request {
            Request::Read { .. } => On::Read,
            Request::Write { .. } => On::Write,
            Request::Flush => On::Flush,
            Request::Discard { .. } => On::Discard,
        };
        let (start, end) = (request.at_bytes(), request.at_bytes() + request.len_bytes());
        let touches = kind == On::Flush || (start < self.place.end && self.place.start < end);
        (self.on == On::Any || self.on == kind) && touches
    }
}

/// A fault that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injected {
    /// "read", "write", "flush" or "discard".
    pub action: &'static str,
    /// Offset of the request in bytes.
    pub at_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// The effect.
    pub effect: Effect,
}

/// See the module's head.
pub struct FaultyDisk<D> {
    inner: D,
    clock: Option<Arc<dyn Clock>>,
    outbox: Outbox,
    shuffles: bool,
    state: Mutex<State>,
}

struct State {
    rng: Pcg64,
    /// Armed faults, each with the number of requests that it has seen.
    armed: Vec<(Fault, u64)>,
    bad_sectors: BTreeSet<u64>,
    vanished: bool,
    injected: Vec<Injected>,
    /// Requests submitted and not yet carried out, if the order is shuffled; they have tags of their own.
    pending: BTreeMap<u64, Request>,
    carried_out: BTreeMap<u64, Completion>,
    next_pending: u64,
}

impl<D: Device> FaultyDisk<D> {
    /// A disk without faults; `seed` decides chances and bits.
    pub fn new(inner: D, seed: u64) -> Self {
        let state = State {
            rng: seeded(seed, "faulty disk"),
            armed: Vec::new(),
            bad_sectors: BTreeSet::new(),
            vanished: false,
            injected: Vec::new(),
            pending: BTreeMap::new(),
            carried_out: BTreeMap::new(),
            next_pending: 0,
        };
        Self { inner, clock: None, outbox: Outbox::default(), shuffles: false, state: Mutex::new(state) }
    }

    /// Carries requests out in an order drawn by the seed, when they are waited for, as a disk with a queue may.
    #[must_use]
    pub fn shuffled(mut self) -> Self {
        self.shuffles = true;
        self
    }

    /// Adds a clock, for [`Trigger::FromTime`].
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Adds a fault. Its count begins now.
    pub fn arm(&self, fault: Fault) {
        self.state.lock().armed.push((fault, 0));
    }

    /// Makes the sectors of a byte range unreadable until they are written.
    pub fn spoil(&self, place: Range<u64>) {
        let sectors = place.start / SECTOR_BYTES..place.end.div_ceil(SECTOR_BYTES);
        self.state.lock().bad_sectors.extend(sectors);
    }

    /// Repairs the disk: no fault is armed, nothing is unreadable. Lost data stays lost.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.armed.clear();
        state.bad_sectors.clear();
        state.vanished = false;
    }

    /// The faults that have happened so far, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.state.lock().injected.clone()
    }

    /// The disk underneath, which does not fail.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn carry_out(&self, state: &mut State, request: Request) -> Completion {
        self.inner.geometry().check(&request, &self.inner.describe())?;
        let now_ns = self.clock.as_ref().map(|clock| clock.now_ns());
        let effect = if state.vanished { Some(Effect::Vanish) } else { state.due(&request, now_ns) };
        if let Some(effect) = effect {
            state.injected.push(Injected {
                action: request.action(),
                at_bytes: request.at_bytes(),
                len_bytes: request.len_bytes(),
                effect,
            });
        }
        match effect {
            None => self.pass(state, request),
            Some(Effect::Fail) => Err(self.io_error(&request, "input/output error (injected)")),
            Some(Effect::Vanish) => {
                state.vanished = true;
                Err(self.io_error(&request, "no such device (injected)"))
            }
            Some(Effect::Short { bytes }) => self.short(state, request, bytes),
            Some(Effect::Lost) if matches!(request, Request::Read { .. }) => self.pass(state, request),
            Some(Effect::Lost) => Ok(None),
            Some(Effect::Misdirected { by_bytes }) => {
                let elsewhere = self.misdirect(request, by_bytes);
                self.pass(state, elsewhere)
            }
            Some(Effect::FlipBit) => self.flip(state, request),
            Some(Effect::Spoil) => {
                let range = request.at_bytes()..request.at_bytes() + request.len_bytes();
                let completion = self.pass(state, request)?;
                state.bad_sectors.extend(range.start / SECTOR_BYTES..range.end / SECTOR_BYTES);
                Ok(completion)
            }
        }
    }

    /// Carries a request out unchanged; bad sectors fail reads, and writes heal them.
    fn pass(&self, state: &mut State, request: Request) -> Completion {
        let sectors =
            request.at_bytes() / SECTOR_BYTES..(request.at_bytes() + request.len_bytes()) / SECTOR_BYTES;
        match &request {
            Request::Read { .. } => {
                if let Some(bad) = state.bad_sectors.range(sectors).next() {
                    let reason = format!("unreadable sector at byte {} (injected)", bad * SECTOR_BYTES);
                    return Err(self.io_error(&request, &reason));
                }
            }
            Request::Write { .. } => state.bad_sectors.retain(|sector| !sectors.contains(sector)),
            Request::Flush | Request::Discard { .. } => {}
        }
        let tag = self.inner.submit(request);
        self.inner.wait(tag)
    }

    fn short(&self, state: &mut State, request: Request, bytes: u64) -> Completion {
        let error = self.io_error(&request, &format!("only {bytes} bytes were transferred (injected)"));
        if let Request::Write { at_bytes, data } = request {
            let unit = u64::from(self.inner.geometry().logical_block_bytes);
            let len = (bytes / unit * unit).min(data.len_bytes() as u64) as usize;
            if len > 0 {
                let data = Arc::new(AlignedBuf::copy_of(&data.whole()[..len]));
                self.pass(state, Request::Write { at_bytes, data: data.into() })?;
            }
        }
        Err(error)
    }

    fn misdirect(&self, request: Request, by_bytes: i64) -> Request {
        let geometry = self.inner.geometry();
        let unit = u64::from(geometry.logical_block_bytes);
        let moved = |at_bytes: u64, len_bytes: u64| {
            let room = geometry.size_bytes - len_bytes + unit;
            let by = i128::from(by_bytes) / i128::from(unit) * i128::from(unit);
            (i128::from(at_bytes) + by).rem_euclid(i128::from(room)) as u64 / unit * unit
        };
        match request {
            Request::Read { at_bytes, len_bytes } => {
                Request::Read { at_bytes: moved(at_bytes, u64::from(len_bytes)), len_bytes }
            }
            Request::Write { at_bytes, data } => {
                Request::Write { at_bytes: moved(at_bytes, data.len_bytes() as u64), data }
            }
            Request::Discard { at_bytes, len_bytes } => {
                Request::Discard { at_bytes: moved(at_bytes, len_bytes), len_bytes }
            }
            Request::Flush => Request::Flush,
        }
    }

    fn flip(&self, state: &mut State, request: Request) -> Completion {
        match request {
            Request::Write { at_bytes, data } => {
                let mut data = AlignedBuf::copy_of(&data.whole());
                flip_bit(&mut state.rng, &mut data);
                self.pass(state, Request::Write { at_bytes, data: data.into() })
            }
            other => {
                let mut data = self.pass(state, other)?;
                if let Some(data) = &mut data {
                    flip_bit(&mut state.rng, data);
                }
                Ok(data)
            }
        }
    }

    fn io_error(&self, request: &Request, reason: &str) -> DeviceError {
        DeviceError::of(request, FailureKind::Io, self.inner.describe(), reason)
    }
}

fn flip_bit(rng: &mut Pcg64, bytes: &mut [u8]) {
    let bit = rng.random_range(0..bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

impl State {
    /// The effect of the first fault that is due. Every fault that applies counts the request.
    fn due(&mut self, request: &Request, now_ns: Option<i64>) -> Option<Effect> {
        let Self { rng, armed, .. } = self;
        let mut effect = None;
        for (fault, seen) in armed.iter_mut().filter(|(fault, _)| fault.applies_to(request)) {
            let is_due = match fault.trigger {
                Trigger::Always => true,
                Trigger::Once { after } => *seen == after,
                Trigger::From { after } => *seen >= after,
                Trigger::FromTime { now_ns: from } => now_ns.is_some_and(|now| now >= from),
                Trigger::Chance(probability) => rng.random_bool(probability),
            };
            *seen += 1;
            if is_due && effect.is_none() {
                effect = Some(fault.effect);
            }
        }
        effect
    }
}

impl<D: Device> Device for FaultyDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let mut state = self.state.lock();
        if !self.shuffles {
            let completion = self.carry_out(&mut state, request);
            return self.outbox.put(completion);
        }
        let tag = state.next_pending;
        state.next_pending += 1;
        state.pending.insert(tag, request);
        Tag(tag)
    }
    fn wait(&self, tag: Tag) -> Completion {
        if !self.shuffles {
            return self.outbox.take(tag);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(completion) = state.carried_out.remove(&tag.0) {
                return completion;
            }
            let count = state.pending.len();
            assert!(count > 0, "each tag is waited for exactly once");
            let pick = state.rng.random_range(0..count);
            let key = *state.pending.keys().nth(pick).expect("one of those pending");
            let request = state.pending.remove(&key).expect("one of those pending");
            let completion = self.carry_out(&mut state, request);
            state.carried_out.insert(key, completion);
        }
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
}
