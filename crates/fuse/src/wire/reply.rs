//! Replies: a buffer that one worker reuses for every answer, and the encoders that fill it.
//!
//! The buffer holds only the payload; the transport sends the header first. Its capacity bounds every answer: reads
//! and directory listings never exceed what the handshake agreed on. What was read from a file stays where it lies in memory: a
//! transport that can send many pieces sends those, others have it copied into the buffer ([`Reply::gather`]), as far as
//! it was not read there.

use super::abi;
use firnfs::inode::Kind;
use firnfs::states::{branch_of, is_past, local};
use firnfs::vfs::Attr;
use firnfs_device::AlignedBuf;
use firnfs_format::InodeNo;
use firnfs_volume::Scattered;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Seconds that names and attributes stay valid in the kernel: for ever, since nobody else changes the volume.
/// (Not `u64::MAX`: the kernel adds it to its clock.)
pub const FOREVER_S: u64 = 1 << 32;
/// The same for what belongs to the past, and for the root directories of clones, in seconds: snapshots and clones go, and permissions of
/// today take away from those of then.
const PAST_S: u64 = 1;

fn valid_s(attr: &Attr) -> u64 {
    let is_root_of_clone = branch_of(attr.ino) != 0 && local(attr.ino) == InodeNo::ROOT;
    if is_past(attr.ino) || is_root_of_clone { PAST_S } else { FOREVER_S }
}

/// `st_blksize`: the size of I/O that programs should use, in bytes. Larger than a block, since every WRITE is a round
/// trip to the daemon.
pub const PREFERRED_IO_BYTES: u32 = 64 << 10;

/// The payload of one answer.
pub struct Reply {
    buf: AlignedBuf,
    len: usize,
    /// Bytes of a file, instead of those in the buffer.
    read: Option<Scattered>,
}

impl Reply {
    /// A buffer for answers of at most `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        Self::over(AlignedBuf::zeroed(capacity_bytes.max(4096)))
    }

    /// Answers go into these bytes, as many as there are.
    #[must_use]
    pub fn over(buf: AlignedBuf) -> Self {
        Self { buf, len: 0, read: None }
    }

    /// Gives the bytes back, with the length of the answer at their beginning.
    #[must_use]
    pub fn into_parts(self) -> (AlignedBuf, usize) {
        (self.buf, self.len)
    }

    /// What the buffer holds so far.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Length of the answer in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len + self.read.as_ref().map_or(0, Scattered::len_bytes)
    }

    /// All of the answer, piece by piece.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.payload()).chain(self.read.iter().flat_map(|read| read.slices(&self.buf)))
    }

    /// Most bytes that it can hold.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.buf.len()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
        self.read = None;
    }

    /// Makes it an answer of these bytes, at most as many as the capacity.
    pub fn put_read(&mut self, read: Scattered) {
        self.len = 0;
        self.read = Some(read);
    }

    /// Copies into the buffer what is elsewhere.
    pub fn gather(&mut self) {
        if let Some(read) = self.read.take() {
            read.copy_to(&mut self.buf);
            self.len = read.len_bytes();
        }
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// If they exceed the capacity, which callers bound.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds a flag to an answer to INIT; false if the reply is none, or has no room for that flag.
    pub fn agree_on(&mut self, flag: u64) -> bool {
        let Ok((init, _)) = abi::InitOut::mut_from_prefix(&mut self.buf[..self.len]) else { return false };
        if u64::from(init.flags) & abi::init::INIT_EXT == 0 {
            return false;
        }
        init.flags |= flag as u32;
        init.flags2 |= (flag >> 32) as u32;
        true
    }

    /// Appends a struct.
    pub fn put<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.put_bytes(value.as_bytes());
    }

    /// Empties it and lends room for `len_bytes` (at most the capacity); [`Reply::filled`] then says how much was
    /// used.
    pub fn room(&mut self, len_bytes: usize) -> &mut [u8] {
        self.len = 0;
        let len = len_bytes.min(self.buf.len());
        &mut self.buf[..len]
    }

    /// See [`Reply::room`].
    pub fn filled(&mut self, len_bytes: usize) {
        self.len = len_bytes.min(self.buf.len());
    }

    /// Appends a name, its inode's attributes, and how long the kernel may keep both.
    pub fn put_entry(&mut self, attr: &Attr) {
        self.put(&entry_out(attr));
    }

    /// A name that does not exist, which the kernel may remember.
    pub fn put_negative_entry(&mut self) {
        self.put(&abi::EntryOut { entry_valid: FOREVER_S, ..Default::default() });
    }

    /// Appends attributes.
    pub fn put_attr(&mut self, attr: &Attr) {
        self.put(&abi::AttrOut { attr_valid: valid_s(attr), attr: fuse_attr(attr), ..Default::default() });
    }

    /// Appends attributes with the time of birth.
    pub fn put_statx(&mut self, attr: &Attr) {
        let plain = fuse_attr(attr);
        let (rdev_major, rdev_minor) = split_rdev(attr.rdev);
        self.put(&abi::StatxOut {
            attr_valid: valid_s(attr),
            mask: STATX_BASIC_STATS | STATX_BTIME,
            blksize: plain.blksize,
            nlink: plain.nlink,
            uid: plain.uid,
            gid: plain.gid,
            mode: plain.mode as u16,
            ino: plain.ino,
            size: plain.size,
            blocks: plain.blocks,
            atime: sx_time(attr.atime),
            btime: sx_time(attr.btime),
            ctime: sx_time(attr.ctime),
            mtime: sx_time(attr.mtime),
            rdev_major,
            rdev_minor,
            ..Default::default()
        });
    }

    /// Appends a directory entry unless that would exceed `limit_bytes`; returns whether it fitted.
    pub fn put_dirent(&mut self, limit_bytes: usize, ino: u64, next: u64, kind: Kind, name: &[u8]) -> bool {
        let fits = self.len + dirent_bytes(name.len()) <= limit_bytes.min(self.buf.len());
        if fits {
            let namelen = name.len() as u32;
            self.put(&abi::Dirent { ino, off: next, namelen, kind: u32::from(kind as u8) });
            self.put_bytes(name);
            let padding = self.len.next_multiple_of(8) - self.len;
            self.put_bytes(&[0; 8][..padding]);
        }
        fits
    }
}

