//! Extended attributes in the model.

use super::{Answer, Model};
use crate::ops::File;
use firnfs::inode::Kind;
use firnfs::vfs::XattrMode;
use firnfs_format::TimeNs;

impl Model {
    fn check_xattr(&self, id: u64, name: &[u8]) -> Answer<()> {
        let kind = self.nodes[&id].stat.kind;
        match name.split(|&byte| byte == b'.').next() {
            Some(b"user") if name.len() == 5 => Err("EINVAL"),
            Some(b"user") if !matches!(kind, Kind::Regular | Kind::Directory) => Err("EPERM"),
            Some(b"user" | b"trusted" | b"security") => Ok(()),
            _ => Err("EOPNOTSUPP"),
        }
    }

    pub(super) fn set_xattr(
        &mut self,
        now: TimeNs,
        file: &File,
        name: &[u8],
        value: Vec<u8>,
        mode: XattrMode,
    ) -> Answer<()> {
        let id = self.find(file)?;
        self.check_xattr(id, name)?;
        if value.len() > 65536 {
            return Err("E2BIG");
        }
        let there = self.nodes[&id].xattrs.contains_key(name);
        match mode {
            XattrMode::Create if there => return Err("EEXIST"),
            XattrMode::Replace if !there => return Err("ENODATA"),
            _ => {}
        }
        let mut set = self.nodes[&id].xattrs.clone();
        set.insert(name.to_vec(), value);
        if set.iter().map(|(name, value)| 5 + name.len() + value.len()).sum::<usize>() > self.xattrs_max_bytes
        {
            return Err("ENOSPC");
        }
        self.node(id).xattrs = set;
        self.node(id).stat.ctime = now;
        Ok(())
    }

    pub(super) fn get_xattr(&self, file: &File, name: &[u8]) -> Answer<Vec<u8>> {
        let id = self.find(file)?;
        if self.check_xattr(id, name) == Err("EOPNOTSUPP") {
            return Err("EOPNOTSUPP");
        }
        self.nodes[&id].xattrs.get(name).cloned().ok_or("ENODATA")
    }

    pub(super) fn remove_xattr(&mut self, now: TimeNs, file: &File, name: &[u8]) -> Answer<()> {
        let id = self.find(file)?;
        self.check_xattr(id, name)?;
        self.node(id).xattrs.remove(name).ok_or("ENODATA")?;
        self.node(id).stat.ctime = now;
        Ok(())
    }
}
