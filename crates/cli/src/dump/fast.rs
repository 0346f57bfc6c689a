//! `firn dump` of a Fast File System: the superblock and its copies, the groups, one inode. As stored: nothing is recovered or repaired.

use super::DumpArgs;
use super::inode_view::kind_name;
use super::views::uuid_text;
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::sizes::{Bytes, Count};
use crate::stat::fast::policies;
use firnfs::FsError;
use firnfs::ffs::{NotFfs, find_superblock, places_of_superblocks};
use firnfs_device::{Access, Device, DeviceError, FileDevice, FileOptions, Lock};
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::ffs::superblock::SUPERBLOCK_BYTES;
use firnfs_format::ffs::{Descriptor, Dinode, State, Superblock, UNWRITTEN, VolumeLayout};
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// A multiple of any device's block; volumes consist of such units.
const ALIGN_BYTES: u64 = 4096;

/// The superblock and the groups.
#[derive(Serialize)]
struct Overview {
    uuid: String,
    label: String,
    created: String,
    size_bytes: u64,
    block_bytes: u32,
    frag_bytes: u32,
    group_frags: u32,
    group_inodes: u32,
    minfree_percent: u32,
    maxcontig: u32,
    rotdelay_ms: u32,
    max_blocks_per_group: u32,
    policies: Vec<String>,
    /// The volume was unmounted; null if the first superblock is damaged.
    cleanly_unmounted: Option<bool>,
    mounts: u32,
    /// Groups whose copy of the superblock is damaged.
    damaged_copies: Vec<u32>,
    descriptors: Vec<GroupView>,
}

/// A group's descriptor.
#[derive(Serialize)]
struct GroupView {
    group: u32,
    /// First fragment of the group, and of its data.
    first_frag: u32,
    data_frag: u32,
    frags: u32,
    /// Why it has no descriptor, or null.
    error: Option<String>,
    directories: u32,
    free_blocks: u32,
    free_frags: u32,
    free_inodes: u32,
}

/// An inode as stored.
#[derive(Serialize)]
struct InodeView {
    inode: u64,
    group: u32,
    /// File type, or `free`.
    kind: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size_bytes: u64,
    generation: u32,
    xattr_bytes: u32,
    /// Directories: the parent. Device nodes: their number.
    node: u64,
    mtime: String,
    ctime: String,
    frags: u32,
    /// 12 direct pointers and those of the levels of indirect blocks, in fragments; bit 31 is left out, see `unwritten`.
    data: Vec<u32>,
    index: Vec<u32>,
    xattr: Vec<u32>,
    /// Places of pointers in `data` to blocks that were never written.
    unwritten: Vec<usize>,
}

struct Volume {
    device: FileDevice,
    sb: Superblock,
    is_first_damaged: bool,
}

/// Shows what was asked for.
///
/// # Errors
/// It cannot be read; the part belongs to a log.
pub fn run(path: &Path, args: &DumpArgs, inode: Option<u64>, output: &mut Output) -> Done {
    let part = &args.part;
    if part.segment.is_some() || part.checkpoint || part.ifile {
        return Err(Failure::usage("a Fast File System has no segments, checkpoints or ifile")
            .advise("without options, dump shows its groups; --inode N shows an inode"));
    }
    let volume = Volume::open(path)?;
    match inode {
        Some(number) => {
            let view = volume.inode(number)?;
            output.show(args.json, &view, |out| inode_text(out, &view))
        }
        None => {
            let view = volume.overview()?;
            output.show(args.json, &view, |out| overview_text(out, &view))
        }
    }
}

/// Reads any range: devices read whole blocks of theirs.
fn read_aligned(device: &FileDevice, at_bytes: u64, len_bytes: u32) -> Result<Vec<u8>, DeviceError> {
    let start = at_bytes / ALIGN_BYTES * ALIGN_BYTES;
    let (from, end) = ((at_bytes - start) as usize, at_bytes + u64::from(len_bytes));
    let bytes = device.read(start, (end.next_multiple_of(ALIGN_BYTES) - start) as u32)?;
    Ok(bytes[from..from + len_bytes as usize].to_vec())
}