const STATX_BASIC_STATS: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

/// Bytes that a name takes in READDIR.
#[must_use]
pub fn dirent_bytes(name_bytes: usize) -> usize {
    (size_of::<abi::Dirent>() + name_bytes).next_multiple_of(8)
}

/// Bytes that a name takes in READDIRPLUS.
#[must_use]
pub fn direntplus_bytes(name_bytes: usize) -> usize {
    size_of::<abi::EntryOut>() + dirent_bytes(name_bytes)
}

fn entry_out(attr: &Attr) -> abi::EntryOut {
    abi::EntryOut {
        nodeid: attr.ino.0,
        generation: attr.generation,
        entry_valid: valid_s(attr),
        attr_valid: valid_s(attr),
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr: fuse_attr(attr),
    }
}

fn fuse_attr(attr: &Attr) -> abi::FuseAttr {
    let ((atime, atimensec), (mtime, mtimensec), (ctime, ctimensec)) =
        (attr.atime.parts(), attr.mtime.parts(), attr.ctime.parts());
    abi::FuseAttr {
        ino: attr.ino.0,
        size: attr.size_bytes,
        blocks: attr.allocated_bytes.div_ceil(512),
        atime: atime.cast_unsigned(),
        mtime: mtime.cast_unsigned(),
        ctime: ctime.cast_unsigned(),
        atimensec,
        mtimensec,
        ctimensec,
        mode: u32::from(attr.kind as u8) << 12 | u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: pack_rdev(attr.rdev),
        blksize: PREFERRED_IO_BYTES,
        flags: 0,
    }
}

fn sx_time(time: firnfs_format::TimeNs) -> abi::SxTime {
    let (tv_sec, tv_nsec) = time.parts();
    abi::SxTime { tv_sec, tv_nsec, reserved: 0 }
}

fn split_rdev(rdev: u64) -> (u32, u32) {
    ((rdev >> 32) as u32, rdev as u32)
}

/// The kernel's 32-bit device number: 12 bits major, 20 bits minor.
#[must_use]
pub fn pack_rdev(rdev: u64) -> u32 {
    let (major, minor) = split_rdev(rdev);
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
}

/// Reverse of [`pack_rdev`]: `major << 32 | minor`.
#[must_use]
pub fn unpack_rdev(rdev: u32) -> u64 {
    let major = (rdev >> 8) & 0xfff;
    let minor = (rdev & 0xff) | (rdev >> 12 & 0xfff00);
    u64::from(major) << 32 | u64::from(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_kernels_packing() {
        for (major, minor) in [(0_u64, 0_u64), (1, 3), (8, 17), (259, 70_000), (4095, 1_048_575)] {
            let rdev = major << 32 | minor;
            assert_eq!(unpack_rdev(pack_rdev(rdev)), rdev, "{major}:{minor}");
        }
        // /dev/sdb1 as stat(2) shows it: 8:17.
        assert_eq!(pack_rdev(8 << 32 | 17), 0x811);
    }

    #[test]
    fn directory_entries_stop_at_the_limit_and_stay_aligned() {
        let mut reply = Reply::new(4096);
        let mut count = 0;
        while reply.put_dirent(4096, 5, count + 1, Kind::Regular, b"seventeen letters") {
            count += 1;
            assert_eq!(reply.payload().len() % 8, 0);
            assert_eq!(reply.payload().len(), dirent_bytes(17) * count as usize);
        }
        assert_eq!(count, 4096 / 48);
    }
}
