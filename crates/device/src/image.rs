//! `SparseImage`: the bytes of a disk in memory, copy on write.
//!
//! A tree of 64-way nodes over pages of 4 KiB. Absent pages are zeros, so a volume of 1 TiB takes only as much memory
//! as was written to it. A clone takes constant time and shares everything; a write copies the page and the nodes above
//! it if another clone still shares them. Callers: [`crate::MemDevice`], and the crash disk, which builds thousands of
//! images a second that differ in a few sectors.

use std::sync::Arc;

/// Size of the unit that is shared between clones, in bytes.
pub const PAGE_BYTES: usize = 4096;

const FANOUT_BITS: u32 = 6;
const FANOUT: usize = 1 << FANOUT_BITS;

type Page = [u8; PAGE_BYTES];

type Slots = [Option<Node>; FANOUT];

#[derive(Clone)]
enum Node {
    Inner(Arc<Slots>),
    Leaf(Arc<Page>),
}

/// See the module's head. Reads and writes must lie within the size; devices check that first.
#[derive(Clone)]
pub struct SparseImage {
    size_bytes: u64,
    /// Levels of inner nodes above the pages; the root covers `64^depth` pages.
    depth: u32,
    root: Option<Node>,
}

impl SparseImage {
    /// An image of zeros.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let pages = size_bytes.div_ceil(PAGE_BYTES as u64).max(1);
        let page_bits = u64::BITS - (pages - 1).leading_zeros();
        Self { size_bytes, depth: page_bits.div_ceil(FANOUT_BITS).max(1), root: None }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn read(&self, at_bytes: u64, out: &mut [u8]) {
        self.assert_within(at_bytes, out.len());
        for_each_page(at_bytes, out.len(), |page, start, range| {
            let len = range.len();
            match self.page(page) {
                Some(bytes) => out[range].copy_from_slice(&bytes[start..start + len]),
                None => out[range].fill(0),
            }
        });
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn write(&mut self, at_bytes: u64, bytes: &[u8]) {
        self.assert_within(at_bytes, bytes.len());
        for_each_page(at_bytes, bytes.len(), |page, start, range| {
            if range.len() == PAGE_BYTES {
                let whole: &Page = bytes[range].try_into().expect("a whole page");
                *self.slot(page) = Some(Node::Leaf(Arc::new(*whole)));
            } else {
                let len = range.len();
                self.page_mut(page)[start..start + len].copy_from_slice(&bytes[range]);
            }
        });
    }

    /// The pages that contain a range.
    ///
    /// # Panics
    /// If the range is not within the image.
    #[must_use]
    pub fn pages_at(&self, at_bytes: u64, len_bytes: u64) -> Pages {
        self.assert_within(at_bytes, len_bytes as usize);
        let range = pages_of(at_bytes, len_bytes);
        Pages { first: range.start, pages: range.map(|page| self.leaf(page).cloned()).collect() }
    }

    /// Whether these are still the pages at their place: then the image holds the same bytes there as when they were taken.
    #[must_use]
    pub fn has(&self, pages: &Pages) -> bool {
        pages.pages.iter().zip(pages.first..).all(|(known, page)| match (known, self.leaf(page)) {
            (Some(known), Some(here)) => Arc::ptr_eq(known, here),
            (known, here) => known.is_none() && here.is_none(),
        })
    }

    /// Takes over, by sharing, the pages of another image that contain a range.
    ///
    /// # Panics
    /// If the range is not within both images.
    pub fn share_pages(&mut self, other: &Self, at_bytes: u64, len_bytes: u64) {
        self.assert_within(at_bytes, len_bytes as usize);
        other.assert_within(at_bytes, len_bytes as usize);
        for page in pages_of(at_bytes, len_bytes) {
            match other.leaf(page) {
                Some(leaf) => *self.slot(page) = Some(Node::Leaf(leaf.clone())),
                None => clear(&mut self.root, 0, self.depth, &(page..page + 1)),
            }
        }
    }

    /// Makes a range read as zeros; whole pages give their memory back. The time depends on the pages that exist, not
    /// on the length of the range.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn zero(&mut self, at_bytes: u64, len_bytes: u64) {
        let end = at_bytes.checked_add(len_bytes);
        assert!(end.is_some_and(|end| end <= self.size_bytes), "range within the image");
        let (page_bytes, end) = (PAGE_BYTES as u64, at_bytes + len_bytes);
        let whole = at_bytes.div_ceil(page_bytes)..end / page_bytes;
        if whole.start < whole.end {
            clear(&mut self.root, 0, self.depth, &whole);
        }
        let head_end = (whole.start * page_bytes).min(end);
        self.zero_within_page(at_bytes, head_end);
        self.zero_within_page((whole.end * page_bytes).max(head_end), end);
    }

