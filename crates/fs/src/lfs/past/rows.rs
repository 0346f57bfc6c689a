//! Reads and writes the file of points: see [`crate::lfs::tables::point_rows`].
//!
//! A block of the file is an array of rows, each a point in the form of a checkpoint slot. A checkpoint writes the rows that have
//! changed before it commits. The rows are read in the background after a mount; whoever needs them earlier reads them: a
//! checkpoint, the cleaner when it meets dead blocks, dropping, and all that lists or reads the past. Opening a volume reads them
//! only if the slot cannot tell what roll-forward has to know ([`Points::needs_rows`]).
//!
//! Invariant: between two checkpoints the file does not change; so until all rows are read no checkpoint is written.
//!
//! [`Points::needs_rows`]: crate::lfs::tables::points::Points::needs_rows

use crate::device_reader::DeviceReader;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::lfs::Lfs;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::map::admit::INODE_NUMBERS;
use crate::lfs::tables::point_rows::Unread;
use crate::lfs::tables::table::Table;
use crate::store::{BlockKey, Buf, Fork};
use firnfs_format::checkpoint::{BRANCH_BITS, MAX_POINTS, POINT_BYTES, Point};
use firnfs_format::{BlockIndex, DecodeError, Epoch, InodeNo, TimeNs};
use rustc_hash::FxHashSet;

/// Bytes of the file that are read together.
const READ_AT_ONCE_BYTES: u64 = 1 << 20;

/// The height that the tree of an inode map can have.
pub(in crate::lfs) fn map_height_max(geo: &Geometry) -> u32 {
    Table::new(InodeNo::INODE_MAP, Table::EMPTY, geo.block_bytes).height_for(INODE_NUMBERS)
}

/// False for a point with values that no checkpoint up to that epoch can have written.
pub(in crate::lfs) fn is_possible(point: &Point, height_max: u32, newest: Epoch) -> bool {
    point.imap.height <= height_max && point.next_ino.0 < 1 << BRANCH_BITS && point.epoch <= newest
}

impl Lfs {
    fn row_key(block: u64) -> BlockKey {
        BlockKey { ino: InodeNo::POINTS, fork: Fork::Data, level: 0, index: BlockIndex(block) }
    }

    fn rows_in_block(&self) -> u32 {
        self.geo.block_bytes / POINT_BYTES as u32
    }

    /// Blocks that the file can have at most.
    fn row_blocks_max(&self) -> u64 {
        MAX_POINTS.div_ceil(self.rows_in_block() as usize) as u64
    }

    /// Blocks that the file has; 0 if there is none.
    fn row_blocks(&mut self) -> Outcome<u64> {
        if !self.has_internal(InodeNo::POINTS)? {
            return Ok(0);
        }
        let size_bytes = self.core(InodeNo::POINTS).inode.size_bytes;
        Ok(size_bytes.div_ceil(u64::from(self.geo.block_bytes)))
    }

    /// Makes room for a new point in the checkpoint slot, and brings the file up to date. The caller commits what turns dirty
    /// with the checkpoint.
    ///
    /// # Errors
    /// `Need`, `Corrupt`: the file has not changed then. `Room` while an earlier file is being freed; `ReadOnly` if rows that
    /// are read now are damaged.
    pub(in crate::lfs) fn put_rows(&mut self, now: TimeNs) -> Outcome<()> {
        self.load_rows()?;
        self.standing.refuse()?;
        self.tables.points.balance_slot(self.options.slot_points);
        if self.tables.points.rows.is_written() {
            return Ok(());
        }
        if self.tables.points.rows.len() == 0 {
            self.close_internal(InodeNo::POINTS)?;
            self.tables.points.rows.written();
            return Ok(());
        }
        self.open_internal(now, InodeNo::POINTS)?;
        let file_blocks = self.row_blocks()?.min(self.row_blocks_max());
        let blocks = self.tables.points.rows.blocks_to_write(self.rows_in_block(), file_blocks);
        let mut needs: Vec<Fetch> = Vec::new();
        for block in &blocks {
            gather_needs(self.load_parents(Self::row_key(*block)), &mut needs)?;
        }
        needs.dedup_by(|a: &mut Fetch, b: &mut Fetch| a == b);
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        if self.lost_rows().is_some() {
            // A damaged record may state any size.
            let most_bytes = self.row_blocks_max() * u64::from(self.geo.block_bytes);
            let inode = &mut self.core_mut(InodeNo::POINTS).inode;
            inode.size_bytes = inode.size_bytes.min(most_bytes);
        }
        for block in blocks {
            self.put_internal(Self::row_key(block), self.encode_rows(block));
        }
        self.settle_record(InodeNo::POINTS);
        self.tables.points.rows.written();
        Ok(())
    }

    fn encode_rows(&self, block: u64) -> Vec<u8> {
        let points = &self.tables.points;
        let mut bytes = vec![0; self.geo.block_bytes as usize];
        let places = bytes.as_chunks_mut::<POINT_BYTES>().0;
        for (at, epoch) in points.rows.in_block(block, self.rows_in_block()) {
            if let Some(point) = points.get(epoch) {
                places[at] = point.encode_row();
            }
        }
        bytes
    }

    /// Reads the points that are not in the checkpoint slot, unless that has been done. If some cannot be read, the volume is
    /// read-only, because nobody knows what they hold. Callers: all that need more than the newest point.
    ///
    /// # Errors
    /// `Need`.
    pub(crate) fn load_rows(&mut self) -> Outcome<()> {
        while self.load_more_rows()? {}
        Ok(())
    }

