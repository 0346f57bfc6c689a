//! Rollbacks: operations that make the present what a retained point shows, in the order in which `firn rollback` carries them out, so
//! that every cut of it is explored. Work in the background comes between them.
//!
//! Renamed files go aside; names that the point does not have are removed; directories and renamed files come back; then content and
//! attributes are copied from the point. A file that another one has replaced is copied under a name of its own, and takes the name
//! when it is complete.

use super::op::{Op, Part};
use super::shape::History;
use super::tree::{Entry, NodeKind, Tree};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where renamed files wait.
const ASIDE: &str = ".firn-rollback";

/// Adds the operations that make the volume what a point shows. Clones stay as they are.
pub(super) fn roll_back(history: &mut History, point: &str, rng: &mut Pcg64) {
    let Some(then) = history.world.points().get(point).cloned() else { return };
    let mut turn = Turn { history, rng, point, then };
    turn.bring_names_back();
    let files: Vec<Entry> =
        turn.then.entries().iter().filter(|old| old.kind == NodeKind::File).cloned().collect();
    for (nth, old) in files.iter().enumerate() {
        turn.bring_content_back(old, nth);
    }
    for old in turn.then.clone().entries() {
        turn.bring_attributes_back(old, &old.path);
    }
    turn.push(Op::Sync);
}

struct Turn<'a> {
    history: &'a mut History,
    rng: &'a mut Pcg64,
    point: &'a str,
    then: Arc<Tree>,
}