    fn zero_within_page(&mut self, at_bytes: u64, end_bytes: u64) {
        let page = at_bytes / PAGE_BYTES as u64;
        if at_bytes < end_bytes && self.page(page).is_some() {
            let start = (at_bytes % PAGE_BYTES as u64) as usize;
            self.page_mut(page)[start..start + (end_bytes - at_bytes) as usize].fill(0);
        }
    }

    /// Number of pages that take memory.
    #[must_use]
    pub fn pages(&self) -> u64 {
        fn count(node: &Option<Node>) -> u64 {
            match node {
                None => 0,
                Some(Node::Leaf(_)) => 1,
                Some(Node::Inner(children)) => children.iter().map(count).sum(),
            }
        }
        count(&self.root)
    }

    /// Calls `visit(offset in bytes, content)` for each page that takes memory, in order.
    pub fn for_each_page(&self, mut visit: impl FnMut(u64, &[u8])) {
        fn walk(node: &Option<Node>, page: u64, level: u32, visit: &mut impl FnMut(u64, &[u8])) {
            match node {
                None => {}
                Some(Node::Leaf(bytes)) => visit(page * PAGE_BYTES as u64, &bytes[..]),
                Some(Node::Inner(children)) => {
                    let covered = 1 << ((level - 1) * FANOUT_BITS);
                    let pages = (page..).step_by(covered);
                    children.iter().zip(pages).for_each(|(child, page)| walk(child, page, level - 1, visit));
                }
            }
        }
        walk(&self.root, 0, self.depth, &mut visit);
    }

    fn assert_within(&self, at_bytes: u64, len: usize) {
        let end = at_bytes.checked_add(len as u64);
        assert!(end.is_some_and(|end| end <= self.size_bytes), "range within the image");
    }

    fn page(&self, page: u64) -> Option<&Page> {
        self.leaf(page).map(|leaf| &**leaf)
    }

    fn leaf(&self, page: u64) -> Option<&Arc<Page>> {
        let mut node = self.root.as_ref()?;
        let mut level = self.depth;
        loop {
            match node {
                Node::Leaf(bytes) => return Some(bytes),
                Node::Inner(children) => {
                    level -= 1;
                    node = children[child_index(page, level)].as_ref()?;
                }
            }
        }
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        match self.slot(page).get_or_insert_with(|| Node::Leaf(Arc::new([0; PAGE_BYTES]))) {
            Node::Leaf(bytes) => Arc::make_mut(bytes),
            Node::Inner(_) => unreachable!("pages are at the same depth everywhere"),
        }
    }

    /// The slot of a page, with every node above it created and unshared.
    fn slot(&mut self, page: u64) -> &mut Option<Node> {
        let mut slot = &mut self.root;
        for level in (0..self.depth).rev() {
            slot = match slot.get_or_insert_with(|| Node::Inner(Arc::new([const { None }; FANOUT]))) {
                Node::Inner(children) => &mut Arc::make_mut(children)[child_index(page, level)],
                Node::Leaf(_) => unreachable!("pages are at the same depth everywhere"),
            };
        }
        slot
    }
}

/// Pages of an image at consecutive places. They exist as long as this does, and a shared page never changes; so a page with the
/// same address is the same page.
#[derive(Clone)]
pub struct Pages {
    first: u64,
    pages: Vec<Option<Arc<Page>>>,
}

impl std::fmt::Debug for SparseImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SparseImage({} bytes, {} pages)", self.size_bytes, self.pages())
    }
}

/// The pages that contain a range.
fn pages_of(at_bytes: u64, len_bytes: u64) -> std::ops::Range<u64> {
    let page_bytes = PAGE_BYTES as u64;
    at_bytes / page_bytes..(at_bytes + len_bytes).div_ceil(page_bytes)
}

fn child_index(page: u64, level: u32) -> usize {
    (page >> (level * FANOUT_BITS)) as usize & (FANOUT - 1)
}

