//! What is measured: the tasks, the scenarios that group them, and their sizes.

use serde::{Deserialize, Serialize};

/// Sizes of the tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Files created, read and deleted in one directory.
    pub small_files: u32,
    /// Size of each of them, in bytes.
    pub small_bytes: u32,
    /// Files that are fsynced one by one.
    pub fsync_files: u32,
    /// Size of the large file, in bytes.
    pub large_bytes: u64,
    /// Unit in which the large file is written and read, in bytes.
    pub unit_bytes: u32,
    /// Files in the tree that is unpacked.
    pub tree_files: u32,
    /// Files in the tree that has the size of a kernel's source.
    pub kernel_files: u32,
    /// Files in the repository that is cloned.
    pub repository_files: u32,
    /// Crates in the project that is built.
    pub crates: u32,
    /// Transactions of the database.
    pub transactions: u32,
    /// Bytes written to measure bandwidth.
    pub sequential_bytes: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            small_files: 10_000,
            small_bytes: 1024,
            fsync_files: 1_000,
            large_bytes: 100 << 20,
            unit_bytes: 8192,
            tree_files: 8_000,
            kernel_files: 70_000,
            repository_files: 2_000,
            crates: 16,
            transactions: 1_000,
            sequential_bytes: 512 << 20,
        }
    }
}

/// A timed task: a row of the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Create many small files in one directory.
    CreateSmall,
    /// Create as many with two clients at once, each in a directory of its own.
    CreateTwo,
    /// The same with four clients.
    CreateFour,
    /// The same with eight clients.
    CreateEight,
    /// The same with 16 clients.
    CreateSixteen,
    /// Write as much as the large file has with two clients at once, each to a file of its own.
    WriteTwo,
    /// The same with four clients.
    WriteFour,
    /// The same with eight clients.
    WriteEight,
    /// The same with 16 clients.
    WriteSixteen,
    /// Read them in creation order.
    ReadSmall,
    /// Delete them in creation order.
    DeleteSmall,
    /// Create files and fsync each.
    CreateFsync,
    /// Write a large file from front to back, then fsync.
    WriteSequential,
    /// Read it from front to back.
    ReadSequential,
    /// Read all its units once in random order.
    ReadRandom,
    /// Overwrite all its units once in random order, then fsync.
    OverwriteRandom,
    /// Read it from front to back after that.
    Reread,
    /// Unpack a tar archive of a tree.
    Unpack,
    /// Walk the tree with find(1).
    Find,
    /// Remove it with rm -rf.
    RemoveTree,
    /// Unpack a tar archive of the size of a kernel's source.
    UnpackKernel,
    /// Clone a local repository with git, copying all objects.
    GitClone,
    /// Build a project with cargo.
    Build,
    /// Transactions in a database file with sqlite3.
    Transactions,
    /// [`Task::CreateSmall`] through the library, without a mount.
    LibraryCreate,
    /// Write distinct data to a device, past the page cache.
    RawWrite,
    /// Write the same data to one file of a volume on that device, through the library.
    SegmentWrite,
    /// Compute the checksums of the large file's blocks.
    Checksum,
}

impl Task {
    /// Its description, with the numbers of the workload.
    #[must_use]
    pub fn title(self, w: &Workload) -> String {
        let large = w.large_bytes >> 20;
        let unit = w.unit_bytes;
        match self {
            Self::CreateSmall => format!("create {} x {} B in one directory", w.small_files, w.small_bytes),
            Self::CreateTwo | Self::CreateFour | Self::CreateEight | Self::CreateSixteen => {
                let clients = number(self.clients());
                format!("create {} x {} B, {clients} clients, a directory each", w.small_files, w.small_bytes)
            }
            Self::WriteTwo | Self::WriteFour | Self::WriteEight | Self::WriteSixteen => {
                let clients = number(self.clients());
                format!("write {large} MiB, {unit} B a call, {clients} clients, a file each")
            }
            Self::ReadSmall => "read them in creation order".to_owned(),
            Self::DeleteSmall => "delete them".to_owned(),
            Self::CreateFsync => format!("create {} files, each fsynced", w.fsync_files),
            Self::WriteSequential => format!("write {large} MiB sequentially, {unit} B a call"),
            Self::ReadSequential => format!("read {large} MiB sequentially, {unit} B a call"),
            Self::ReadRandom => format!("read {large} MiB at random, {unit} B a call"),
            Self::OverwriteRandom => format!("overwrite {large} MiB at random, {unit} B a call"),
            Self::Reread => "read it sequentially again after that".to_owned(),
            Self::Unpack => format!("unpack a tree of {} files", w.tree_files),
            Self::Find => "find in the tree".to_owned(),
            Self::RemoveTree => "rm -rf the tree".to_owned(),
            Self::UnpackKernel => format!("unpack a tree of {} files", w.kernel_files),
            Self::GitClone => format!("git clone of {} files, no hard links", w.repository_files),
            Self::Build => format!("cargo build of {} crates", w.crates),
            Self::Transactions => format!("sqlite3: {} transactions", w.transactions),
            Self::LibraryCreate => format!("library: create {} x {} B", w.small_files, w.small_bytes),
            Self::RawWrite => "raw device: direct writes of 1 MiB".to_owned(),
            Self::SegmentWrite => "library: the same data to one file".to_owned(),
            Self::Checksum => format!("checksum of {large} MiB"),
        }
    }