impl Turn<'_> {
    fn push(&mut self, op: Op) {
        self.history.push(op);
        match self.rng.random_range(0..24) {
            0..4 => self.history.push(Op::CleanStep),
            4..6 => self.history.push(Op::Step { ms: self.rng.random_range(0..6000) }),
            _ => {}
        }
    }

    /// What the present has, by path.
    fn present(&self) -> BTreeMap<String, Entry> {
        let entries = self.history.world.tree().entries().to_vec();
        let of_volume = |entry: &Entry| !entry.path.starts_with(super::op::CLONES);
        entries.into_iter().filter(of_volume).map(|entry| (entry.path.clone(), entry)).collect()
    }

    fn bring_names_back(&mut self) {
        let (then, now) = (self.then.clone(), self.present());
        let is_at = |entry: &Entry, path: &String| now.get(path).is_some_and(|new| new.ino == entry.ino);
        let path_of = |ino: u64| now.values().find(|entry| entry.ino == ino).map(|entry| entry.path.clone());
        let renamed = then.entries().iter().filter(|old| !is_at(old, &old.path));
        let renamed: Vec<(String, String)> =
            renamed.filter_map(|old| Some((path_of(old.ino)?, old.path.clone()))).collect();
        if !renamed.is_empty() {
            self.push(Op::Mkdir(ASIDE.to_owned()));
        }
        for (nth, (from, _)) in renamed.iter().enumerate().rev() {
            self.push(Op::Rename { from: from.clone(), to: format!("{ASIDE}/{nth}") });
        }
        let is_new = |path: &&String| then.entries().iter().all(|old| old.path != **path);
        for path in now.keys().rev().filter(is_new) {
            match now[path].kind {
                NodeKind::Directory => self.push(Op::Rmdir(path.clone())),
                _ => self.push(Op::Unlink(path.clone())),
            }
        }
        for old in then.entries().iter().filter(|old| old.kind == NodeKind::Directory) {
            if !now.contains_key(&old.path) {
                self.push(Op::Mkdir(old.path.clone()));
            }
        }
        for (nth, (_, to)) in renamed.iter().enumerate() {
            self.push(Op::Rename { from: format!("{ASIDE}/{nth}"), to: to.clone() });
        }
        self.push(Op::Rmdir(ASIDE.to_owned()));
    }

    /// A file that is there is written in place; one that is gone, or was replaced, is copied and renamed.
    fn bring_content_back(&mut self, old: &Entry, nth: usize) {
        let new = self.present().remove(&old.path);
        if new.as_ref().is_some_and(|new| new.ino == old.ino) {
            if new.is_some_and(|new| new.content != old.content) {
                self.copy_content(old, &old.path);
            }
            return;
        }
        let parent = old.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let name = format!(".firn-restore-{nth}");
        let staged = if parent.is_empty() { name } else { format!("{parent}/{name}") };
        self.push(Op::Create(staged.clone()));
        self.copy_content(old, &staged);
        self.bring_attributes_back(old, &staged);
        if new.is_none() {
            self.push(Op::Rename { from: staged, to: old.path.clone() });
            return;
        }
        self.push(Op::Exchange { from: staged.clone(), to: old.path.clone() });
        self.push(Op::Fsync(parent.to_owned()));
        self.push(Op::Unlink(staged));
    }

    fn copy_content(&mut self, old: &Entry, path: &str) {
        self.push(Op::Truncate { path: path.to_owned(), size_bytes: old.content.len() as u64 });
        self.copy_back(old, path, Part::Content);
    }

    fn bring_attributes_back(&mut self, old: &Entry, path: &str) {
        let Some(new) = self.present().remove(path) else { return };
        if new.mode != old.mode {
            self.push(Op::Chmod { path: path.to_owned(), mode: old.mode });
        }
        for name in new.xattrs.keys().filter(|name| !old.xattrs.contains_key(*name)) {
            self.push(Op::RemoveXattr { path: path.to_owned(), name: name.clone() });
        }
        for (name, _) in old.xattrs.iter().filter(|(name, value)| new.xattrs.get(*name) != Some(value)) {
            self.copy_back(old, path, Part::Attribute(name.clone()));
        }
    }

    fn copy_back(&mut self, old: &Entry, path: &str, part: Part) {
        let (point, from) = (self.point.to_owned(), old.path.clone());
        self.push(Op::CopyBack { point, from, path: path.to_owned(), part });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::op::pattern;
    use crate::crash::shape::Shape;
    use firnfs_sim::seeded;

    #[test]
    fn a_rollback_makes_everything_as_it_was() {
        let mut history = History::default();
        let write =
            |path: &str, len_bytes| Op::Write { path: path.to_owned(), at_bytes: 0, len_bytes, tag: 1 };
        let attribute = |tag| Op::SetXattr { path: "kept".into(), name: "k".into(), len_bytes: 30, tag };
        let create = |path: &str| Op::Create(path.to_owned());
        let ops = ["kept", "renamed", "removed", "swapped"].map(create).into_iter();
        let ops =
            ops.chain([write("kept", 5000), write("renamed", 6000), write("removed", 7000), attribute(1)]);
        ops.for_each(|op| history.push(op));
        history.push(Op::MakePoint("then".into()));
        let changes = [
            write("kept", 20),
            Op::Truncate { path: "kept".into(), size_bytes: 40 },
            attribute(2),
            Op::Mkdir("new".into()),
            Op::Rename { from: "renamed".into(), to: "new/renamed".into() },
            Op::Unlink("removed".into()),
            Op::Unlink("swapped".into()),
            create("swapped"),
            Op::Chmod { path: "kept".into(), mode: 0o600 },
            Op::SetXattr { path: "swapped".into(), name: "more".into(), len_bytes: 3, tag: 4 },
        ];
        changes.into_iter().for_each(|op| history.push(op));
        history.push(Op::MakePoint("before-rollback".into()));
        for point in ["then", "before-rollback"] {
            roll_back(&mut history, point, &mut seeded(1, "rollback"));
            history.world.points()[point].same_files(&history.world.tree()).unwrap();
        }
        let kept = &history.world.tree().entries()[1].clone();
        assert_eq!(kept.content[..20], pattern(1, 0, 20));
        assert_eq!(kept.mode, 0o600);
    }

    #[test]
    fn every_fourth_history_with_points_is_rolled_back_and_forth() {
        for seed in 0..8 {
            let ops = Shape::Points.ops(seed);
            let copies = ops.iter().filter(|op| matches!(op, Op::CopyBack { .. })).count();
            let renames =
                ops.iter().filter(|op| matches!(op, Op::Rename { from, .. } if from.starts_with(ASIDE)));
            println!("{seed}: {copies} copies, {} renames", renames.count());
            assert_eq!(copies > 10, seed % 4 == 3, "{seed}: {copies}");
        }
    }
}
