//! Runs steps of the store to their end while there is no driver: reads together the blocks that they miss.
//!
//! Callers: opening, mkfs, and the file system check.

use crate::device_reader::{DeviceReader, Extent};
use crate::engine::Engine;
use crate::error::{FsError, Outcome, Stop};
use crate::fetch::{Fetch, Fetched, Token};
use crate::lfs::Lfs;
use crate::lfs::map::wanted::Wanted;
use rustc_hash::FxHashMap;

/// Bytes, and fetches, that are read together for steps: this memory does not count for the cache's bound.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_FETCHES: usize = 256;

impl Lfs {
    /// Runs a step to its end, reading what it needs.
    pub(crate) fn drive<T>(
        &mut self,
        read: &mut dyn DeviceReader,
        mut step: impl FnMut(&mut Self) -> Outcome<T>,
    ) -> Result<T, FsError> {
        loop {
            match step(self) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Room) => return Err(FsError::NoSpace),
                Err(Stop::Need(needs)) => self.fetch(read, &needs).into_iter().collect::<Result<(), _>>()?,
            }
        }
    }

    /// Runs a step to its end, reading what it needs. A read that fails is not the end: the step gets the error for that block,
    /// as in a mounted volume.
    pub(crate) fn drive_whatever_fails<T>(
        &mut self,
        read: &mut dyn DeviceReader,
        mut step: impl FnMut(&mut Self) -> Outcome<T>,
    ) -> Result<T, FsError> {
        loop {
            match step(self) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Room) => return Err(FsError::NoSpace),
                Err(Stop::Need(needs)) => {
                    for (fetch, answer) in needs.iter().zip(self.fetch(read, &needs)) {
                        if let Err(why) = answer {
                            self.shelf.note_failure(Wanted::of(&fetch.token), why);
                        }
                    }
                }
            }
        }
    }

    /// Runs a step for each item to its end, and reads together the blocks that all of them need. Each answer is the
    /// same as that of [`Self::drive`] for that item alone. All answers are in memory together: the caller bounds
    /// their number.
    pub(crate) fn drive_all<I, T>(
        &mut self,
        read: &mut dyn DeviceReader,
        items: &[I],
        mut step: impl FnMut(&mut Self, &I) -> Outcome<T>,
    ) -> Vec<Result<T, FsError>> {
        let mut answers: Vec<Option<Result<T, FsError>>> = items.iter().map(|_| None).collect();
        loop {
            let mut needs: Vec<Fetch> = Vec::new();
            let mut known: FxHashMap<Token, usize> = FxHashMap::default();
            // Which item needs which fetch.
            let mut wants: Vec<(usize, usize)> = Vec::new();
            let open = items.iter().zip(&mut answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
            for (at, (item, answer)) in open {
                match step(self, item) {
                    Ok(value) => *answer = Some(Ok(value)),
                    Err(Stop::Fail(e)) => *answer = Some(Err(e)),
                    Err(Stop::Room) => *answer = Some(Err(FsError::NoSpace)),
                    Err(Stop::Need(more)) => wants.extend(more.into_iter().map(|fetch| {
                        let need = *known.entry(fetch.token).or_insert_with(|| {
                            needs.push(fetch);
                            needs.len() - 1
                        });
                        (at, need)
                    })),
                }
            }
            if needs.is_empty() {
                let never = || Err(FsError::Io("a step had no end".to_owned()));
                return answers.into_iter().map(|answer| answer.unwrap_or_else(never)).collect();
            }
            let fetched = self.fetch(read, &needs);
            for (at, need) in wants {
                if let Err(why) = &fetched[need] {
                    answers[at].get_or_insert(Err(why.clone()));
                }
            }
        }
    }

    /// Reads blocks and puts them into memory; one answer for each. An error is one of the device: a step that needs a
    /// damaged block gets the error when it is tried again.
    fn fetch(&mut self, read: &mut dyn DeviceReader, needs: &[Fetch]) -> Vec<Result<(), FsError>> {
        let mut answers = Vec::with_capacity(needs.len());
        let mut rest = needs;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_len(rest));
            rest = later;
            let places: Vec<Extent> = batch.iter().map(|f| Extent::new(f.at_bytes, f.len_bytes)).collect();
            for (fetch, bytes) in batch.iter().zip(read.read_scattered(&places)) {
                answers.push(bytes.map(|bytes| {
                    let wanted = Wanted::of(&fetch.token);
                    let supplied = wanted.verify(&self.geo, &bytes);
                    if let Err(why) =
                        supplied.and_then(|()| self.supply(&fetch.token, &Fetched::from(&*bytes)))
                    {
                        self.shelf.note_failure(wanted, why);
                    }
                }));
            }
        }
        answers
    }
}

/// How many of these fetches are read together; at least one.
fn batch_len(fetches: &[Fetch]) -> usize {
    let mut bytes = 0;
    let fits = |fetch: &&Fetch| {
        bytes += u64::from(fetch.len_bytes);
        bytes <= BATCH_BYTES
    };
    fetches.iter().take(BATCH_FETCHES).take_while(fits).count().max(1)
}
