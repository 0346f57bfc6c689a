//! Reads and writes the file of points: see [`crate::lfs::tables::point_rows`].
//!
//! A block of the file is an array of rows, each a point in the form of a checkpoint slot. A checkpoint writes the rows that have
//! changed before it commits. Opening a volume reads all rows first: a block that dies in the log's tail is held if a point has
//! seen it.
//!
//! Invariant: between two checkpoints the file does not change.

use crate::device_reader::DeviceReader;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::lfs::Lfs;
use crate::lfs::base::damage::is_damage;
use crate::lfs::map::files::Files;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::tables::point_rows::PointRows;
use crate::lfs::tables::points::Points;
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::{MAX_POINTS, POINT_BYTES, Point};
use firnfs_format::{BlockIndex, DecodeError, Epoch, InodeNo, TimeNs};
use rustc_hash::FxHashSet;

/// Blocks of the file that are read together.
const BLOCKS_AT_ONCE: usize = 256;

/// What was found in the file.
#[derive(Default)]
struct Found {
    /// Each with its row.
    points: Vec<(u32, Point)>,
    /// Why some of it could not be read.
    damage: Option<FsError>,
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
    /// `Need`, `Corrupt`: the file has not changed then. `Room` while an earlier file is being freed.
    pub(in crate::lfs) fn put_rows(&mut self, now: TimeNs) -> Outcome<()> {
        self.tables.points.make_room_in_slot(self.options.slot_points);
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

    /// Reads the points that are not in the checkpoint slot; the checkpoint states that there are `count`. If some cannot be
    /// read, the volume is read-only, because nobody knows what they hold. `is_possible` says whether a point can belong to this
    /// volume.
    ///
    /// # Errors
    /// `Io`.
    pub(in crate::lfs) fn read_rows(
        &mut self,
        read: &mut dyn DeviceReader,
        count: u32,
        is_possible: impl Fn(&Point) -> bool,
    ) -> Result<(), FsError> {
        if count == 0 {
            return Ok(());
        }
        let mut found = Found::default();
        match self.drive(read, Self::row_blocks) {
            Ok(blocks) if blocks <= self.row_blocks_max() => self.find_rows(read, blocks, &mut found)?,
            Ok(blocks) => found.damage = Some(self.bad_rows(self.row_blocks_max(), blocks)),
            Err(why) if is_damage(&why) => found.damage = Some(why),
            Err(why) => return Err(why),
        }
        // Roll-forward begins with nothing in memory.
        self.files = Files::default();
        self.shelf = Shelf::new(self.geo.clone());
        let mut list = self.tables.points.list().to_vec();
        let mut epochs: FxHashSet<Epoch> = list.iter().map(|point| point.epoch).collect();
        let (stated, all) = (u64::from(count), found.points.len() as u64);
        found.points.retain(|(_, point)| is_possible(point) && epochs.insert(point.epoch));
        let good = found.points.len() as u64;
        if good != all || all != stated {
            let why = self.bad_rows(stated, good);
            found.damage.get_or_insert(why);
        }
        let rows = PointRows::new(found.points.iter().map(|(row, point)| (*row, point.epoch)));
        list.extend(found.points.into_iter().map(|(_, point)| point));
        let retention = self.tables.points.retention.clone();
        self.tables.points = Points::new(list, rows, retention);
        if !self.lost_origins().is_empty() {
            let why = self.bad_rows(stated, good);
            found.damage.get_or_insert(why);
        }
        if let Some(why) = found.damage {
            self.give_up(&why);
            self.tables.points.rows.note_damage(why);
        }
        Ok(())
    }

    fn find_rows(
        &mut self,
        read: &mut dyn DeviceReader,
        blocks: u64,
        found: &mut Found,
    ) -> Result<(), FsError> {
        let numbers: Vec<u64> = (0..blocks).collect();
        for some in numbers.chunks(BLOCKS_AT_ONCE) {
            let contents = self.drive_all(read, some, |lfs, block| lfs.load(Self::row_key(*block)));
            for (block, content) in some.iter().zip(contents) {
                match content {
                    Ok(Some(bytes)) => self.decode_rows(*block, &bytes, found),
                    Ok(None) => {}
                    Err(why) if is_damage(&why) => _ = found.damage.get_or_insert(why),
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(())
    }

    fn decode_rows(&self, block: u64, bytes: &[u8], found: &mut Found) {
        let per_block = self.rows_in_block();
        for (at, row) in bytes.as_chunks::<POINT_BYTES>().0.iter().enumerate() {
            match Point::decode_row(row) {
                Ok(Some(point)) => found.points.push((block as u32 * per_block + at as u32, point)),
                Ok(None) => {}
                Err(why) => _ = found.damage.get_or_insert(self.bad_row(&why)),
            }
        }
    }

    /// Why retained points were lost when the volume was opened, if some were.
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
            at: format!("epoch {}", self.tables.durable_epoch),
            expected: why.expected.clone(),
            found: why.found.clone(),
        }
    }

    fn bad_rows(&self, expected: u64, found: u64) -> FsError {
        FsError::Corrupt {
            what: "file of retained points".to_owned(),
            at: format!("epoch {}", self.tables.durable_epoch),
            expected: format!("{expected} as the checkpoint says, each once"),
            found: found.to_string(),
        }
    }
}
