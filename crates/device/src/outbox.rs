//! `Outbox`: holds completions between `submit` and `wait`, for devices that do the work in `submit`.

use crate::request::{Completion, Tag};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Hands out tags and keeps their completions until they are taken.
#[derive(Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    done: BTreeMap<u64, Completion>,
}

impl Outbox {
    /// Stores a completion and returns its tag. Tags count up from 0.
    pub fn put(&self, completion: Completion) -> Tag {
        let mut inner = self.inner.lock();
        let tag = inner.next;
        inner.next += 1;
        inner.done.insert(tag, completion);
        Tag(tag)
    }

    /// Takes the completion of a tag.
    ///
    /// # Panics
    /// If the tag was never given out or was waited for before: a caller's bug.
    pub fn take(&self, tag: Tag) -> Completion {
        self.inner.lock().done.remove(&tag.0).expect("each tag is waited for exactly once")
    }
}
