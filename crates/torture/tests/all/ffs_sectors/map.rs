//! `sectors`: where a Fast File System has its metadata, and which inodes each sector describes, read with the format alone.

use firnfs_device::SparseImage;
use firnfs_format::InodeNo;
use firnfs_format::ffs::inode::{DINODE_BYTES, DIRECT};
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_format::ffs::{Dinode, Superblock, VolumeLayout};
use std::collections::BTreeSet;

pub const SECTOR_BYTES: usize = 512;
/// The `DT_*` number of directories.
const DIRECTORY: u8 = 4;
/// A pointer's bit for blocks that were never written.
const UNWRITTEN: u32 = 1 << 31;

/// What a sector is part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    Superblock,
    Descriptor,
    Summaries,
    Inodes,
    Indirect,
    Entries,
    Index,
    Attributes,
}

impl Form {
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// A sector of metadata that is not all zeros.
#[derive(Clone, Debug)]
pub struct Sector {
    pub at_bytes: u64,
    pub form: Form,
    pub owners: Vec<InodeNo>,
}

struct Surveyor<'a> {
    image: &'a SparseImage,
    layout: VolumeLayout,
    found: Vec<Sector>,
}

/// All of them.
pub fn sectors(image: &SparseImage) -> Vec<Sector> {
    let mut sb = [0; SECTOR_BYTES];
    image.read(COPY_AT_BYTES, &mut sb);
    let layout = Superblock::decode(&sb).unwrap().layout;
    let mut surveyor = Surveyor { image, layout, found: Vec::new() };
    for group in 0..layout.groups {
        surveyor.group(group);
    }
    let mut places = BTreeSet::new();
    surveyor.found.retain(|sector| places.insert(sector.at_bytes));
    surveyor.found
}

impl Surveyor<'_> {
    fn at(&self, frags: u32) -> u64 {
        u64::from(frags) * u64::from(self.layout.frag_bytes)
    }

    fn push(&mut self, start: u64, len_bytes: u64, form: Form, owners: &[InodeNo]) {
        for at_bytes in (start..start + len_bytes).step_by(SECTOR_BYTES) {
            let mut bytes = [0; SECTOR_BYTES];
            self.image.read(at_bytes, &mut bytes);
            if bytes.iter().any(|byte| *byte != 0) {
                self.found.push(Sector { at_bytes, form, owners: owners.to_vec() });
            }
        }
    }

    fn group(&mut self, group: u32) {
        let layout = self.layout;
        let start = self.at(group * layout.group_frags);
        let block_bytes = u64::from(layout.block_bytes);
        self.push(start + COPY_AT_BYTES, SECTOR_BYTES as u64, Form::Superblock, &[]);
        self.push(start + self.at(layout.descriptor_at()), block_bytes, Form::Descriptor, &[]);
        if group == 0 {
            self.push(self.at(layout.summaries_at()), layout.summaries_bytes(), Form::Summaries, &[]);
        }
        let per_sector = (SECTOR_BYTES / DINODE_BYTES) as u32;
        for first in (0..layout.group_inodes).step_by(per_sector as usize) {
            let at_bytes = start + self.at(layout.inodes_at()) + u64::from(first) * DINODE_BYTES as u64;
            let numbers =
                (first..first + per_sector).map(|at| InodeNo(u64::from(group * layout.group_inodes + at)));
            let numbers: Vec<InodeNo> = numbers.collect();
            self.inodes(at_bytes, &numbers);
        }
    }

    fn inodes(&mut self, at_bytes: u64, numbers: &[InodeNo]) {
        let mut bytes = [0; SECTOR_BYTES];
        self.image.read(at_bytes, &mut bytes);
        let mut used = 0;
        for (ino, stored) in numbers.iter().zip(bytes.chunks(DINODE_BYTES)) {
            let inode = Dinode::decode(stored).unwrap();
            used += u32::from(inode.kind != 0);
            if inode.kind != 0 {
                self.forks(*ino, &inode);
            }
        }
        if used > 0 {
            self.push(at_bytes, SECTOR_BYTES as u64, Form::Inodes, numbers);
        }
    }

    fn forks(&mut self, ino: InodeNo, inode: &Dinode) {
        let data = (inode.kind == DIRECTORY).then_some(Form::Entries);
        for (roots, form) in inode.roots.iter().zip([data, Some(Form::Index), Some(Form::Attributes)]) {
            for (slot, &ptr) in roots.iter().enumerate() {
                self.tree(ino, ptr, slot.saturating_sub(DIRECT - 1), form);
            }
        }
    }

    /// A block and what is below it.
    fn tree(&mut self, ino: InodeNo, ptr: u32, level: usize, leaf: Option<Form>) {
        if ptr == 0 || ptr & UNWRITTEN != 0 {
            return;
        }
        let (start, len_bytes) = (self.at(ptr), self.layout.block_bytes as usize);
        if level == 0 {
            // The last block may be a few fragments; what follows them belongs to others and is found as theirs.
            if let Some(form) = leaf {
                let of_tail =
                    if form == Form::Attributes { self.layout.frag_bytes as usize } else { len_bytes };
                self.push(start, of_tail as u64, form, &[ino]);
            }
            return;
        }
        self.push(start, len_bytes as u64, Form::Indirect, &[ino]);
        let mut bytes = vec![0; len_bytes];
        self.image.read(start, &mut bytes);
        for ptr in bytes.chunks(4).map(|ptr| u32::from_le_bytes(ptr.try_into().unwrap())) {
            self.tree(ino, ptr, level - 1, leaf);
        }
    }
}
