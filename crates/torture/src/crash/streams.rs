//! Streams of retained points: the same two points give the same bytes, whatever the cleaner moves, wherever the power is cut.
//!
//! The run sends each retained point from the one before it, the oldest from nothing, as soon as both are there, and notes hashes of the
//! stream. So each new point brings a stream, and each drop one across the gap. As long as both points are there, the stream is the same:
//!
//! 1. after each remount of the run, and at its end, when the cleaner and the users have worked on;
//! 2. in some of the states that a cut leaves, sent from the recovered volume ([`Streams::judge`]);
//! 3. in every other of those, the rest of a stream that was cut in the run, continued from the recovered volume after its cleaner has
//!    moved more.
//!
//! At the end of a run a replica receives all points, one stream after another, and shows them as the model has them. By rule 2 it would
//! receive the same from a recovered volume.

use super::op::Op;
use super::subject::{Mounted, Refusal, Subject};
use super::tree::Tree;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;
use std::hash::Hasher as _;
use std::sync::Arc;

/// A stream is compared in parts of this many bytes. Frames begin and end anywhere in them.
const PART_BYTES: usize = 512;
/// Steps of the cleaner before a stream is continued.
const CLEAN_STEPS: u32 = 6;

/// The point that the receiver has, `None` if it has nothing, and the point that it gets.
type Pair = (Option<String>, String);

/// The streams of a run.
#[derive(Clone, Default)]
pub(super) struct Streams {
    known: BTreeMap<Pair, Stream>,
}

/// A stream, by hashes of its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stream {
    len_bytes: usize,
    parts: Vec<u64>,
}

