//! The kernel's FUSE structures and numbers, as `linux/fuse.h` declares them (protocol 7.45).
//!
//! Layout only; `request` and `reply` give them meaning. All fields are in the machine's own byte order. Requests lie
//! unaligned in the read buffer, so structs are copied out of it, never borrowed. Sizes are asserted at compile time:
//! the kernel rejects a reply of the wrong length.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Protocol version of this code; daemon and kernel speak the lower of the two minors.
pub const MAJOR: u32 = 7;
/// See [`MAJOR`].
pub const MINOR: u32 = 45;
/// Oldest minor whose structures have the sizes below (Linux 4.20).
pub const OLDEST_MINOR: u32 = 28;

/// Request numbers.
pub mod opcode {
    #![allow(missing_docs)] // the kernel's own names
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BMAP: u32 = 37;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Capabilities that the two sides of INIT can agree on (`FUSE_*` flags; the upper half travels in `flags2`).
pub mod init {
    /// Several reads of one file at a time.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// WRITE of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The umask is left to the daemon (needed for default ACLs).
    pub const DONT_MASK: u64 = 1 << 6;
    /// LOOKUP of `.` and `..` works (NFS export, open_by_handle_at).
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// READDIRPLUS is implemented.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// READDIRPLUS only where it pays.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Several direct reads and writes at a time.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Writes collect in the page cache.
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    /// The kernel understands ENOSYS as the answer to OPEN.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// LOOKUP and READDIR of one directory in parallel.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel checks and caches POSIX ACLs.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// `max_pages` is valid.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Symlink targets stay in the page cache.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// The kernel understands ENOSYS as the answer to OPENDIR.
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    /// Cached pages are dropped only on request.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// The daemon clears set-id bits; a flag of each request says when.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// SETXATTR carries flags.
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` is valid.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Shared mappings of files open for direct I/O.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// Requests come through io_uring.
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// `fuse_setattr_in.valid`.
pub mod fattr {
    #![allow(missing_docs)]
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// `fuse_write_in.write_flags`: the page cache writes, later than its writer did.
pub const WRITE_CACHE: u32 = 1 << 0;
/// `fuse_write_in.write_flags`: the writer may not keep set-id bits alive.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `fuse_setxattr_in.setxattr_flags`: setting this ACL clears the set-group-id bit.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// `fuse_open_out.open_flags`: keep the pages that are cached.
pub const FOPEN_KEEP_CACHE: u32 = 1 << 1;
/// `fuse_open_out.open_flags`: directory entries may be cached.
pub const FOPEN_CACHE_DIR: u32 = 1 << 3;
/// `fuse_open_out.open_flags`: no FLUSH at close.
pub const FOPEN_NOFLUSH: u32 = 1 << 5;
/// Notification: attributes (and, with an offset of 0 or more, pages) of an inode are stale.
pub const NOTIFY_INVAL_INODE: i32 = 2;

macro_rules! abi_in {
    ($(#[$doc:meta])* $name:ident, $size:literal { $($field:ident: $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[allow(missing_docs)] // the kernel's own names
        #[derive(Clone, Copy, Debug, FromBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub struct $name { $(pub $field: $ty),* }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}

macro_rules! abi_out {
    ($(#[$doc:meta])* $name:ident, $size:literal { $($field:ident: $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[allow(missing_docs)] // the kernel's own names
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub struct $name { $(pub $field: $ty),* }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}

abi_in!(
    /// The header of every request.
    InHeader, 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
);
abi_in!(
    /// INIT. Kernels before 7.36 send only the first 16 bytes.
    InitIn, 64 { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] }
);
abi_in!(
    /// Argument of the request of that name.
    ForgetIn, 8 { nlookup: u64 }
);
abi_in!(
    /// Argument of the request of that name.
    BatchForgetIn, 8 { count: u32, dummy: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    ForgetOne, 16 { nodeid: u64, nlookup: u64 }
);
abi_in!(
    /// INTERRUPT: which request.
    InterruptIn, 8 { unique: u64 }
);
abi_in!(
    SetattrIn, 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
);
abi_in!(
    /// Argument of the request of that name.
    MknodIn, 16 { mode: u32, rdev: u32, umask: u32, padding: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    MkdirIn, 8 { mode: u32, umask: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    RenameIn, 8 { newdir: u64 }
);
abi_in!(
    /// Argument of the request of that name.
    Rename2In, 16 { newdir: u64, flags: u32, padding: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    LinkIn, 8 { oldnodeid: u64 }
);
abi_in!(
    /// Argument of the request of that name.
    CreateIn, 16 { flags: u32, mode: u32, umask: u32, open_flags: u32 }
);
abi_in!(
    /// READ, READDIR and READDIRPLUS.
    ReadIn, 40 { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
);
abi_in!(
    WriteIn, 40 { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
);
abi_in!(
    /// SETXATTR once SETXATTR_EXT was agreed.
    SetxattrIn, 16 { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
);
abi_in!(
    /// SETXATTR of kernels before 7.33.
    SetxattrInCompat, 8 { size: u32, flags: u32 }
);
abi_in!(
    /// GETXATTR and LISTXATTR.
    GetxattrIn, 8 { size: u32, padding: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    FallocateIn, 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
);
abi_in!(
    /// Argument of the request of that name.
    LseekIn, 24 { fh: u64, offset: u64, whence: u32, padding: u32 }
);
abi_in!(
    CopyFileRangeIn, 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
);

abi_out!(
    /// The header of every reply; `error` is 0 or a negative errno. In notifications `unique` is 0 and `error` holds
    /// the code.
    OutHeader, 16 { len: u32, error: i32, unique: u64 }
);
abi_out!(
    InitOut, 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
);
abi_out!(
    FuseAttr, 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
);
abi_out!(
    EntryOut, 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: FuseAttr,
    }
);
abi_out!(
    /// Part of the reply of that name.
    AttrOut, 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: FuseAttr }
);
abi_out!(
    /// Part of the reply of that name.
    OpenOut, 16 { fh: u64, open_flags: u32, backing_id: i32 }
);
abi_out!(
    /// Part of the reply of that name.
    WriteOut, 8 { size: u32, padding: u32 }
);
abi_out!(
    /// COPY_FILE_RANGE_64.
    CopyFileRangeOut, 8 { bytes_copied: u64 }
);
abi_out!(
    /// Part of the reply of that name.
    GetxattrOut, 8 { size: u32, padding: u32 }
);
abi_out!(
    /// Part of the reply of that name.
    LseekOut, 8 { offset: u64 }
);
abi_out!(
    StatfsOut, 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
);
abi_out!(
    /// The header of each name in READDIR.
    Dirent, 24 { ino: u64, off: u64, namelen: u32, kind: u32 }
);
abi_out!(
    /// Part of the reply of that name.
    SxTime, 16 { tv_sec: i64, tv_nsec: u32, reserved: i32 }
);
abi_out!(
    StatxOut, 288 {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], mask: u32, blksize: u32, attributes: u64,
        nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32,
        dev_minor: u32, spare2: [u64; 14],
    }
);
abi_out!(
    /// Part of the reply of that name.
    NotifyInvalInode, 24 { ino: u64, off: i64, len: i64 }
);
abi_out!(
    /// FUSE over io_uring: the fields of an entry beside header and payload.
    RingFields, 32 { flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64 }
);
abi_out!(
    /// FUSE over io_uring: the argument of each command.
    RingCommand, 24 { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6] }
);

/// FUSE over io_uring: the header buffer of an entry.
pub mod ring {
    use super::RingFields;
    use std::ops::Range;

    /// Header of the request, and then of the reply.
    pub const HEAD: Range<usize> = 0..128;
    /// The operation's struct.
    pub const ARGS: Range<usize> = 128..256;
    /// [`RingFields`].
    pub const FIELDS: Range<usize> = 256..256 + size_of::<RingFields>();
    /// All of it.
    pub const HEADER_BYTES: usize = FIELDS.end;
    /// Command: offers an entry.
    pub const CMD_REGISTER: u32 = 1;
    /// Command: has the reply, and wants the next request.
    pub const CMD_COMMIT_AND_FETCH: u32 = 2;
}