impl Volume {
    fn open(path: &Path) -> Done<Self> {
        let file = FileOptions { access: Access::ReadOnly, lock: Lock::None, ..FileOptions::default() };
        let device = FileDevice::open(path, &file).map_err(|e| open_failed(&e))?;
        let size_bytes = device.geometry().size_bytes;
        let mut read = |at_bytes: u64, len_bytes: u32| {
            read_aligned(&device, at_bytes, len_bytes).map_err(|e| FsError::Io(e.to_string()))
        };
        let found = find_superblock(&mut read, size_bytes)
            .map_err(|NotFfs(why)| Failure::new(Exit::NotAVolume, format!("{}: {why}", path.display())))?;
        Ok(Self { sb: found.sb, is_first_damaged: found.first_damaged.is_some(), device })
    }

    fn read(&self, at_bytes: u64, len_bytes: u32) -> Done<Vec<u8>> {
        let failed = |e| Failure::failed(format!("cannot read byte {at_bytes}: {e}"));
        read_aligned(&self.device, at_bytes, len_bytes).map_err(failed)
    }

    fn place(&self, frag: u64) -> u64 {
        frag * u64::from(self.sb.layout.frag_bytes)
    }

    fn overview(&self) -> Done<Overview> {
        let Superblock { layout, tuning, .. } = &self.sb;
        let mut damaged_copies = Vec::new();
        for (group, at_bytes) in (0..).zip(places_of_superblocks(layout)) {
            let bytes = self.read(at_bytes, SUPERBLOCK_BYTES as u32)?;
            if !Superblock::decode(&bytes).is_ok_and(|copy| copy.is_same_volume(&self.sb)) {
                damaged_copies.push(group);
            }
        }
        Ok(Overview {
            uuid: uuid_text(&self.sb.uuid),
            label: self.sb.label.clone(),
            created: rfc3339(self.sb.created_ns),
            size_bytes: self.place(layout.size_frags),
            block_bytes: layout.block_bytes,
            frag_bytes: layout.frag_bytes,
            group_frags: layout.group_frags,
            group_inodes: layout.group_inodes,
            minfree_percent: tuning.minfree_percent,
            maxcontig: tuning.maxcontig,
            rotdelay_ms: tuning.rotdelay_ms,
            max_blocks_per_group: tuning.max_blocks_per_group,
            policies: policies(tuning),
            cleanly_unmounted: (!self.is_first_damaged).then_some(self.sb.state == State::Clean),
            mounts: self.sb.mounts,
            damaged_copies,
            descriptors: (0..layout.groups).map(|group| self.group(layout, group)).collect::<Done<_>>()?,
        })
    }

    fn group(&self, layout: &VolumeLayout, group: u32) -> Done<GroupView> {
        let first_frag = group * layout.group_frags;
        let at_bytes = self.place(u64::from(first_frag + layout.descriptor_at()));
        let decoded = Descriptor::decode(layout, group, &self.read(at_bytes, layout.block_bytes)?);
        let summary = decoded.as_ref().map(|descriptor| descriptor.summary).unwrap_or_default();
        Ok(GroupView {
            group,
            first_frag,
            data_frag: first_frag + layout.data_at(group),
            frags: layout.frags_in(group),
            error: decoded.err().map(|why| why.to_string()),
            directories: summary.dirs,
            free_blocks: summary.free_blocks,
            free_frags: summary.free_frags,
            free_inodes: summary.free_inodes,
        })
    }

    fn inode(&self, number: u64) -> Done<InodeView> {
        let layout = &self.sb.layout;
        let per_group = u64::from(layout.group_inodes);
        if number == 0 || number >= per_group * u64::from(layout.groups) {
            return Err(Failure::usage(format!("there is no inode {number}")));
        }
        let group = (number / per_group) as u32;
        let table = u64::from(group) * u64::from(layout.group_frags) + u64::from(layout.inodes_at());
        let at_bytes = self.place(table) + number % per_group * DINODE_BYTES as u64;
        let inode = Dinode::decode(&self.read(at_bytes, DINODE_BYTES as u32)?)
            .map_err(|why| Failure::failed(format!("inode {number} is damaged: {why}")))?;
        let plain = |roots: &[u32]| roots.iter().map(|ptr| ptr & !UNWRITTEN).collect();
        let is_unwritten = |slot: &usize| inode.roots[0][*slot] & UNWRITTEN != 0;
        Ok(InodeView {
            inode: number,
            group,
            kind: if inode.kind == 0 { "free" } else { kind_name(inode.kind) },
            mode: format!("{:04o}", inode.mode),
            links: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            size_bytes: inode.size_bytes,
            generation: inode.generation,
            xattr_bytes: inode.xattr_bytes,
            node: inode.node,
            mtime: rfc3339(inode.mtime_ns),
            ctime: rfc3339(inode.ctime_ns),
            frags: inode.frags,
            data: plain(&inode.roots[0]),
            index: plain(&inode.roots[1][..14]),
            xattr: plain(&inode.roots[2][..13]),
            unwritten: (0..inode.roots[0].len()).filter(is_unwritten).collect(),
        })
    }
}

