//! Carries operations out on a mounted volume.

use super::{CALLER, OpenVolume};
use crate::crash::op::{Op, pattern};
use crate::crash::tree::NodeKind;
use crate::crash::world::{DIRECTORY_MODE, FILE_MODE, acl_name};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::store::{Preparation, Scope};
use firnfs::vfs::{Allocate, NewNode, RenameMode, SetAttr, XattrMode};
use firnfs_format::InodeNo;

impl<S: Engine> OpenVolume<S> {
    pub(super) fn carry_out(&mut self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::UnlinkOpen(path) => return self.unlink_open(path),
            Op::UseOpen { len_bytes, tag } => return self.use_open(*len_bytes, *tag),
            Op::CloseOpen => return self.close_open(),
            Op::MakeUnnamed { len_bytes, tag } => return self.make_unnamed(*len_bytes, *tag),
            Op::FsyncUnnamed => return self.fsync_unnamed(),
            Op::LinkUnnamed { to } => return self.link_unnamed(to),
            Op::Step { ms } => {
                self.clock.advance_ms(*ms as i64);
                return self.step(false);
            }
            Op::CleanStep => return self.step(true),
            Op::PartOfFsync(path) => {
                self.volume.wait_for_work(0);
                let scope = Scope::File(self.find(path)?);
                self.volume
                    .run_quietly(|vfs, now| vfs.prepare_commit(now, scope, &mut Preparation::default()))?;
                self.volume.pump();
                return Ok(());
            }
            Op::BeginRead(path) => return self.begin_read(path),
            Op::FinishRead => return self.finish_reads(),
            Op::HeldBack { changes, name } => return self.hold_back(changes, name),
            _ => {}
        }
        match op {
            Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Punch { .. }
            | Op::Allocate { .. }
            | Op::ZeroRange { .. } => self.change_content(op),
            Op::Chmod { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::SetAcl { .. }
            | Op::RemoveAcl { .. } => self.change_attributes(op),
            Op::Fsync(path) => self.volume.sync(Scope::File(self.find(path)?)),
            Op::Sync => self.volume.sync(Scope::All),
            Op::Idle { ms } => {
                self.clock.advance_ms(*ms as i64);
                self.volume.background()?;
                self.when_idle.map_or(Ok(()), |work| work(&self.volume))
            }
            Op::MakePoint(_) | Op::DropPoint(_) | Op::MakeClone { .. } | Op::DropClone(_) | Op::Retain(_) => {
                self.change_points(op)
            }
            Op::CopyBack { point, from, path, part } => self.copy_back(point, from, path, part),
            Op::CreateFor { .. } | Op::Chown { .. } | Op::TurnQuotas(_) | Op::SetLimits { .. } => {
                self.change_quotas(op)
            }
            _ => self.change_names(op),
        }
    }

    fn step(&self, is_pressed: bool) -> Result<(), FsError> {
        // A promise to do background work: operations leave it to the next step from now on.
        self.volume.wait_for_work(0);
        self.volume.run_quietly(|vfs, now| vfs.store_mut().step(now, is_pressed))?;
        self.volume.pump();
        Ok(())
    }

    fn change_names(&self, op: &Op) -> Result<(), FsError> {
        let volume = &self.volume;
        match op {
            Op::Create(path) => self.make(path, Kind::Regular, FILE_MODE, 0, b""),
            Op::Mkdir(path) => self.make(path, Kind::Directory, DIRECTORY_MODE, 0, b""),
            Op::Mkfifo(path) => self.make(path, Kind::Fifo, FILE_MODE, 0, b""),
            Op::Mknod { path, kind, rdev } => {
                let kind = match kind {
                    NodeKind::CharDevice => Kind::CharDevice,
                    NodeKind::BlockDevice => Kind::BlockDevice,
                    NodeKind::Socket => Kind::Socket,
                    _ => Kind::Fifo,
                };
                self.make(path, kind, FILE_MODE, *rdev, b"")
            }
            Op::Symlink { target, path } => self.make(path, Kind::Symlink, 0o777, 0, target.as_bytes()),
            Op::Link { from, to } => {
                let ino = self.find(from)?;
                let (parent, name) = self.parent(to)?;
                volume.run(|vfs, now| vfs.link(now, ino, parent, name, false)).map(drop)
            }
            Op::Unlink(path) => {
                let (parent, name) = self.parent(path)?;
                volume.run(|vfs, now| vfs.unlink(now, parent, name))
            }
            Op::Rmdir(path) => {
                let (parent, name) = self.parent(path)?;
                volume.run(|vfs, now| vfs.rmdir(now, parent, name))
            }
            Op::Rename { from, to } => self.rename(from, to, RenameMode::Replace),
            Op::Exchange { from, to } => self.rename(from, to, RenameMode::Exchange),
            _ => Err(FsError::Invalid("a mounted volume does not mount itself")),
        }
    }

