//! Quotas: their operations, and what a mount must say about them. If they are on, the usage of every user and group is what the names and
//! the open files add up to, and a hard limit holds.

use super::{FILE_MODE, OpenVolume};
use crate::crash::op::Op;
use crate::crash::quota::{Bounds, Quotas};
use crate::crash::tree::Entry;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::ufs::quota::{Class, Usage};
use firnfs::vfs::{Allocate, Caller, LimitChange, NewNode, QuotaLine, QuotaReport, SetAttr, Vfs};
use firnfs::{FsError, Outcome};
use firnfs_format::InodeNo;
use std::collections::{BTreeMap, BTreeSet};

/// Much more than a store may charge beyond what an operation takes, in bytes.
const SLACK_BYTES: u64 = 64 << 10;

type Sums = BTreeMap<(Class, u32), Usage>;

impl<S: Engine> OpenVolume<S> {
    pub(super) fn change_quotas(&self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::TurnQuotas(is_on) => self.volume.turn_quotas(*is_on),
            Op::SetLimits { class, id, bounds } => {
                let change = LimitChange {
                    bytes_soft: Some(bounds.bytes_soft),
                    bytes_hard: Some(bounds.bytes_hard),
                    inodes_soft: Some(bounds.inodes_soft),
                    inodes_hard: Some(bounds.inodes_hard),
                };
                self.volume.run(|vfs, now| vfs.set_limits(now, *class, *id, change))
            }
            Op::CreateFor { path, uid, gid } => self.create_for(path, *uid, *gid).map(drop),
            Op::Chown { path, uid, gid } => {
                let ino = self.find(path)?;
                let set = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
            }
            _ => Err(FsError::Invalid("does not change quotas")),
        }
    }

    fn create_for(&self, path: &str, uid: u32, gid: u32) -> Result<InodeNo, FsError> {
        let (parent, name) = self.parent(path)?;
        let caller = Caller { uid, gid, umask: 0 };
        let node = NewNode { kind: Kind::Regular, mode: FILE_MODE, rdev: 0, target: b"" };
        Ok(self.volume.run(|vfs, now| vfs.make(now, caller, parent, name, node, false))?.ino)
    }

    /// What the volume says. `entries`: all names.
    pub(super) fn quotas(&self, entries: &[Entry]) -> Result<Quotas, String> {
        // Together: between two calls, work in the background may change what a file is charged.
        let told = self.volume.run(|vfs, now| {
            let report = vfs.quota_report(now)?;
            let sums = if report.is_on { Some(self.count(vfs, entries)?) } else { None };
            Ok((report, sums, vfs.read_only().is_some()))
        });
        let (report, counted, is_read_only) = told.map_err(|e| format!("quotas: {e}"))?;
        if let Some(counted) = counted {
            agree(&report, &counted)?;
        }
        let bounds = |line: &QuotaLine| Bounds {
            bytes_soft: line.limits.bytes.soft,
            bytes_hard: line.limits.bytes.hard,
            inodes_soft: line.limits.inodes.soft,
            inodes_hard: line.limits.inodes.hard,
        };
        let mut quotas = Quotas { are_on: (!is_read_only).then_some(report.is_on), limits: BTreeMap::new() };
        report.lines.iter().for_each(|line| quotas.set(line.class, line.id, bounds(line)));
        Ok(quotas)
    }

    /// What everyone has, from the names and the open files.
    fn count(&self, vfs: &mut Vfs<S>, entries: &[Entry]) -> Outcome<Sums> {
        let mut files: BTreeSet<InodeNo> = entries.iter().map(|entry| InodeNo(entry.ino)).collect();
        files.extend(self.nameless.iter().map(|(ino, _)| *ino));
        files.extend(&self.unnamed);
        let mut sums = Sums::new();
        for ino in files {
            let attr = vfs.getattr(ino)?;
            for id in [(Class::User, attr.uid), (Class::Group, attr.gid)] {
                let sum = sums.entry(id).or_default();
                sum.bytes += attr.allocated_bytes;
                sum.inodes += 1;
            }
        }
        Ok(sums)
    }

    /// Requires that nobody gets beyond a hard limit, and that usage stays right when what the crash left behind is freed.
    pub(super) fn enforce_quotas(&self) -> Result<(), String> {
        let report = self.volume.run(|vfs, now| vfs.quota_report(now)).map_err(|e| e.to_string())?;
        if !report.is_on {
            return Ok(());
        }
        for line in report.lines.iter().filter(|line| line.limits.bytes.hard > 0) {
            match self.take_beyond(line) {
                Err(FsError::OverQuota | FsError::NoSpace) => {}
                taken => return Err(format!("{:?} {} is not limited: {taken:?}", line.class, line.id)),
            }
        }
        self.volume.background().map_err(|e| e.to_string())?;
        match self.volume.recount_quotas().map_err(|e| e.to_string())? {
            Some(wrong) if wrong.is_empty() => Ok(()),
            wrong => Err(format!("after work in the background usage is wrong: {wrong:?}")),
        }
    }

    fn take_beyond(&self, line: &QuotaLine) -> Result<(), FsError> {
        let (uid, gid) = match line.class {
            Class::User => (line.id, 0),
            Class::Group => (0, line.id),
        };
        let ino = self.create_for(&format!("beyond {:?} {}", line.class, line.id), uid, gid)?;
        let len_bytes = line.limits.bytes.hard + SLACK_BYTES;
        let mode = Allocate::KeepSize;
        self.volume.run(|vfs, now| vfs.fallocate(now, ino, mode, 0, len_bytes, false)).map(drop)
    }
}

fn agree(report: &QuotaReport, counted: &Sums) -> Result<(), String> {
    let lines = report.lines.iter().filter(|line| line.usage != Usage::default());
    let kept: Sums = lines.map(|line| ((line.class, line.id), line.usage)).collect();
    if !report.is_counted {
        return Err("usage has not been counted".to_owned());
    }
    if kept != *counted {
        return Err(format!("usage is {counted:?}, the volume says {kept:?}"));
    }
    Ok(())
}
