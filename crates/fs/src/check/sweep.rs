//! Reads in device order: adjacent blocks become one stretch, which is kept for a while, because blocks lie just before the
//! records that lead to them. A pass over a list of pointers ([`Course`]) has its next stretches under way.
//!
//! Invariant: which stretches are read, and in which order they are kept, depends only on the lists, not on how many reads are
//! under way. If a stretch turns out not to be needed, its read was wasted.

use crate::device_reader::{DeviceReader, Extent, UnderWay};
use crate::error::FsError;
use crate::lfs::{Geometry, verify_stored};
use firnfs_format::BlockPtr;
use std::collections::VecDeque;

/// Longest stretch in bytes.
const WINDOW_MAX_BYTES: u64 = 1 << 20;
/// Stretches start and end on multiples of this, in bytes.
const WINDOW_ALIGN_BYTES: u64 = 64 << 10;
/// Largest unused gap between two blocks that are read together, in bytes.
const GAP_MAX_BYTES: u64 = 64 << 10;
/// Stretches that are kept.
const WINDOWS: usize = 16;

struct Window {
    extent: Extent,
    data: firnfs_device::AlignedBuf,
}

/// A list of pointers in device order, by their number in it; pointers that were not judged yet may lead anywhere.
pub type List<'l> = dyn Fn(usize) -> Option<BlockPtr> + 'l;

/// A pass over a list, with its reads under way. It must be ended ([`Sweep::end`]).
#[derive(Default)]
pub struct Course {
    under_way: UnderWay,
    /// The first pointer for which no stretch was planned.
    planned: usize,
}

/// See the module's head.
pub struct Sweep<'a> {
    /// The device.
    pub read: &'a mut dyn DeviceReader,
    geo: Geometry,
    windows: VecDeque<Window>,
    /// Bytes read so far.
    pub read_bytes: u64,
}

impl<'a> Sweep<'a> {
    /// Reads from a device that holds a volume of that geometry.
    pub fn new(read: &'a mut dyn DeviceReader, geo: Geometry) -> Self {
        Self { read, geo, windows: VecDeque::new(), read_bytes: 0 }
    }

    /// True if the target of a pointer is in memory.
    pub fn is_at_hand(&self, ptr: &BlockPtr) -> bool {
        self.window_of(ptr).is_some()
    }

    fn window_of(&self, ptr: &BlockPtr) -> Option<usize> {
        let target = self.target(ptr);
        self.windows.iter().rposition(|window| window.extent.contains(&target))
    }

    fn target(&self, ptr: &BlockPtr) -> Extent {
        Extent::new(self.geo.device_bytes(ptr.addr), ptr.stored_bytes())
    }

    /// The verified bytes of the pointer with number `at` of a list, which lies within the volume.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, naming `what`.
    pub fn stored(
        &mut self,
        ptr: &BlockPtr,
        course: &mut Course,
        (list, at): (&List<'_>, usize),
        what: impl FnOnce() -> String,
    ) -> Result<Vec<u8>, FsError> {
        if self.window_of(ptr).is_none() {
            self.fetch(ptr, course, list, at);
        }
        let bytes = match self.bytes_at_hand(ptr) {
            Some(bytes) => bytes,
            // This block or one close to it cannot be read: read exactly its bytes.
            None => self.read.read(self.target(ptr))?.to_vec(),
        };
        verify_stored(ptr, &self.geo, &bytes, what)?;
        Ok(bytes)
    }

    /// The bytes of a pointer whose target is in memory, not verified.
    fn bytes_at_hand(&self, ptr: &BlockPtr) -> Option<Vec<u8>> {
        let window = &self.windows[self.window_of(ptr)?];
        let target = self.target(ptr);
        let from = (target.at_bytes - window.extent.at_bytes) as usize;
        Some(window.data[from..from + target.len_bytes as usize].to_vec())
    }

    /// The verified bytes of a pointer whose target is in memory.
    ///
    /// # Errors
    /// As [`Self::stored`].
    pub fn at_hand(&mut self, ptr: &BlockPtr, what: impl FnOnce() -> String) -> Result<Vec<u8>, FsError> {
        self.stored(ptr, &mut Course::default(), (&|_| None, 0), what)
    }

    /// Ends a pass.
    pub fn end(&mut self, mut course: Course) {
        course.under_way.end(self.read);
    }

    /// Reads the stretch that begins with a pointer, and begins to read the next ones.
    fn fetch(&mut self, ptr: &BlockPtr, course: &mut Course, list: &List<'_>, at: usize) {
        let stretch = self.stretch(ptr, list, at + 1);
        let target = self.target(ptr);
        while let Some(passed) = course.under_way.take(|e| e.end_bytes() <= stretch.at_bytes) {
            let _unwanted = self.read.finish(passed);
        }
        let posted = match course.under_way.take(|extent| *extent == stretch) {
            Some(posted) => posted,
            None => {
                // The plan was wrong: everything from here on is planned again.
                if course.under_way.extents().any(|extent| extent.contains(&target)) {
                    course.under_way.end(self.read);
                    course.planned = at + 1;
                }
                self.read.post(stretch)
            }
        };
        self.plan(course, list, at + 1, stretch);
        if let Ok(data) = self.read.finish(posted) {
            self.read_bytes += data.len() as u64;
            if self.windows.len() >= WINDOWS {
                self.windows.pop_front();
            }
            self.windows.push_back(Window { extent: stretch, data });
        }
    }

    /// Posts the stretches that follow `current`, as many as may be under way with it.
    fn plan(&mut self, course: &mut Course, list: &List<'_>, from: usize, current: Extent) {
        course.planned = course.planned.max(from);
        let mut last = course.under_way.extents().next_back().copied().unwrap_or(current);
        while let Some(ptr) = list(course.planned) {
            let target = self.target(&ptr);
            let is_new = self.geo.is_inside(&ptr) && target.end_bytes() > last.end_bytes();
            if is_new && self.window_of(&ptr).is_none() {
                let stretch = self.stretch(&ptr, list, course.planned + 1);
                let bytes = course.under_way.bytes() + u64::from(current.len_bytes + stretch.len_bytes);
                if bytes > self.read.depth_bytes() || !course.under_way.has_room(self.read, &stretch) {
                    return;
                }
                course.under_way.push(self.read.post(stretch));
                last = stretch;
            }
            course.planned += 1;
        }
    }

    /// The stretch that is read for a pointer: its target, and those that follow it closely in the list.
    fn stretch(&self, ptr: &BlockPtr, list: &List<'_>, from: usize) -> Extent {
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let segment_start = self.geo.device_bytes(self.geo.addr(self.geo.segment_of(ptr.addr), 0));
        let Extent { at_bytes: at, .. } = self.target(ptr);
        let mut end = self.target(ptr).end_bytes();
        for next in (from..).map_while(list) {
            let (start, to) = (self.target(&next).at_bytes, self.target(&next).end_bytes());
            if start > end + GAP_MAX_BYTES || to > at + WINDOW_MAX_BYTES || to > segment_start + segment_bytes
            {
                break;
            }
            end = end.max(to);
        }
        let start = segment_start + (at - segment_start) / WINDOW_ALIGN_BYTES * WINDOW_ALIGN_BYTES;
        let end =
            segment_start + (end - segment_start).next_multiple_of(WINDOW_ALIGN_BYTES).min(segment_bytes);
        Extent::new(start, (end - start) as u32)
    }
}
