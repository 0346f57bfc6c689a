//! What is made of retained points: clones, and what is copied back into the present.

use super::{CLONES, Invalid, NodeKind, World};
use crate::crash::op::Part;

impl World {
    pub(super) fn make_clone(&mut self, point: &str, name: &str) -> Result<(), Invalid> {
        let tree = self.points.get(point).cloned().ok_or("no such point")?;
        if self.clones.contains_key(name) {
            return Err("exists");
        }
        self.plant(&tree, &format!("{CLONES}{name}"));
        self.clones.get_mut(name).expect("planted").0 = point.to_owned();
        Ok(())
    }

    pub(super) fn drop_clone(&mut self, name: &str) -> Result<(), Invalid> {
        let (_, root) = self.clones.remove(name).ok_or("no such clone")?;
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            // A file with several names is met more than once.
            let gone = self.nodes.remove(&id);
            pending.extend(gone.iter().flat_map(|node| node.children.values().copied()));
        }
        Ok(())
    }

    /// Clones, with the points that they began as.
    pub fn clones(&self) -> impl Iterator<Item = (&str, &str)> {
        self.clones.iter().map(|(name, (point, _))| (name.as_str(), point.as_str()))
    }

    /// Copies a part of a file from a point.
    pub(super) fn copy_back(
        &mut self,
        point: &str,
        from: &str,
        path: &str,
        part: &Part,
    ) -> Result<(), Invalid> {
        let tree = self.points.get(point).cloned().ok_or("no such point")?;
        let original = tree.entries().iter().find(|entry| entry.path == from).ok_or("no such file there")?;
        match part {
            Part::Content if original.kind != NodeKind::File => return Err("not a regular file there"),
            Part::Content => {
                let (content, back) = (self.content_mut(path)?, &original.content);
                content.resize(content.len().max(back.len()), 0);
                content[..back.len()].copy_from_slice(back);
            }
            Part::Attribute(name) => {
                let value = original.xattrs.get(name).ok_or("no such attribute there")?;
                self.attributes_mut(path)?.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }
}
