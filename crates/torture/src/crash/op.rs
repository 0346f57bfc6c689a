//! Operations of the crash explorer: changes of a file system, and syncs.

use super::quota::Bounds;
use super::tree::NodeKind;
use super::world::AclSpec;
use firnfs::ufs::quota::Class;
use firnfs_format::checkpoint::Retention;
use std::fmt;

/// One operation. Paths are relative to the root, without a leading slash; the root itself is "".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Makes an empty regular file.
    Create(String),
    /// Makes a directory.
    Mkdir(String),
    /// Makes a FIFO.
    Mkfifo(String),
    /// Makes a device or a socket.
    Mknod {
        /// Its name.
        path: String,
        /// Its type.
        kind: NodeKind,
        /// `major << 32 | minor`; 0 for a socket.
        rdev: u64,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Its target.
        target: String,
        /// Its name.
        path: String,
    },
    /// Gives a file one more name.
    Link {
        /// An existing name.
        from: String,
        /// The new one.
        to: String,
    },
    /// Removes a name of anything but a directory.
    Unlink(String),
    /// Opens a regular file and removes this name. It stays open until [`Op::CloseOpen`] or a remount.
    UnlinkOpen(String),
    /// Appends to every file that [`Op::UnlinkOpen`] holds open, and reads its whole content back.
    UseOpen {
        /// Number of bytes.
        len_bytes: u64,
        /// As in `Write`.
        tag: u64,
    },
    /// Closes those files, and those that [`Op::MakeUnnamed`] made.
    CloseOpen,
    /// Makes a regular file without a name, as `O_TMPFILE` does, and writes to it. It stays open until [`Op::LinkUnnamed`],
    /// [`Op::CloseOpen`] or a remount.
    MakeUnnamed {
        /// Number of bytes.
        len_bytes: u64,
        /// As in `Write`.
        tag: u64,
    },
    /// Makes all those files durable, with every earlier change of names.
    FsyncUnnamed,
    /// Gives the oldest of those files its first name, and closes it.
    LinkUnnamed {
        /// The name.
        to: String,
    },
    /// Removes an empty directory.
    Rmdir(String),
    /// Renames, replacing an existing target.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Swaps two names.
    Exchange {
        /// One name.
        from: String,
        /// The other name.
        to: String,
    },
    /// Writes bytes that no other operation writes: see [`pattern`].
    Write {
        /// The file.
        path: String,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// Makes the bytes differ from those of any other write.
        tag: u64,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        path: String,
        /// New size in bytes.
        size_bytes: u64,
    },
    /// Makes a range a hole; the size stays.
    Punch {
        /// The file.
        path: String,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Reserves space for a range; existing content stays.
    Allocate {
        /// The file.
        path: String,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// Whether the size stays.
        keep_size: bool,
    },
    /// Makes a range zeros with reserved space.
    ZeroRange {
        /// The file.
        path: String,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// Whether the size stays.
        keep_size: bool,
    },
    /// Sets the permission bits.
    Chmod {
        /// The file or directory.
        path: String,
        /// 0 to 0o777.
        mode: u16,
    },
    /// Sets an extended attribute of the `user` namespace.
    SetXattr {
        /// The file or directory.
        path: String,
        /// Name without "user.".
        name: String,
        /// Length of the value, which [`pattern`] makes.
        len_bytes: u64,
        /// As in `Write`.
        tag: u64,
    },
    /// Removes an extended attribute of the `user` namespace.
    RemoveXattr {
        /// The file or directory.
        path: String,
        /// Name without "user.".
        name: String,
    },
    /// Sets a POSIX ACL.
    SetAcl {
        /// The file or directory.
        path: String,
        /// Whether it is the ACL that new files in a directory inherit.
        default: bool,
        /// The ACL.
        acl: AclSpec,
    },
    /// Removes a POSIX ACL, if there is one.
    RemoveAcl {
        /// The file or directory.
        path: String,
        /// As in `SetAcl`.
        default: bool,
    },
    /// Makes an empty regular file that belongs to a user and a group.
    CreateFor {
        /// Its name.
        path: String,
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// Gives a file to another user and group.
    Chown {
        /// The file or directory.
        path: String,
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// Turns quotas on or off.
    TurnQuotas(bool),
    /// Sets what a user or group may have.
    SetLimits {
        /// User or group.
        class: Class,
        /// Which; never the superuser.
        id: u32,
        /// The limits.
        bounds: Bounds,
    },
    /// Makes the state of the volume a retained point of that name, and waits until it is durable. No name is used twice.
    MakePoint(String),
    /// As a replica receives a state: carries out changes that count only together with the point of that name, which becomes durable.
    HeldBack {
        /// The changes, none of them a sync.
        changes: Vec<Op>,
        /// The name of the point.
        name: String,
    },
    /// Begins to drop a retained point; work in the background does the rest.
    DropPoint(String),
    /// Gives a regular file, or one of its user attributes, what a file has in a retained point, read from there.
    CopyBack {
        /// The name of the point.
        point: String,
        /// The path there.
        from: String,
        /// The path in the present.
        path: String,
        /// What is copied.
        part: Part,
    },
    /// Makes a clone of a retained point, and waits until it is durable: a tree below [`CLONES`]. No name is used twice.
    MakeClone {
        /// The name of the point.
        point: String,
        /// The name of the clone.
        name: String,
    },
    /// Deletes a clone, and waits until all of it is gone.
    DropClone(String),
    /// Sets which automatic points the volume makes and keeps, and waits until that is durable.
    Retain(Retention),
    /// Opens a regular file and plans to read all of it; [`Op::FinishRead`] later reads the blocks from the disk.
    BeginRead(String),
    /// Carries out the planned reads: they must return the content at the time when they were planned.
    FinishRead,
    /// Makes a file or directory durable, with every earlier change of names.
    Fsync(String),
    /// Makes everything durable.
    Sync,
    /// Lets time pass, so that background work (commit interval, checkpoint, cleaning) is done.
    Idle {
        /// How much, in milliseconds.
        ms: u64,
    },
    /// Lets time pass and does one step of background work: what is due is done in part.
    Step {
        /// How much, in milliseconds.
        ms: u64,
    },
    /// Does one step of background work as if an operation waited for room: mostly one of the cleaner.
    CleanStep,
    /// Does the next part of an fsync of a file or directory and goes on: nothing is promised yet.
    PartOfFsync(String),
    /// Unmounts cleanly and mounts again.
    Remount,
}

/// A part of a file that [`Op::CopyBack`] copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of its content. What a longer file has behind it stays.
    Content,
    /// The value of an extended attribute of the `user` namespace, by its name without "user.".
    Attribute(String),
}

impl Op {
    /// Whether it promises durability once it has returned.
    #[must_use]
    pub fn is_sync(&self) -> bool {
        matches!(
            self,
            Self::Fsync(_)
                | Self::FsyncUnnamed
                | Self::Sync
                | Self::Remount
                | Self::MakePoint(_)
                | Self::HeldBack { .. }
                | Self::MakeClone { .. }
                | Self::DropClone(_)
                | Self::Retain(_)
        )
    }

    /// Whether it makes or drops a point that a user asked for.
    #[must_use]
    pub fn changes_points(&self) -> bool {
        matches!(self, Self::MakePoint(_) | Self::DropPoint(_) | Self::HeldBack { .. })
    }
}

/// Where clones are: paths of what is in them begin so.
pub const CLONES: &str = ".firn/clones/";

/// The clone that a path is in, if it is in one.
#[must_use]
pub fn clone_in(path: &str) -> Option<&str> {
    path.strip_prefix(CLONES).map(|below| below.split('/').next().unwrap_or_default())
}

fn keeping(size: bool) -> &'static str {
    if size { "-keep-size" } else { "" }
}