    fn change_content(&self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::Write { path, at_bytes, len_bytes, tag } => {
                let bytes = pattern(*tag, *at_bytes, *len_bytes);
                let ino = self.find(path)?;
                self.volume.write_all(ino, *at_bytes, &bytes, false)?;
                // A program closes what it wrote, or goes on. A store that does not hear of it makes no difference.
                if tag % 2 == 0 { self.volume.file_closed(ino) } else { Ok(()) }
            }
            Op::Truncate { path, size_bytes } => {
                self.set_attr(path, SetAttr { size_bytes: Some(*size_bytes), ..SetAttr::default() })
            }
            Op::Punch { path, at_bytes, len_bytes } => {
                self.allocate(path, Allocate::PunchHole, *at_bytes, *len_bytes)
            }
            Op::Allocate { path, at_bytes, len_bytes, keep_size } => {
                let mode = if *keep_size { Allocate::KeepSize } else { Allocate::Grow };
                self.allocate(path, mode, *at_bytes, *len_bytes)
            }
            Op::ZeroRange { path, at_bytes, len_bytes, keep_size } => {
                self.allocate(path, Allocate::ZeroRange(*keep_size), *at_bytes, *len_bytes)
            }
            _ => Err(FsError::Invalid("does not change content")),
        }
    }

    fn change_attributes(&self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::Chmod { path, mode } => {
                self.set_attr(path, SetAttr { mode: Some(*mode), ..SetAttr::default() })
            }
            Op::SetXattr { path, name, len_bytes, tag } => {
                self.set_xattr(path, &format!("user.{name}"), &pattern(*tag, 0, *len_bytes))
            }
            Op::RemoveXattr { path, name } => self.remove_xattr(path, &format!("user.{name}")),
            Op::SetAcl { path, default, acl } => self.set_xattr(path, acl_name(*default), &acl.encode()),
            Op::RemoveAcl { path, default } => self.remove_xattr(path, acl_name(*default)),
            _ => Err(FsError::Invalid("does not change attributes")),
        }
    }

    pub(super) fn find(&self, path: &str) -> Result<InodeNo, FsError> {
        self.find_below(InodeNo::ROOT, path)
    }

    /// The file under a path from a directory.
    pub(super) fn find_below(&self, dir: InodeNo, path: &str) -> Result<InodeNo, FsError> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(dir, |dir, part| {
            self.volume.run(|vfs, now| vfs.lookup(now, dir, part.as_bytes(), false)).map(|attr| attr.ino)
        })
    }

    pub(super) fn parent<'p>(&self, path: &'p str) -> Result<(InodeNo, &'p [u8]), FsError> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.find(parent)?, name.as_bytes()))
    }

    fn make(&self, path: &str, kind: Kind, mode: u16, rdev: u64, target: &[u8]) -> Result<(), FsError> {
        let (parent, name) = self.parent(path)?;
        let node = NewNode { kind, mode, rdev, target };
        self.volume.run(|vfs, now| vfs.make(now, CALLER, parent, name, node, false)).map(drop)
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<(), FsError> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        self.volume.run(|vfs, now| vfs.rename(now, from, to, mode))
    }

    fn set_attr(&self, path: &str, set: SetAttr) -> Result<(), FsError> {
        let ino = self.find(path)?;
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
    }

    pub(super) fn set_xattr(&self, path: &str, name: &str, value: &[u8]) -> Result<(), FsError> {
        let ino = self.find(path)?;
        self.volume.run(|vfs, now| vfs.setxattr(now, ino, name.as_bytes(), value, XattrMode::Any))
    }

    fn remove_xattr(&self, path: &str, name: &str) -> Result<(), FsError> {
        let ino = self.find(path)?;
        self.volume.run(|vfs, now| vfs.removexattr(now, ino, name.as_bytes()))
    }

    fn allocate(&self, path: &str, mode: Allocate, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
        let ino = self.find(path)?;
        let (mut at, end) = (at_bytes, at_bytes + len_bytes);
        while let Some(rest) =
            self.volume.run(|vfs, now| vfs.fallocate(now, ino, mode, at, end - at, false))?
        {
            at = rest;
        }
        Ok(())
    }
}
