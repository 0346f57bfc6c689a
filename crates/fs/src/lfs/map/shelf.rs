//! `Shelf`: blocks in memory, on their way to the device, or to be fetched.
//!
//! Invariant: a clean block in the cache is the current one (code that frees or rewrites a block removes or replaces it,
//! and a fetched block is put in only if its pointer is still the current one). So a cached block may be used without
//! asking its parents for the pointer.

use crate::cache::BlockCache;
use crate::error::{FsError, Outcome, Stop};
use crate::fetch::{Ahead, Fetch};
use crate::lfs::base::geometry::Geometry;
use crate::lfs::map::parcel::Parcel;
use crate::lfs::map::wanted::{Verifier, Wanted};
use crate::lookahead::{Neighbours, Streams};
use crate::store::{BlockKey, Buf, Fork, padded};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SectorAddr, SegmentId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// See the module's head.
pub struct Shelf {
    /// Blocks in memory.
    pub cache: BlockCache,
    /// Arithmetic of the volume.
    pub geo: Geometry,
    /// Checks what is read.
    pub verifier: Arc<Verifier>,
    /// Partial segments not yet written, by their first address.
    in_flight: BTreeMap<SectorAddr, Arc<Parcel>>,
    /// Sequential reads that it has observed.
    pub streams: Streams,
    /// Fetches that failed for good, until the caller that asked for them has seen the error; oldest first.
    failed: VecDeque<(Wanted, FsError)>,
}

/// Failed fetches remembered: more than callers wait for at the same time.
const FAILED_MAX: usize = 64;

impl Shelf {
    /// Empty.
    pub fn new(geo: Geometry) -> Self {
        Self {
            cache: BlockCache::default(),
            verifier: Arc::new(Verifier::new(geo.clone())),
            geo,
            in_flight: BTreeMap::new(),
            streams: Streams::default(),
            failed: VecDeque::new(),
        }
    }

    /// The volume has another number of segments now.
    pub fn resize(&mut self, geo: Geometry) {
        self.verifier.resize(geo.segments);
        self.geo = geo;
    }

    /// Notes a partial segment that is to be written; reads of it are served from memory until [`Self::landed`].
    pub fn launch(&mut self, addr: SectorAddr, parcel: Arc<Parcel>) {
        self.in_flight.insert(addr, parcel);
    }

    /// A partial segment is on the device.
    pub fn landed(&mut self, addr: SectorAddr) {
        self.in_flight.remove(&addr);
    }

    /// True while a part of a segment is not on the device yet: a read there would find the old bytes.
    pub fn is_in_flight(&self, segment: SegmentId) -> bool {
        let (first, behind) = (self.geo.addr(segment, 0), self.geo.addr(SegmentId(segment.0 + 1), 0));
        self.in_flight.range(first..behind).next().is_some()
    }

    /// The stored bytes of a pointer that is still in flight.
    pub fn in_flight_bytes(&self, ptr: &BlockPtr) -> Option<&[u8]> {
        let (start, parcel) = self.in_flight.range(..=ptr.addr).next_back()?;
        let from = (ptr.addr.0 - start.0) as usize * SECTOR_BYTES as usize;
        parcel.bytes(from, ptr.stored_bytes() as usize)
    }

    /// A block whose current pointer is `ptr` (stored, not pending unless dirty in memory).
    ///
    /// # Errors
    /// `Need`; `Corrupt` if the pointer is impossible.
    pub fn block(&mut self, key: BlockKey, ptr: BlockPtr) -> Outcome<Buf> {
        if let Some(block) = self.cache.get(&key) {
            return Ok(block.buf.clone());
        }
        self.geo.check(&ptr, self.geo.block_bytes, || describe(&key))?;
        if let Some(bytes) = self.in_flight_bytes(&ptr) {
            let buf = padded(bytes, self.geo.block_bytes);
            self.cache.insert_clean(key, buf.clone());
            return Ok(buf);
        }
        Err(self.ask(Wanted::Block(key, ptr), &ptr))
    }

    /// The `Stop` for a missing block: a request to the driver, or the error with which the last request ended.
    pub fn ask(&mut self, what: Wanted, ptr: &BlockPtr) -> Stop {
        if let Some(error) = self.take_failure(&what) {
            return Stop::Fail(error);
        }
        let at_bytes = self.geo.device_bytes(ptr.addr);
        let ahead = self.ahead_of(&what, at_bytes, ptr.stored_bytes());
        Stop::Need(vec![Fetch { token: what.token(), at_bytes, len_bytes: ptr.stored_bytes(), ahead }])
    }

    /// What to read beside a piece of metadata, by its kind.
    fn ahead_of(&mut self, what: &Wanted, at_bytes: u64, len_bytes: u32) -> Ahead {
        let neighbours = match what {
            Wanted::Block(key, _) if key.fork == Fork::Index => Neighbours::Around,
            Wanted::Block(key, _) if key.level >= 2 => Neighbours::Before,
            Wanted::Block(..) => Neighbours::Behind,
            // Records lie in the order in which files were made, beside their content or apart from it.
            Wanted::Inode(..) | Wanted::Past(..) | Wanted::Part(..) => {
                return self.streams.note_record(at_bytes, u64::from(len_bytes));
            }
        };
        self.streams.note_metadata(at_bytes, u64::from(len_bytes), neighbours)
    }

    /// Notes that a fetch failed for good.
    pub fn note_failure(&mut self, what: Wanted, error: FsError) {
        if self.failed.len() >= FAILED_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((what, error));
    }

    /// The error with which a fetch ended; returned once.
    pub fn take_failure(&mut self, what: &Wanted) -> Option<FsError> {
        let at = self.failed.iter().position(|(failed, _)| failed == what)?;
        self.failed.remove(at).map(|(_, error)| error)
    }
}

/// "inode 17 block 3", "inode 17 directory index block 0", "inode 17 indirect block -12" for messages.
#[must_use]
pub fn describe(key: &BlockKey) -> String {
    let fork = match key.fork {
        Fork::Data => "",
        Fork::Index => "directory index ",
        Fork::Xattr => "attribute ",
    };
    let whose = match key.ino {
        InodeNo::INODE_MAP => "inode map".to_owned(),
        InodeNo::SEGMENT_USAGE => "segment usage table".to_owned(),
        ino => format!("inode {ino}"),
    };
    if key.level == 0 {
        format!("{whose} {fork}block {}", key.index)
    } else {
        format!("{whose} {fork}level {} block {}", key.level, key.index)
    }
}
