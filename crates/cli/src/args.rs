//! The command line of `firn`: one definition for parsing, help, man pages and completions.
//!
//! Each command's own arguments are declared next to its code; this file only combines them.

use crate::age::AgeCommand;
use crate::bench::BenchArgs;
use crate::clean::CleanArgs;
use crate::color::When;
use crate::dump::DumpArgs;
use crate::freeze::{FreezeArgs, ThawArgs};
use crate::fsck::FsckArgs;
use crate::history::{
    CloneArgs, DiffArgs, LogArgs, ReceiveArgs, RestoreArgs, RollbackArgs, SendArgs, SnapshotArgs,
    UndeleteArgs,
};
use crate::manual::{CompletionsArgs, ManArgs};
use crate::mkfs::MkfsArgs;
use crate::mounting::{MountArgs, SyncArgs, UdevArgs, UmountArgs};
use crate::paper::PaperArgs;
use crate::quota::QuotaArgs;
use crate::record::RecordArgs;
use crate::resize::ResizeArgs;
use crate::retain::RetainArgs;
use crate::scrub::ScrubArgs;
use crate::sim::SimCommand;
use crate::sizes::parse_size;
use crate::stat::{DfArgs, StatArgs};
use crate::trim::TrimArgs;
use crate::tune::TuneArgs;
use crate::watch::WatchArgs;
use crate::workload::WorkloadCommand;
use clap::{Parser, Subcommand};

/// A log-structured file system on an image file or block device, without a kernel module
#[derive(Parser, Debug)]
#[command(
    name = "firn",
    version,
    about,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  firn mkfs disk.img --size 20G       make a volume on a new image file
  firn mount disk.img /mnt            mount it
  firn stat /mnt                      show the state of the volume and its log
  firn sync /mnt; firn umount /mnt    make everything durable; unmount
  firn fsck disk.img                  check it
  firn scrub /mnt                     check it while it is mounted

Exit codes:
  0    done
  1    failed: I/O, no space, no permission
  2    the command line is invalid
  3    not a firnfs volume, or of another version, or damaged
  4    refused: in use, content would be overwritten, or the volume has no log
  130  ended by Ctrl-C, after cleaning up
  143  ended by SIGTERM, after cleaning up
`firn fsck` uses the exit codes of fsck(8) instead."
)]
pub struct Cli {
    /// When to use colours: on a terminal, unless NO_COLOR is set or TERM is dumb; always; never
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, hide_possible_values = true, value_name = "WHEN")]
    pub color: When,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a volume
    Mkfs(MkfsArgs),
    /// Mount a volume: an image file, a block device, or one in memory
    Mount(MountArgs),
    /// Unmount a volume and wait until it is safely closed
    Umount(UmountArgs),
    /// Make everything on a mounted volume durable
    Sync(SyncArgs),
    /// Hold changes, so that the image of a mounted volume can be copied
    Freeze(FreezeArgs),
    /// End a freeze
    Thaw(ThawArgs),
    /// Keep the volume as it is now; list and delete what is kept
    Snapshot(SnapshotArgs),
    /// Show which states of a volume are kept, and the versions of a file
    Log(LogArgs),
    /// Show what changed between two states of a volume
    Diff(DiffArgs),
    /// Give files and directories back as they were
    Restore(RestoreArgs),
    /// Show what was deleted in a directory, and give it back
    Undelete(UndeleteArgs),
    /// Make a volume as it was, and keep the present as a snapshot
    Rollback(RollbackArgs),
    /// Make a tree that began as a kept state, to be changed; list and delete such trees
    Clone(CloneArgs),
    /// Write a state of a volume, or what changed since an older one, as a stream
    Send(SendArgs),
    /// Make an image the replica of a state, from a stream
    Receive(ReceiveArgs),
    /// Show the state of a volume and its log
    Stat(StatArgs),
    /// Watch a mounted volume in use: rates, segments, the cleaner's choices
    Watch(WatchArgs),
    /// Show the space of volumes
    Df(DfArgs),
    /// Show superblock, checkpoints, segments, inodes or the ifile of a volume
    Dump(DumpArgs),
    /// Check a volume that is not mounted
    Fsck(FsckArgs),
    /// Check a mounted volume while it is in use
    Scrub(ScrubArgs),
    /// Clean segments of a mounted volume from outside its daemon
    Clean(CleanArgs),
    /// Show and set quotas of users and groups on a mounted volume
    Quota(QuotaArgs),
    /// Make a volume larger or smaller, mounted or not
    Resize(ResizeArgs),
    /// Discard the clean segments of a volume, so that the device can use their space
    Trim(TrimArgs),
    /// Show and change the settings of a mounted volume
    Tune(TuneArgs),
    /// Show and set which states of the past a volume keeps
    Retain(RetainArgs),
    /// Measure file systems
    Bench(BenchArgs),
    /// Age file systems: snapshots, layout scores, workloads, replay, benchmarks
    #[command(
        subcommand,
        after_help = "Examples:
  firn age workload --random 1G --full 65 --operations 500000 -o a.fwl
                              a workload that ages a file system
  firn age replay a.fwl disk.img
                              age a volume by it
  firn age layout disk.img    how well its files are laid out then"
    )]
    Age(AgeCommand),
    /// Simulate cleaning
    #[command(
        subcommand,
        after_help = "Examples:
  firn sim cleaning --policy greedy,cost-benefit --utilisation 0.5,0.75
                              what cleaning costs with two policies
  firn sim trace day.fwl      what a recording would cost on a simulated disk
  firn sim disk hp97560       the properties of a simulated disk"
    )]
    Sim(SimCommand),
    /// Make the figures and tables of the papers, and compare them with theirs
    Paper(PaperArgs),
    /// Record what programs ask of a mounted volume
    Record(RecordArgs),
    /// Show workloads: what programs asked of a file system; convert traces of other programs
    #[command(
        subcommand,
        after_help = "Examples:
  firn workload info day.fwl  what a recording has, and whether it is whole
  firn workload head day.fwl -n 20
                              its first records
  firn workload convert day.fwl day.csv --to csv
                              as a table"
    )]
    Workload(WorkloadCommand),
    /// Write the completion script of a shell to standard output
    Completions(CompletionsArgs),
    /// Write the man pages
    Man(ManArgs),
    /// Print what a block device holds, for the rule of udev that comes with firn
    #[command(hide = true)]
    UdevId(UdevArgs),
}

/// For clap: a size such as `20G`, in bytes.
///
/// # Errors
/// See [`crate::sizes::SizeError`].
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no description", command.get_name());
            let inner: Vec<_> =
                command.get_subcommands().filter(|c| c.get_name() != "help" && !c.is_hide_set()).collect();
            if inner.is_empty() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{} has no example", command.get_name());
            }
            inner.into_iter().for_each(check);
        }
        check(&Cli::command());
    }
}