impl Streams {
    /// Sends what no stream is known of.
    ///
    /// # Errors
    /// It could not be sent, as text.
    pub fn note(&mut self, mounted: &mut (dyn Mounted + '_)) -> Result<(), String> {
        for pair in neighbours(mounted.points_by_age()?) {
            if let Vacant(place) = self.known.entry(pair) {
                let bytes = send(mounted, place.key(), 0)?;
                place.insert(Stream::of(&bytes));
            }
        }
        Ok(())
    }

    /// Sends all streams again whose points are there; returns how many.
    ///
    /// # Errors
    /// One that differs, or could not be sent, as text.
    pub fn send_again(&self, mounted: &mut (dyn Mounted + '_)) -> Result<u64, String> {
        self.compare(mounted, |_| 0)
    }

    /// Judges a volume that was recovered, by rule 2, and by rule 3 if the streams are `cut`; returns how many streams were the same. The
    /// latter changes the volume.
    ///
    /// # Errors
    /// One that differs, or could not be sent, as text.
    pub fn judge(&self, mounted: &mut (dyn Mounted + '_), cut: bool) -> Result<u64, String> {
        if self.known.is_empty() {
            return Ok(0);
        }
        let whole = self.send_again(mounted)?;
        if !cut || whole == 0 {
            return Ok(whole);
        }
        for _ in 0..CLEAN_STEPS {
            if let Err(Refusal::Broken(why)) = mounted.apply(&Op::CleanStep) {
                return Err(format!("cleaning: {why}"));
            }
        }
        Ok(whole + self.compare(mounted, Stream::cut)?)
    }

    /// Compares the streams whose points are there, each from the part on that `from` says.
    fn compare(
        &self,
        mounted: &mut (dyn Mounted + '_),
        from: impl Fn(&Stream) -> usize,
    ) -> Result<u64, String> {
        let names = mounted.points_by_age()?;
        let is_there = |((older, newer), _): &(&Pair, &Stream)| {
            older.as_ref().is_none_or(|older| names.contains(older)) && names.contains(newer)
        };
        let mut compared = 0;
        for (pair, stream) in self.known.iter().filter(is_there) {
            let part = from(stream);
            let bytes = send(mounted, pair, part * PART_BYTES)?;
            stream.ends_with(part, &bytes).map_err(|why| format!("{}: {why}", named(pair)))?;
            compared += 1;
        }
        Ok(compared)
    }
}

/// Has a replica receive all points, and compares it with the model.
///
/// # Errors
/// What could not be sent or received, or what the replica shows instead, as text.
pub(super) fn replicate(
    subject: &dyn Subject,
    mounted: &mut (dyn Mounted + '_),
    points: &BTreeMap<String, Arc<Tree>>,
) -> Result<(), String> {
    let mut streams = Vec::new();
    for pair in neighbours(mounted.points_by_age()?) {
        let bytes = send(mounted, &pair, 0)?;
        streams.push((pair.1, bytes));
    }
    let Some((newest, _)) = streams.last() else { return Ok(()) };
    let Some(replica) = subject.receive(&streams).map_err(|why| format!("receiving: {why}"))? else {
        return Ok(());
    };
    let shows = |name: &String, found: &Tree| match points.get(name) {
        None => Err(format!("point {name:?} of the replica is none of the model")),
        Some(known) => known.same_files(found).map_err(|why| format!("point {name:?} of the replica: {why}")),
    };
    shows(newest, &replica)?;
    replica.points().iter().try_for_each(|(name, tree)| shows(name, tree))?;
    match streams.len() == replica.points().len() {
        true => Ok(()),
        false => Err(format!("the replica has {} points of {}", replica.points().len(), streams.len())),
    }
}

/// Each point with the one before it.
fn neighbours(names: Vec<String>) -> Vec<Pair> {
    let older = std::iter::once(None).chain(names.iter().cloned().map(Some));
    older.zip(names.iter().cloned()).collect()
}

fn send(mounted: &mut (dyn Mounted + '_), pair: &Pair, skip_bytes: usize) -> Result<Vec<u8>, String> {
    mounted
        .send(pair.0.as_deref(), &pair.1, skip_bytes as u64)
        .map_err(|why| format!("{}: {why}", named(pair)))
}

fn named((older, newer): &Pair) -> String {
    match older {
        Some(older) => format!("the stream from {older:?} to {newer:?}"),
        None => format!("the stream of all of {newer:?}"),
    }
}

impl Stream {
    fn of(bytes: &[u8]) -> Self {
        Self { len_bytes: bytes.len(), parts: bytes.chunks(PART_BYTES).map(hash).collect() }
    }

    /// The part at which this stream is cut: anywhere, but always the same one.
    fn cut(&self) -> usize {
        let mixed = self.parts.iter().fold(0, |mixed, part| mixed ^ part);
        (mixed % self.parts.len().max(1) as u64) as usize
    }

    /// Requires that the stream ends with these bytes, from that part on.
    fn ends_with(&self, part: usize, bytes: &[u8]) -> Result<(), String> {
        let skipped_bytes = part * PART_BYTES;
        let found = Self::of(bytes);
        let differs = self.parts[part.min(self.parts.len())..].iter().zip(&found.parts);
        if let Some(at) = differs.clone().position(|(known, found)| known != found) {
            let at_bytes = skipped_bytes + at * PART_BYTES;
            let len_bytes = skipped_bytes + found.len_bytes;
            return Err(format!(
                "other bytes from byte {at_bytes} on ({len_bytes} instead of {} in all), sent from byte {skipped_bytes} on",
                self.len_bytes
            ));
        }
        match self.len_bytes.saturating_sub(skipped_bytes) == found.len_bytes {
            true => Ok(()),
            false => Err(format!(
                "{} bytes from byte {skipped_bytes} on, {} in all before",
                found.len_bytes, self.len_bytes
            )),
        }
    }
}

fn hash(part: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(part);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_only_if_every_byte_is() {
        for len in [1, PART_BYTES - 1, PART_BYTES, 5 * PART_BYTES + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let stream = Stream::of(&bytes);
            for part in 0..=len / PART_BYTES {
                let rest = &bytes[part * PART_BYTES..];
                stream.ends_with(part, rest).unwrap();
                stream.ends_with(part, &[rest, &[0]].concat()).unwrap_err();
                for at in 0..rest.len() {
                    let mut other = rest.to_vec();
                    other[at] ^= 1;
                    stream.ends_with(part, &other).unwrap_err();
                }
                if let Some((_, shorter)) = rest.split_last() {
                    stream.ends_with(part, shorter).unwrap_err();
                }
            }
            assert!(stream.cut() < stream.parts.len());
        }
    }
}