fn inherited(default: bool) -> &'static str {
    if default { "-default" } else { "" }
}

/// The bytes a write with this tag puts at an offset of a file. Every 8 bytes identify the write and the offset, so that a
/// block of another file, offset or time is recognised.
#[must_use]
pub fn pattern(tag: u64, at_bytes: u64, len_bytes: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(len_bytes as usize + 16);
    let mut word = at_bytes / 8;
    while (out.len() as u64) < len_bytes + at_bytes % 8 {
        let value = (tag + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word);
        out.extend_from_slice(&value.to_le_bytes());
        word += 1;
    }
    out.drain(..(at_bytes % 8) as usize);
    out.truncate(len_bytes as usize);
    out
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Mkfifo(path) => write!(f, "mkfifo {path}"),
            Self::Mknod { path, kind, rdev } => write!(f, "mknod {path} {kind:?} {rdev}"),
            Self::Symlink { target, path } => write!(f, "symlink {target} {path}"),
            Self::Link { from, to } => write!(f, "link {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::UnlinkOpen(path) => write!(f, "unlink-open {path}"),
            Self::UseOpen { len_bytes, tag } => write!(f, "use-open {len_bytes} tag {tag}"),
            Self::CloseOpen => f.write_str("close-open"),
            Self::MakeUnnamed { len_bytes, tag } => write!(f, "make-unnamed {len_bytes} tag {tag}"),
            Self::FsyncUnnamed => f.write_str("fsync-unnamed"),
            Self::LinkUnnamed { to } => write!(f, "link-unnamed {to}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Rename { from, to } => write!(f, "rename {from} {to}"),
            Self::Exchange { from, to } => write!(f, "exchange {from} {to}"),
            Self::Write { path, at_bytes, len_bytes, tag } => {
                write!(f, "write {path} {at_bytes}+{len_bytes} tag {tag}")
            }
            Self::Truncate { path, size_bytes } => write!(f, "truncate {path} {size_bytes}"),
            Self::Punch { path, at_bytes, len_bytes } => write!(f, "punch {path} {at_bytes}+{len_bytes}"),
            Self::Allocate { path, at_bytes, len_bytes, keep_size } => {
                write!(f, "allocate{} {path} {at_bytes}+{len_bytes}", keeping(*keep_size))
            }
            Self::ZeroRange { path, at_bytes, len_bytes, keep_size } => {
                write!(f, "zero-range{} {path} {at_bytes}+{len_bytes}", keeping(*keep_size))
            }
            Self::Chmod { path, mode } => write!(f, "chmod {path} {mode:o}"),
            Self::SetXattr { path, name, len_bytes, .. } => write!(f, "setxattr {path} {name} {len_bytes}"),
            Self::RemoveXattr { path, name } => write!(f, "removexattr {path} {name}"),
            Self::SetAcl { path, default, acl } => write!(f, "set-acl{} {path} {acl}", inherited(*default)),
            Self::RemoveAcl { path, default } => write!(f, "remove-acl{} {path}", inherited(*default)),
            Self::CreateFor { path, uid, gid } => write!(f, "create {path} for {uid}:{gid}"),
            Self::Chown { path, uid, gid } => write!(f, "chown {uid}:{gid} {path}"),
            Self::TurnQuotas(true) => f.write_str("quotas-on"),
            Self::TurnQuotas(false) => f.write_str("quotas-off"),
            Self::SetLimits { class, id, bounds } => write!(
                f,
                "set-limits {class:?} {id} {}:{} bytes, {}:{} inodes",
                bounds.bytes_soft, bounds.bytes_hard, bounds.inodes_soft, bounds.inodes_hard
            ),
            Self::MakePoint(name) => write!(f, "make-point {name}"),
            Self::HeldBack { changes, name } => {
                f.write_str("held-back (")?;
                changes.iter().try_for_each(|op| write!(f, "{op}; "))?;
                write!(f, "make-point {name})")
            }
            Self::DropPoint(name) => write!(f, "drop-point {name}"),
            Self::CopyBack { point, from, path, part: Part::Content } => {
                write!(f, "copy-back {point}:{from} {path}")
            }
            Self::CopyBack { point, from, path, part: Part::Attribute(name) } => {
                write!(f, "copy-back {point}:{from} {path} attribute {name}")
            }
            Self::MakeClone { point, name } => write!(f, "make-clone {name} of {point}"),
            Self::DropClone(name) => write!(f, "drop-clone {name}"),
            Self::Retain(Retention { percent, rules }) => {
                f.write_str("retain")?;
                rules.iter().try_for_each(|rule| write!(f, " {} s:{} s", rule.every_s, rule.for_s))?;
                write!(f, " at most {percent}%")
            }
            Self::BeginRead(path) => write!(f, "begin-read {path}"),
            Self::FinishRead => f.write_str("finish-read"),
            Self::Fsync(path) if path.is_empty() => f.write_str("fsync ."),
            Self::Fsync(path) => write!(f, "fsync {path}"),
            Self::Sync => f.write_str("sync"),
            Self::Idle { ms } => write!(f, "idle {ms} ms"),
            Self::Step { ms } => write!(f, "step {ms} ms"),
            Self::CleanStep => f.write_str("clean-step"),
            Self::PartOfFsync(path) => write!(f, "part-of-fsync {path}"),
            Self::Remount => f.write_str("remount"),
        }
    }
}