/// Drops the pages of `pages` below `slot`, whose first page is `first` and which has `level` levels of nodes.
fn clear(slot: &mut Option<Node>, first: u64, level: u32, pages: &std::ops::Range<u64>) {
    let covered = 1u64 << (level * FANOUT_BITS);
    let Some(node) = slot else { return };
    if first >= pages.end || first + covered <= pages.start {
        return;
    }
    if first >= pages.start && first + covered <= pages.end {
        *slot = None;
        return;
    }
    let Node::Inner(children) = node else { unreachable!("a page is in the range or it is not") };
    for (index, child) in Arc::make_mut(children).iter_mut().enumerate() {
        clear(child, first + index as u64 * (covered >> FANOUT_BITS), level - 1, pages);
    }
}

/// Calls `visit(page, first byte in the page, range of the caller's buffer)` for each page of a range.
fn for_each_page(at_bytes: u64, len: usize, mut visit: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = at_bytes + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let part = (PAGE_BYTES - start).min(len - done);
        visit(at / PAGE_BYTES as u64, start, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_writes_and_zeroings_agree_with_a_plain_vector() {
        const SIZE: usize = 3 << 20;
        let (mut image, mut plain) = (SparseImage::new(SIZE as u64), vec![0u8; SIZE]);
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..2000 {
            let (at, fill) = (random(SIZE), random(255) as u8 + 1);
            let len = random(3 * PAGE_BYTES).min(SIZE - at);
            if round % 3 == 0 {
                image.zero(at as u64, len as u64);
                plain[at..at + len].fill(0);
            } else {
                image.write(at as u64, &vec![fill; len]);
                plain[at..at + len].fill(fill);
            }
        }
        let mut all = vec![1; SIZE];
        image.read(0, &mut all);
        assert!(all == plain);
    }

    #[test]
    fn a_clone_keeps_its_content_when_the_original_changes() {
        let mut image = SparseImage::new(1 << 40);
        image.write((1 << 40) - 512, &[7; 512]);
        let old = image.clone();
        image.write((1 << 40) - 512, &[8; 256]);
        image.write(0, &[9; PAGE_BYTES]);
        let mut bytes = [0; 512];
        old.read((1 << 40) - 512, &mut bytes);
        assert_eq!(bytes, [7; 512]);
        assert_eq!((old.pages(), image.pages()), (1, 2));
        image.read((1 << 40) - 512, &mut bytes);
        assert_eq!((bytes[255], bytes[256]), (8, 7));
    }

    #[test]
    fn shared_pages_are_known_until_either_image_changes_them() {
        let page = PAGE_BYTES as u64;
        let mut image = SparseImage::new(1 << 30);
        image.write(3 * page, &[1; 4 * PAGE_BYTES]);
        let mut part = SparseImage::new(1 << 30);
        part.write(8 * page, &[2; PAGE_BYTES]);
        part.share_pages(&image, 4 * page + 100, 5 * page);
        let mut bytes = [0; PAGE_BYTES];
        [(3, 0), (4, 1), (6, 1), (8, 0), (9, 0)].iter().for_each(|(at, byte)| {
            part.read(at * page, &mut bytes);
            assert_eq!(bytes, [*byte; PAGE_BYTES], "page {at}");
        });
        let pages = part.pages_at(4 * page + 1, 6 * page - 1);
        assert!(part.has(&pages) && image.has(&pages));
        assert!(!image.has(&part.pages_at(4 * page - 1, 2)), "only one of them has page 3");
        part.write(5 * page, &[1]);
        assert!(!part.has(&pages) && part.has(&image.pages_at(4 * page, page)) && image.has(&pages));
        image.read(5 * page, &mut bytes);
        assert_eq!(bytes, [1; PAGE_BYTES], "equal bytes, and another page");
    }

    #[test]
    fn a_walk_visits_the_pages_that_take_memory_in_order() {
        let mut image = SparseImage::new(1 << 30);
        let places = [0, 5 * PAGE_BYTES as u64, 300 << 12, (1 << 30) - PAGE_BYTES as u64];
        places.iter().rev().for_each(|at| image.write(*at, &at.to_le_bytes()));
        let mut found = Vec::new();
        image.for_each_page(|at, bytes| {
            assert_eq!((bytes.len(), &bytes[..8]), (PAGE_BYTES, &at.to_le_bytes()[..]));
            found.push(at);
        });
        assert_eq!(found, places);
    }

    #[test]
    fn zeroing_whole_pages_gives_memory_back() {
        let mut image = SparseImage::new(1 << 20);
        image.write(0, &vec![1; 1 << 20]);
        assert_eq!(image.pages(), 256);
        image.zero(100, (1 << 20) - 200);
        assert_eq!(image.pages(), 2);
    }
}
