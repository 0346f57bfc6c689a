//! What `firn stat` shows of a Fast File System: its sizes, how it lays files out, and what is free in its groups.

use super::text;
use crate::dump::views::uuid_text;
use crate::sizes::{Bytes, Count};
use firnfs::ffs::Ffs;
use firnfs_format::ffs::{Superblock, Tuning};
use firnfs_lab::calendar::rfc3339;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The volume. Field names are part of the command's interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FastView {
    /// Volume uuid.
    pub uuid: String,
    /// Label.
    pub label: String,
    /// Time of mkfs.
    pub created: String,
    /// Length of the volume.
    pub size_bytes: u64,
    /// Block size.
    pub block_bytes: u32,
    /// Fragment size.
    pub frag_bytes: u32,
    /// Number of groups.
    pub groups: u32,
    /// Length of a group.
    pub group_bytes: u64,
    /// Inodes of a group.
    pub group_inodes: u32,
    /// Share of the space that users do not get, in percent.
    pub minfree_percent: u32,
    /// Contiguous blocks before a gap, and blocks of a cluster.
    pub maxcontig: u32,
    /// Length of a gap, in ms.
    pub rotdelay_ms: u32,
    /// Layout policies: `realloc`, `no-switch`, `smart-frag`.
    pub policies: Vec<String>,
    /// Directories.
    pub directories: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Free whole blocks.
    pub free_blocks: u64,
    /// Free fragments in blocks that are in part used.
    pub free_frags: u64,
}

/// The names of a volume's layout policies, as mkfs takes them.
#[must_use]
pub fn policies(tuning: &Tuning) -> Vec<String> {
    let all =
        [(tuning.reallocates, "realloc"), (tuning.no_switch, "no-switch"), (tuning.smart_frag, "smart-frag")];
    all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_owned()).collect()
}

impl FastView {
    /// Of an open volume.
    #[must_use]
    pub fn of(ffs: &Ffs) -> Self {
        let Superblock { uuid, label, created_ns, layout, tuning, .. } = ffs.superblock();
        let sum = |of: fn(&firnfs_format::ffs::Summary) -> u32| {
            ffs.summaries().iter().map(|group| u64::from(of(group))).sum()
        };
        Self {
            uuid: uuid_text(uuid),
            label: label.clone(),
            created: rfc3339(*created_ns),
            size_bytes: layout.size_frags * u64::from(layout.frag_bytes),
            block_bytes: layout.block_bytes,
            frag_bytes: layout.frag_bytes,
            groups: layout.groups,
            group_bytes: u64::from(layout.group_frags) * u64::from(layout.frag_bytes),
            group_inodes: layout.group_inodes,
            minfree_percent: tuning.minfree_percent,
            maxcontig: tuning.maxcontig,
            rotdelay_ms: tuning.rotdelay_ms,
            policies: policies(tuning),
            directories: sum(|group| group.dirs),
            free_inodes: sum(|group| group.free_inodes),
            free_blocks: sum(|group| group.free_blocks),
            free_frags: sum(|group| group.free_frags),
        }
    }

    /// What it is.
    ///
    /// # Errors
    /// As writing reports.
    pub fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let [block, frag] = [self.block_bytes, self.frag_bytes].map(|bytes| Bytes(bytes.into()));
        let shape = format!(", Fast File System, blocks {block}, frags {frag}");
        text::names(out, &self.label, &self.uuid, (&self.created, &shape))?;
        let policies = self.policies.iter().map(|name| format!(", {name}")).collect::<String>();
        writeln!(
            out,
            "  layout      clusters of {}, gaps of {} ms, {}% kept free{policies}",
            Count(self.maxcontig.into()).of("block", "blocks"),
            self.rotdelay_ms,
            self.minfree_percent
        )
    }

    /// What is free in its groups.
    ///
    /// # Errors
    /// As writing reports.
    pub fn groups(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "  groups      {} of {}, each with {}; {}",
            self.groups,
            Bytes(self.group_bytes),
            Count(self.group_inodes.into()).of("inode", "inodes"),
            Count(self.directories).of("directory", "directories")
        )?;
        writeln!(
            out,
            "  free        {}, {} in other blocks, {}",
            Count(self.free_blocks).of("block", "blocks"),
            Count(self.free_frags).of("fragment", "fragments"),
            Count(self.free_inodes).of("inode", "inodes")
        )
    }
}
