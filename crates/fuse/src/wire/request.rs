//! Requests: decodes the bytes that the kernel sent into a typed [`Operation`].
//!
//! The kernel is trusted to be correct, but it may be newer: an operation that this version does not know, or
//! that is shorter than its structure, becomes [`Operation::Unknown`]. The adapter answers it with ENOSYS and
//! never panics.

use super::abi::{self, opcode};
use zerocopy::{FromBytes, KnownLayout};

/// The caller, and the inode.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// See [`abi::opcode`].
    pub opcode: u32,
    /// Names the request; its reply carries the same number.
    pub unique: u64,
    /// The inode, unless the operation names others.
    pub nodeid: u64,
    /// Caller's user; 0 if the kernel itself asks.
    pub uid: u32,
    /// Caller's group.
    pub gid: u32,
    /// Caller's process; 0 if the kernel itself asks or if the process is in another namespace.
    pub pid: u32,
}

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The caller, and the inode.
    pub header: Header,
    /// The operation with its arguments.
    pub operation: Operation<'a>,
}

/// The operation that the kernel requests. Names and values point into the transport's buffer; names have no NUL
/// and no slash.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are the kernel's own
pub enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u64,
    },
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        items: Forgets<'a>,
    },
    Interrupt {
        unique: u64,
    },
    Getattr,
    Statx,
    Setattr(Box<abi::SetattrIn>),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: u32,
    },
    /// The name that the kernel sends (`/`) has no meaning.
    Tmpfile {
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        target: u64,
        name: &'a [u8],
    },
    Open,
    Opendir,
    Release,
    Releasedir,
    Flush,
    Read {
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
        kill_set_id: bool,
        is_cached: bool,
    },
    Fsync,
    Fsyncdir,
    Syncfs,
    Readdir {
        offset: u64,
        size: u32,
    },
    Readdirplus {
        offset: u64,
        size: u32,
    },
    Statfs,
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        kill_set_gid: bool,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Fallocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        offset: u64,
        whence: u32,
    },
    CopyFileRange {
        from_offset: u64,
        to: u64,
        to_offset: u64,
        len: u64,
        flags: u64,
        wide: bool,
    },
    Ioctl,
    Destroy,
    Unknown,
}

/// The items of a BATCH_FORGET.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Pairs of inode number and lookups to take back.
    pub fn iter(self) -> impl Iterator<Item = (u64, u64)> {
        self.0
            .chunks_exact(size_of::<abi::ForgetOne>())
            .filter_map(|bytes| abi::ForgetOne::read_from_bytes(bytes).ok())
            .map(|one| (one.nodeid, one.nlookup))
    }
}

impl<'a> Request<'a> {
    /// Decodes one message. `None` if it is shorter than a header (the connection is then unusable).
    /// `setxattr_ext` tells whether that capability was agreed on.
    #[must_use]
    pub fn decode(message: &'a [u8], setxattr_ext: bool) -> Option<Self> {
        let (head, rest) = abi::InHeader::read_from_prefix(message).ok()?;
        let body_bytes = (head.len as usize).checked_sub(size_of::<abi::InHeader>())?;
        let body = Body { args: rest.get(..body_bytes)?, names: None };
        Some(Self::of(&head, body, setxattr_ext))
    }

    /// The same of a message in three parts, as it comes through a ring: the header, the operation's struct in a field that may be
    /// longer, and whatever follows it.
    #[must_use]
    pub fn decode_parts(head: &[u8], args: &'a [u8], names: &'a [u8], setxattr_ext: bool) -> Option<Self> {
        let (head, _) = abi::InHeader::read_from_prefix(head).ok()?;
        Some(Self::of(&head, Body { args, names: Some(names) }, setxattr_ext))
    }

    fn of(head: &abi::InHeader, mut body: Body<'a>, setxattr_ext: bool) -> Self {
        let header = Header {
            opcode: head.opcode,
            unique: head.unique,
            nodeid: head.nodeid,
            uid: head.uid,
            gid: head.gid,
            pid: head.pid,
        };
        let operation = operation(head.opcode, &mut body, setxattr_ext).unwrap_or(Operation::Unknown);
        Self { header, operation }
    }
}

/// The rest of a message.
struct Body<'a> {
    /// The operation's struct; what follows it too, unless that is in `names`.
    args: &'a [u8],
    names: Option<&'a [u8]>,
}

impl<'a> Body<'a> {
    fn take<T: FromBytes + KnownLayout>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.args).ok()?;
        self.args = rest;
        Some(value)
    }

    /// What follows the struct.
    fn rest(&mut self) -> &mut &'a [u8] {
        self.names.as_mut().unwrap_or(&mut self.args)
    }

    /// Bytes up to a NUL, which is skipped.
    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest();
        let end = rest.iter().position(|&b| b == 0)?;
        let text = &rest[..end];
        *rest = &rest[end + 1..];
        Some(text)
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let rest = self.rest();
        let (bytes, behind) = rest.split_at_checked(len as usize)?;
        *rest = behind;
        Some(bytes)
    }
}