    /// The same while nothing else uses the volume.
    pub(crate) fn read_rows(&mut self, read: &mut dyn DeviceReader) {
        let result = self.drive_whatever_fails(read, Self::load_rows);
        debug_assert!(result.is_ok(), "a failure is noted, and the reading goes on: {result:?}");
    }

    /// Reads the next rows; false if there are none.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn load_more_rows(&mut self) -> Outcome<bool> {
        let Some(unread) = self.tables.points.unread() else { return Ok(false) };
        let from = unread.next_block;
        let blocks = match self.row_blocks() {
            Ok(blocks) if blocks <= self.row_blocks_max() => blocks,
            Ok(blocks) => {
                let why = self.bad_rows(self.row_blocks_max(), blocks);
                self.note_bad_rows(why);
                0
            }
            Err(Stop::Fail(why)) => {
                self.note_bad_rows(why);
                0
            }
            Err(stop) => return Err(stop),
        };
        if from >= blocks {
            self.admit_rows();
            return Ok(false);
        }
        let mut needs = Vec::new();
        let at_once = (READ_AT_ONCE_BYTES / u64::from(self.geo.block_bytes)).max(1);
        for block in from..blocks.min(from + at_once) {
            let content = match self.load_row_block(block) {
                Err(Stop::Fail(why)) => {
                    self.note_bad_rows(why);
                    None
                }
                content => gather_needs(content, &mut needs)?.flatten(),
            };
            // Blocks are decoded in order: a cache may have no room for all of them.
            if needs.is_empty() {
                self.decode_rows(block, content.as_deref().unwrap_or_default());
            }
        }
        if needs.is_empty() { Ok(true) } else { Err(Stop::Need(needs)) }
    }

    /// A block of the file; `None` if it has no such block, or if its error has been noted.
    fn load_row_block(&mut self, block: u64) -> Outcome<Option<Buf>> {
        if self.tables.points.unread().is_some_and(|unread| unread.failed.contains(&block)) {
            return Ok(None);
        }
        let content = self.load(Self::row_key(block));
        if let (Err(Stop::Fail(_)), Some(unread)) = (&content, self.tables.points.unread()) {
            unread.failed.insert(block);
        }
        content
    }

    fn decode_rows(&mut self, block: u64, bytes: &[u8]) {
        let first = block as u32 * self.rows_in_block();
        let rows = bytes.as_chunks::<POINT_BYTES>().0.iter().map(Point::decode_row);
        let bad = rows.clone().find_map(Result::err).map(|why| self.bad_row(&why));
        if let Some(unread) = self.tables.points.unread() {
            let found = (first..).zip(rows).filter_map(|(row, point)| Some((row, point.ok()??)));
            unread.found.extend(found);
            unread.next_block = block + 1;
        }
        if let Some(why) = bad {
            self.note_bad_rows(why);
        }
    }

    fn note_bad_rows(&mut self, why: FsError) {
        if let Some(unread) = self.tables.points.unread() {
            unread.damage.get_or_insert(why);
        }
    }

    /// All rows have been read: takes in their points.
    fn admit_rows(&mut self) {
        let oldest = self.tables.points.oldest_in_slot();
        let Some(Unread { count, mut found, mut damage, .. }) = self.tables.points.end_reading() else {
            return;
        };
        let (height_max, newest) = (map_height_max(&self.geo), oldest.unwrap_or(self.tables.slots.epoch()));
        let all = found.len();
        let mut epochs: FxHashSet<Epoch> = FxHashSet::default();
        let is_good = |point: &Point| is_possible(point, height_max, newest) && oldest != Some(point.epoch);
        found.retain(|(_, point)| is_good(point) && epochs.insert(point.epoch));
        drop(epochs);
        let good = found.len();
        self.tables.points.take_in(found);
        if good != all || all != count as usize || !self.lost_origins().is_empty() {
            damage.get_or_insert(self.bad_rows(u64::from(count), good as u64));
        }
        if let Some(why) = damage {
            self.give_up(&why);
            self.tables.points.rows.note_damage(why);
        }
    }

    /// Why retained points were lost, if some were when their rows were read.
    #[must_use]
    pub fn lost_rows(&self) -> Option<&FsError> {
        self.tables.points.rows.damage()
    }

    /// The lost points that are origins of clones.
    pub(crate) fn lost_origins(&self) -> Vec<Epoch> {
        let points = &self.tables.points;
        let is_kept = |epoch| points.get(epoch).is_some_and(|point| point.dropped_to.is_none());
        let origins = self.tables.branches.list().iter().map(|branch| branch.origin);
        origins.filter(|origin| !is_kept(*origin)).collect()
    }

    fn bad_row(&self, why: &DecodeError) -> FsError {
        FsError::Corrupt {
            what: format!("{} in the file of retained points", why.what),
            at: format!("epoch {}", self.tables.slots.durable()),
            expected: why.expected.clone(),
            found: why.found.clone(),
        }
    }

    fn bad_rows(&self, expected: u64, found: u64) -> FsError {
        FsError::Corrupt {
            what: "file of retained points".to_owned(),
            at: format!("epoch {}", self.tables.slots.durable()),
            expected: format!("{expected} as the checkpoint says, each once"),
            found: found.to_string(),
        }
    }
}