fn overview_text(out: &mut dyn Write, view: &Overview) -> io::Result<()> {
    let label = if view.label.is_empty() { "(none)" } else { &view.label };
    writeln!(out, "superblock: a Fast File System, label {label}, uuid {}", view.uuid)?;
    let state = match view.cleanly_unmounted {
        Some(true) => "unmounted cleanly",
        Some(false) => "mounted, or not unmounted",
        None => "first superblock damaged",
    };
    let mounts = Count(view.mounts.into()).of("mount", "mounts");
    writeln!(out, "  made {}, {mounts} for writing, {state}", view.created)?;
    writeln!(
        out,
        "  {} in blocks of {} and fragments of {}; {} of a file in a group, then another group",
        Bytes(view.size_bytes),
        Bytes(view.block_bytes.into()),
        Bytes(view.frag_bytes.into()),
        Count(view.max_blocks_per_group.into()).of("block", "blocks")
    )?;
    let policies = view.policies.iter().map(|name| format!(", {name}")).collect::<String>();
    writeln!(
        out,
        "  clusters of {}, gaps of {} ms, {}% kept free{policies}",
        Count(view.maxcontig.into()).of("block", "blocks"),
        view.rotdelay_ms,
        view.minfree_percent
    )?;
    if !view.damaged_copies.is_empty() {
        writeln!(out, "  damaged copies of the superblock in groups {:?}", view.damaged_copies)?;
    }
    writeln!(
        out,
        "{:>6} {:>10} {:>10} {:>11} {:>11} {:>11} {:>11}",
        "group", "fragment", "data", "directories", "free blocks", "frags", "inodes"
    )?;
    for group in &view.descriptors {
        write!(out, "{:>6} {:>10} {:>10} ", group.group, group.first_frag, group.data_frag)?;
        match &group.error {
            Some(why) => writeln!(out, "{why}")?,
            None => writeln!(
                out,
                "{:>11} {:>11} {:>11} {:>11}",
                group.directories, group.free_blocks, group.free_frags, group.free_inodes
            )?,
        }
    }
    Ok(())
}

fn inode_text(out: &mut dyn Write, view: &InodeView) -> io::Result<()> {
    if view.kind == "free" {
        return writeln!(
            out,
            "inode {} of group {}: free, generation {}",
            view.inode, view.group, view.generation
        );
    }
    writeln!(
        out,
        "inode {} of group {}: {}, mode {}, {}, owner {}:{}, {} in {}, generation {}",
        view.inode,
        view.group,
        view.kind,
        view.mode,
        Count(view.links.into()).of("link", "links"),
        view.uid,
        view.gid,
        Count(view.size_bytes).of("byte", "bytes"),
        Count(view.frags.into()).of("fragment", "fragments"),
        view.generation
    )?;
    writeln!(out, "  modified {}, changed {}, node {}", view.mtime, view.ctime, view.node)?;
    writeln!(out, "  data {:?}", view.data)?;
    if !view.unwritten.is_empty() {
        writeln!(out, "  never written: {:?}", view.unwritten)?;
    }
    if view.index.iter().any(|ptr| *ptr != 0) {
        writeln!(out, "  index {:?}", view.index)?;
    }
    if view.xattr_bytes > 0 {
        let bytes = Count(view.xattr_bytes.into()).of("byte", "bytes");
        writeln!(out, "  {bytes} of attributes {:?}", view.xattr)?;
    }
    Ok(())
}
