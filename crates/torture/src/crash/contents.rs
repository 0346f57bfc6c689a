//! `Contents`: contents of files that were read and verified, for other views of the same bytes.
//!
//! The views of one state find its files at the same places, and so do those of states that differ in a few sectors. What a read
//! returns follows from its plan (where each piece lies, and the pointer that its bytes must agree with) and from the bytes
//! there. So a read is not carried out again if its plan is that of an earlier read, and the image still has the same pages of
//! memory at all of its places: pages never change, because images copy them on write, and they are kept here, so that no other
//! page can take their address. Every view still finds each file by itself, and plans its read.
//!
//! Memory: at most [`BYTES_MAX`] of contents, and as much again of pages and plans.
//!
//! Callers: `verdict`, which lets a part of the states be read anew in every view; `firn`, which reads.

use firnfs::fetch::Token;
use firnfs::store::{Piece, ReadPlan};
use firnfs_device::{Pages, SparseImage};
use rustc_hash::{FxHashMap, FxHasher};
use std::cell::{Cell, RefCell};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// Contents that are kept, in bytes; beyond that all are dropped.
const BYTES_MAX: usize = 32 << 20;

/// See the module's head.
#[derive(Default)]
pub struct Contents {
    known: RefCell<FxHashMap<u64, Known>>,
    bytes: Cell<usize>,
}

/// The contents that a view may share: those of files on a device that holds this image.
pub struct Shared<'a> {
    /// What was read earlier.
    pub contents: &'a Contents,
    /// The image that the device holds at the time of the call.
    pub image: &'a dyn Fn() -> SparseImage,
}

/// A plan whose pieces all lie on the device, or are zeros.
#[derive(PartialEq, Eq)]
pub struct Plan {
    pieces: Vec<Place>,
    hash: u64,
}

#[derive(PartialEq, Eq, Hash)]
enum Place {
    Zeros { len_bytes: usize },
    Stored { token: Token, at_bytes: u64, stored_bytes: u32, start: usize, len_bytes: usize },
}

struct Known {
    plan: Plan,
    /// The pages at the places of the plan, as they were when they were read.
    pages: Vec<Pages>,
    content: Arc<Vec<u8>>,
}

impl Plan {
    /// `None` if some of the bytes are not on the device.
    #[must_use]
    pub fn of(plan: &ReadPlan) -> Option<Self> {
        let mut hasher = FxHasher::default();
        let place = |piece: &Piece| {
            let place = match *piece {
                Piece::Memory { .. } => return None,
                Piece::Zeros { len_bytes } => Place::Zeros { len_bytes },
                Piece::Stored { token, at_bytes, stored_bytes, start, len_bytes } => {
                    Place::Stored { token, at_bytes, stored_bytes, start, len_bytes }
                }
            };
            place.hash(&mut hasher);
            Some(place)
        };
        let pieces = plan.pieces.iter().map(place).collect::<Option<_>>()?;
        Some(Self { pieces, hash: hasher.finish() })
    }

    /// The ranges that it reads from the device: first byte and length.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pieces.iter().filter_map(|place| match place {
            Place::Zeros { .. } => None,
            Place::Stored { at_bytes, stored_bytes, .. } => Some((*at_bytes, u64::from(*stored_bytes))),
        })
    }
}

impl Shared<'_> {
    /// The content that a read by this plan would return, if it is known.
    #[must_use]
    pub fn find(&self, plan: &Plan) -> Option<Arc<Vec<u8>>> {
        let known = self.contents.known.borrow();
        let known = known.get(&plan.hash).filter(|known| known.plan == *plan)?;
        let image = (self.image)();
        let is_same = known.pages.iter().all(|pages| image.has(pages));
        is_same.then(|| known.content.clone())
    }

    /// Notes the content that a read by this plan has returned.
    pub fn note(&self, plan: Plan, content: Arc<Vec<u8>>) {
        let Contents { known, bytes } = self.contents;
        bytes.set(bytes.get() + content.len());
        if bytes.get() > BYTES_MAX {
            known.borrow_mut().clear();
            bytes.set(content.len());
        }
        let image = (self.image)();
        let pages = plan.ranges().map(|(at_bytes, len_bytes)| image.pages_at(at_bytes, len_bytes)).collect();
        let replaced = known.borrow_mut().insert(plan.hash, Known { plan, pages, content });
        bytes.set(bytes.get() - replaced.map_or(0, |known| known.content.len()));
    }
}