fn operation<'a>(opcode: u32, body: &mut Body<'a>, setxattr_ext: bool) -> Option<Operation<'a>> {
    Some(match opcode {
        opcode::INIT => init(body)?,
        opcode::FORGET => Operation::Forget { lookups: body.take::<abi::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => {
            body.take::<abi::BatchForgetIn>()?;
            Operation::BatchForget { items: Forgets(body.rest()) }
        }
        opcode::INTERRUPT => Operation::Interrupt { unique: body.take::<abi::InterruptIn>()?.unique },
        opcode::GETATTR => Operation::Getattr,
        opcode::STATX => Operation::Statx,
        opcode::SETATTR => Operation::Setattr(Box::new(body.take()?)),
        opcode::READLINK => Operation::Readlink,
        opcode::OPEN => Operation::Open,
        opcode::OPENDIR => Operation::Opendir,
        opcode::RELEASE => Operation::Release,
        opcode::RELEASEDIR => Operation::Releasedir,
        opcode::FLUSH => Operation::Flush,
        opcode::FSYNC => Operation::Fsync,
        opcode::FSYNCDIR => Operation::Fsyncdir,
        opcode::SYNCFS => Operation::Syncfs,
        opcode::STATFS => Operation::Statfs,
        opcode::IOCTL => Operation::Ioctl,
        opcode::DESTROY => Operation::Destroy,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            attribute_operation(opcode, body, setxattr_ext)?
        }
        opcode::READ
        | opcode::WRITE
        | opcode::READDIR
        | opcode::READDIRPLUS
        | opcode::FALLOCATE
        | opcode::LSEEK
        | opcode::COPY_FILE_RANGE
        | opcode::COPY_FILE_RANGE_64 => data_operation(opcode, body)?,
        _ => name_operation(opcode, body)?,
    })
}

fn init<'a>(body: &mut Body<'a>) -> Option<Operation<'a>> {
    // Old kernels send a shorter struct: the missing fields count as zeros.
    let mut padded = [0; size_of::<abi::InitIn>()];
    let sent = body.args.len().min(padded.len());
    if sent < 16 {
        return None;
    }
    padded[..sent].copy_from_slice(&body.args[..sent]);
    let init = abi::InitIn::read_from_bytes(&padded).ok()?;
    let upper =
        if u64::from(init.flags) & abi::init::INIT_EXT != 0 { u64::from(init.flags2) << 32 } else { 0 };
    Some(Operation::Init {
        major: init.major,
        minor: init.minor,
        max_readahead: init.max_readahead,
        flags: u64::from(init.flags) | upper,
    })
}

fn name_operation<'a>(opcode: u32, body: &mut Body<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        opcode::LOOKUP => Operation::Lookup { name: body.text()? },
        opcode::SYMLINK => {
            let name = body.text()?;
            Operation::Symlink { name, target: body.text()? }
        }
        opcode::MKNOD => {
            let arg: abi::MknodIn = body.take()?;
            Operation::Mknod { name: body.text()?, mode: arg.mode, rdev: arg.rdev, umask: arg.umask }
        }
        opcode::MKDIR => {
            let arg: abi::MkdirIn = body.take()?;
            Operation::Mkdir { name: body.text()?, mode: arg.mode, umask: arg.umask }
        }
        opcode::CREATE => {
            let arg: abi::CreateIn = body.take()?;
            Operation::Create { name: body.text()?, mode: arg.mode, umask: arg.umask, flags: arg.flags }
        }
        opcode::TMPFILE => {
            let arg: abi::CreateIn = body.take()?;
            Operation::Tmpfile { mode: arg.mode, umask: arg.umask }
        }
        opcode::UNLINK => Operation::Unlink { name: body.text()? },
        opcode::RMDIR => Operation::Rmdir { name: body.text()? },
        opcode::RENAME => {
            let new_parent = body.take::<abi::RenameIn>()?.newdir;
            let name = body.text()?;
            Operation::Rename { name, new_parent, new_name: body.text()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let arg: abi::Rename2In = body.take()?;
            let name = body.text()?;
            Operation::Rename { name, new_parent: arg.newdir, new_name: body.text()?, flags: arg.flags }
        }
        opcode::LINK => {
            let target = body.take::<abi::LinkIn>()?.oldnodeid;
            Operation::Link { target, name: body.text()? }
        }
        _ => return None,
    })
}

fn attribute_operation<'a>(opcode: u32, body: &mut Body<'a>, setxattr_ext: bool) -> Option<Operation<'a>> {
    Some(match opcode {
        opcode::SETXATTR => {
            let (size, flags, extra) = if setxattr_ext {
                let arg: abi::SetxattrIn = body.take()?;
                (arg.size, arg.flags, arg.setxattr_flags)
            } else {
                let arg: abi::SetxattrInCompat = body.take()?;
                (arg.size, arg.flags, 0)
            };
            let name = body.text()?;
            let kill_set_gid = extra & abi::SETXATTR_ACL_KILL_SGID != 0;
            Operation::Setxattr { name, value: body.bytes(size)?, flags, kill_set_gid }
        }
        opcode::GETXATTR => {
            let size = body.take::<abi::GetxattrIn>()?.size;
            Operation::Getxattr { name: body.text()?, size }
        }
        opcode::LISTXATTR => Operation::Listxattr { size: body.take::<abi::GetxattrIn>()?.size },
        opcode::REMOVEXATTR => Operation::Removexattr { name: body.text()? },
        _ => return None,
    })
}