    /// The number of its operations: files, calls on the large file, crates, transactions.
    #[must_use]
    pub fn operations(self, w: &Workload) -> u64 {
        match self {
            Self::CreateSmall
            | Self::CreateTwo
            | Self::CreateFour
            | Self::CreateEight
            | Self::CreateSixteen
            | Self::ReadSmall
            | Self::DeleteSmall
            | Self::LibraryCreate => u64::from(w.small_files),
            Self::CreateFsync => u64::from(w.fsync_files),
            Self::WriteSequential
            | Self::WriteTwo
            | Self::WriteFour
            | Self::WriteEight
            | Self::WriteSixteen
            | Self::ReadSequential
            | Self::ReadRandom
            | Self::OverwriteRandom
            | Self::Reread => w.large_bytes / u64::from(w.unit_bytes),
            Self::Unpack | Self::Find | Self::RemoveTree => u64::from(w.tree_files),
            Self::UnpackKernel => u64::from(w.kernel_files),
            Self::GitClone => u64::from(w.repository_files),
            Self::Build => u64::from(w.crates),
            Self::Transactions => u64::from(w.transactions),
            Self::RawWrite | Self::SegmentWrite | Self::Checksum => 1,
        }
    }

    /// How many clients do it at once.
    #[must_use]
    pub fn clients(self) -> u32 {
        match self {
            Self::CreateTwo | Self::WriteTwo => 2,
            Self::CreateFour | Self::WriteFour => 4,
            Self::CreateEight | Self::WriteEight => 8,
            Self::CreateSixteen | Self::WriteSixteen => 16,
            _ => 1,
        }
    }

    /// Whether it runs besides the targets, as part of a figure, and has no row of its own.
    #[must_use]
    pub fn is_part_of_figure(self) -> bool {
        matches!(self, Self::LibraryCreate | Self::RawWrite | Self::SegmentWrite | Self::Checksum)
    }
}

/// A number of clients in running text.
fn number(clients: u32) -> String {
    match clients {
        2 => "two".to_owned(),
        4 => "four".to_owned(),
        8 => "eight".to_owned(),
        more => more.to_string(),
    }
}

/// Tasks that build on each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Create, read, delete small files.
    Small,
    /// Small files, each fsynced.
    Fsync,
    /// One large file.
    Large,
    /// A tree of files.
    Tree,
    /// Two to 16 clients at once.
    Clients,
    /// A tree of the size of a kernel's source.
    Kernel,
    /// A clone with git.
    Git,
    /// A build with cargo.
    Build,
    /// Transactions with sqlite3.
    Database,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Small,
        Self::Clients,
        Self::Fsync,
        Self::Large,
        Self::Tree,
        Self::Kernel,
        Self::Git,
        Self::Build,
        Self::Database,
    ];

    /// Short name for progress.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Small => "small files",
            Self::Fsync => "fsync",
            Self::Large => "large file",
            Self::Tree => "tree",
            Self::Clients => "several clients",
            Self::Kernel => "large tree",
            Self::Git => "git clone",
            Self::Build => "cargo build",
            Self::Database => "transactions",
        }
    }

    /// The program that it cannot do without and that a machine may lack.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Tree | Self::Kernel => Some("tar"),
            Self::Git => Some("git"),
            Self::Build => Some("cargo"),
            Self::Database => Some("sqlite3"),
            Self::Small | Self::Fsync | Self::Large | Self::Clients => None,
        }
    }
}
