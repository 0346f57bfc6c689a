//! `Alike`: pairs of contents that were compared, and found to have the same bytes.
//!
//! Thousands of states show the same contents, which they share ([`crate::crash::Contents`]), and the model has the same versions of them. The
//! bytes behind an `Arc` that others hold never change, and both contents of a pair are kept here, so that no other content can take
//! their addresses: what was the same once is the same again. A content that a view has read for itself, without sharing it, is compared
//! byte by byte.
//!
//! Memory: at most [`BYTES_MAX`] of contents, which are mostly kept elsewhere, too.

use crate::crash::tree::Content;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Contents that are kept, in bytes; beyond that all are dropped.
const BYTES_MAX: usize = 32 << 20;
/// It takes as long to find a shorter content as to compare it.
const LEN_BYTES_MIN: usize = 512;

/// See the module's head.
#[derive(Default)]
pub(super) struct Alike {
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    /// The model's content and the one that was found, by their addresses.
    pairs: FxHashMap<(usize, usize), (Content, Content)>,
    bytes: usize,
}

impl Alike {
    /// Whether a content of the model and one that was found have the same bytes.
    pub fn are(&self, model: &Content, found: &Content) -> bool {
        if model.len() != found.len() {
            return false;
        }
        // One reference is the tree's own.
        if found.len() < LEN_BYTES_MIN || Arc::strong_count(found) == 1 {
            return model == found;
        }
        let key = (Arc::as_ptr(model).addr(), Arc::as_ptr(found).addr());
        let mut known = self.known.borrow_mut();
        if known.pairs.contains_key(&key) {
            return true;
        }
        if model != found {
            return false;
        }
        if known.bytes > BYTES_MAX {
            *known = Known::default();
        }
        known.bytes += found.len();
        known.pairs.insert(key, (model.clone(), found.clone()));
        true
    }
}

/// Pairs belong to the states of one record; a copy finds its own.
impl Clone for Alike {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_alike_whatever_was_compared_before() {
        let alike = Alike::default();
        let content = |byte: u8, len: usize| -> Content { Arc::new(vec![byte; len]) };
        for len in [0, 1, LEN_BYTES_MIN, 3 * LEN_BYTES_MIN] {
            let (model, found) = (content(1, len), content(1, len));
            let shared = found.clone();
            for _ in 0..2 {
                assert!(alike.are(&model, &found) && alike.are(&model, &model));
                assert!(!alike.are(&model, &content(1, len + 1)));
                assert_eq!(alike.are(&model, &content(2, len)), len == 0);
            }
            let mut last = shared.to_vec();
            last.iter_mut().last().into_iter().for_each(|byte| *byte ^= 1);
            let last = Arc::new(last);
            let _shared = last.clone();
            assert_eq!(alike.are(&model, &last), len == 0);
        }
    }

    #[test]
    fn a_content_that_changes_becomes_another_one() {
        let alike = Alike::default();
        let model: Content = Arc::new(vec![1; LEN_BYTES_MIN]);
        let mut found: Content = Arc::new(vec![1; LEN_BYTES_MIN]);
        let shared = found.clone();
        assert!(alike.are(&model, &found));
        drop(shared);
        Arc::make_mut(&mut found)[7] = 2;
        let _shared = found.clone();
        assert!(!alike.are(&model, &found));
    }

    #[test]
    fn it_keeps_no_more_than_it_says() {
        let alike = Alike::default();
        let model: Content = Arc::new(vec![1; 1 << 20]);
        for _ in 0..100 {
            let found: Content = Arc::new(vec![1; 1 << 20]);
            let _shared = found.clone();
            assert!(alike.are(&model, &found));
            let known = alike.known.borrow();
            assert!(known.bytes == known.pairs.len() << 20 && known.bytes <= BYTES_MAX + (1 << 20));
        }
    }
}