fn data_operation<'a>(opcode: u32, body: &mut Body<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS => {
            let abi::ReadIn { offset, size, .. } = body.take()?;
            match opcode {
                opcode::READ => Operation::Read { offset, size },
                opcode::READDIR => Operation::Readdir { offset, size },
                _ => Operation::Readdirplus { offset, size },
            }
        }
        opcode::WRITE => {
            let arg: abi::WriteIn = body.take()?;
            let kill_set_id = arg.write_flags & abi::WRITE_KILL_SUIDGID != 0;
            let is_cached = arg.write_flags & abi::WRITE_CACHE != 0;
            Operation::Write { offset: arg.offset, data: body.bytes(arg.size)?, kill_set_id, is_cached }
        }
        opcode::FALLOCATE => {
            let arg: abi::FallocateIn = body.take()?;
            Operation::Fallocate { offset: arg.offset, len: arg.length, mode: arg.mode }
        }
        opcode::LSEEK => {
            let arg: abi::LseekIn = body.take()?;
            Operation::Lseek { offset: arg.offset, whence: arg.whence }
        }
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            let arg: abi::CopyFileRangeIn = body.take()?;
            Operation::CopyFileRange {
                from_offset: arg.off_in,
                to: arg.nodeid_out,
                to_offset: arg.off_out,
                len: arg.len,
                flags: arg.flags,
                wide: opcode == opcode::COPY_FILE_RANGE_64,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel lays it out.
    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(40 + body.len() as u32).to_ne_bytes());
        out.extend_from_slice(&opcode.to_ne_bytes());
        out.extend_from_slice(&7_u64.to_ne_bytes());
        out.extend_from_slice(&1_u64.to_ne_bytes());
        for word in [1000_u32, 1001, 4242, 0] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_rename_with_flags_decodes_to_its_parts() {
        let mut body = 99_u64.to_ne_bytes().to_vec();
        body.extend_from_slice(&2_u32.to_ne_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(b"old\0new name\0");
        let bytes = message(opcode::RENAME2, &body);
        let request = Request::decode(&bytes, true).unwrap();
        assert_eq!((request.header.uid, request.header.gid, request.header.unique), (1000, 1001, 7));
        let Operation::Rename { name, new_parent, new_name, flags } = request.operation else {
            panic!("{:?}", request.operation)
        };
        assert_eq!((name, new_parent, new_name, flags), (&b"old"[..], 99, &b"new name"[..], 2));
    }

    #[test]
    fn a_message_in_parts_decodes_as_in_one_piece() {
        let mut args = 99_u64.to_ne_bytes().to_vec();
        args.extend_from_slice(&2_u32.to_ne_bytes());
        args.extend_from_slice(&[0; 4]);
        let names = b"old\0new name\0";
        let whole = message(opcode::RENAME2, &[&args[..], &names[..]].concat());
        args.resize(128, 0);
        let parts = Request::decode_parts(&whole[..40], &args, names, true).unwrap();
        let one = Request::decode(&whole, true).unwrap();
        assert_eq!(format!("{parts:?}"), format!("{one:?}"));
        // LOOKUP has no struct.
        let whole = message(opcode::LOOKUP, b"name\0");
        let parts = Request::decode_parts(&whole[..40], &[0; 128], b"name\0", true).unwrap();
        assert!(matches!(parts.operation, Operation::Lookup { name: b"name" }));
    }

    #[test]
    fn every_message_cut_short_anywhere_is_refused_without_a_panic() {
        for opcode in 0..64 {
            let whole = message(opcode, &[b'a'; 120]);
            for len in 0..whole.len() {
                // The length field still gives the whole length: a transport that truncated the message must be
                // noticed.
                assert!(Request::decode(&whole[..len], true).is_none());
                // The length field is correct: the body alone is too short for some operations.
                let mut cut = whole[..len].to_vec();
                if len >= 4 {
                    cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                }
                let decoded = Request::decode(&cut, true);
                assert_eq!(decoded.is_some(), len >= 40, "opcode {opcode}, {len} bytes");
            }
        }
    }

    #[test]
    fn an_init_of_an_old_kernel_counts_missing_flags_as_zero() {
        let mut body = Vec::new();
        for word in [7_u32, 31, 131_072, 0xffff_ffff] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        let bytes = message(opcode::INIT, &body);
        let Operation::Init { minor, flags, .. } = Request::decode(&bytes, false).unwrap().operation else {
            panic!()
        };
        assert_eq!((minor, flags), (31, 0xffff_ffff));
    }
}
