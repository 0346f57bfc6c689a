//! `CrashDisk`: the running disk with a volatile cache. Requests run in `submit`, in that order.

use super::history::{Event, History, Item, ItemKind};
use super::state::DiscardMode;
use firnfs_device::{AlignedBuf, Completion, Device, Geometry, Outbox, Request, SparseImage, Tag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module's head.
pub struct CrashDisk {
    geometry: Geometry,
    name: Arc<str>,
    outbox: Outbox,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The content that the running system reads: everything submitted so far.
    live: SparseImage,
    discards: DiscardMode,
    history: History,
    /// Writes, discards and flushes that have not been waited for yet.
    under_way: BTreeMap<Tag, UnderWay>,
}

#[derive(Clone, Copy)]
enum UnderWay {
    Item(u32),
    Flush(u32),
}

impl CrashDisk {
    /// A disk that holds `image` (all of it durable), with 512-byte sectors and the given physical block in bytes (a
    /// power of two, at least 512). The running system reads discarded ranges as garbage; it should not read them at
    /// all.
    #[must_use]
    pub fn new(image: SparseImage, physical_block_bytes: u32) -> Self {
        let geometry =
            Geometry { size_bytes: image.size_bytes(), logical_block_bytes: 512, physical_block_bytes };
        let history = History::new(geometry, image.clone());
        let discards = DiscardMode::Garbage(0);
        Self {
            geometry,
            name: Arc::from("crash disk"),
            outbox: Outbox::default(),
            inner: Mutex::new(Inner { live: image, discards, history, under_way: BTreeMap::new() }),
        }
    }

    /// Records a point in the order of events; the caller defines its meaning.
    pub fn mark(&self, mark: u64) {
        self.inner.lock().history.push(Event::Mark(mark));
    }

    /// The history so far.
    #[must_use]
    pub fn history(&self) -> History {
        self.inner.lock().history.clone()
    }

    /// The content that the running system would read now.
    #[must_use]
    pub fn live_image(&self) -> SparseImage {
        self.inner.lock().live.clone()
    }
}

impl Inner {
    fn run(&mut self, request: Request) -> (Option<UnderWay>, Option<AlignedBuf>) {
        match request {
            Request::Read { at_bytes, len_bytes } => {
                let mut buf = AlignedBuf::scratch(len_bytes as usize);
                self.live.read(at_bytes, &mut buf);
                (None, Some(buf))
            }
            Request::Write { at_bytes, data } => {
                let data = data.whole();
                self.live.write(at_bytes, &data);
                let len_bytes = data.len() as u64;
                let item = Item::new(at_bytes, len_bytes, ItemKind::Write(data));
                (Some(self.submitted(item)), None)
            }
            Request::Discard { at_bytes, len_bytes } => {
                let item = Item::new(at_bytes, len_bytes, ItemKind::Discard);
                for sector in item.sectors() {
                    if let Some(content) = self.discards.content(sector) {
                        content.write(&mut self.live, sector);
                    }
                }
                (Some(self.submitted(item)), None)
            }
            Request::Flush => (Some(UnderWay::Flush(self.history.push_flush())), None),
        }
    }

    fn submitted(&mut self, item: Item) -> UnderWay {
        for other in self.under_way.values() {
            if let UnderWay::Item(index) = other {
                self.history.note_if_overlapping(*index, &item);
            }
        }
        UnderWay::Item(self.history.push_item(item))
    }
}

impl Device for CrashDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn submit(&self, request: Request) -> Tag {
        if let Err(e) = self.geometry.check(&request, &self.name) {
            return self.outbox.put(Err(e));
        }
        let mut inner = self.inner.lock();
        let (under_way, data) = inner.run(request);
        let tag = self.outbox.put(Ok(data));
        if let Some(under_way) = under_way {
            inner.under_way.insert(tag, under_way);
        }
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        let mut inner = self.inner.lock();
        match inner.under_way.remove(&tag) {
            Some(UnderWay::Item(index)) => inner.history.item_done(index),
            Some(UnderWay::Flush(index)) => inner.history.flush_done(index),
            None => {}
        }
        self.outbox.take(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.name.clone()
    }
}
