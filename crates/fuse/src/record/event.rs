//! From a request and its reply to a record.

use crate::adapter::{PROBE_NODE, Verdict};
use crate::wire::abi::{self, fattr};
use crate::wire::{Operation, Reply, Request};
use firnfs_workload::{FileId, Op, Outcome, Record};
use rustix::io::Errno;
use zerocopy::FromBytes;

/// The record of a request, without times. `None` for what no program asked: the kernel's own housekeeping, and requests that it need
/// not send again.
pub fn record_of<'a>(request: &'a Request<'a>, reply: &Reply, verdict: Verdict) -> Option<Record<&'a [u8]>> {
    if verdict == Verdict::Error(Errno::NOSYS) || request.header.nodeid == PROBE_NODE {
        return None;
    }
    let mut record = asked(request)?;
    record.client = request.header.pid;
    record.outcome = match verdict {
        Verdict::Error(errno) => Outcome::Failed(errno.raw_os_error().unsigned_abs()),
        _ => outcome(&request.operation, reply, &mut record),
    };
    (record.made.0 != PROBE_NODE).then_some(record)
}

/// What was asked.
fn asked<'a>(request: &'a Request<'a>) -> Option<Record<&'a [u8]>> {
    let on = |op: Op| Record::<&[u8]>::new(0, op, FileId(request.header.nodeid));
    let named = |op: Op, name: &'a [u8]| Record { name, ..on(op) };
    let moved =
        |op: Op, offset: u64, length: u64| Record { offset: Some(offset), length: Some(length), ..on(op) };
    Some(match request.operation {
        Operation::Lookup { name } => named(Op::Lookup, name),
        Operation::Getattr | Operation::Statx => on(Op::Getattr),
        Operation::Setattr(ref set) => {
            let argument = (set.valid & fattr::MODE != 0).then_some(set.mode & 0o7777);
            if set.valid & fattr::SIZE != 0 {
                Record { length: Some(set.size), argument, ..on(Op::Truncate) }
            } else {
                Record { argument, ..on(Op::Setattr) }
            }
        }
        Operation::Readlink => on(Op::Readlink),
        Operation::Symlink { name, target } => Record { to_name: target, ..named(Op::Symlink, name) },
        Operation::Mknod { name, mode, .. } => Record { argument: Some(mode), ..named(Op::Mknod, name) },
        Operation::Mkdir { name, mode, .. } => Record { argument: Some(mode), ..named(Op::Mkdir, name) },
        Operation::Create { name, mode, .. } => Record { argument: Some(mode), ..named(Op::Create, name) },
        Operation::Tmpfile { mode, .. } => Record { argument: Some(mode), ..on(Op::Tmpfile) },
        Operation::Unlink { name } => named(Op::Unlink, name),
        Operation::Rmdir { name } => named(Op::Rmdir, name),
        Operation::Rename { name, new_parent, new_name, flags } => Record {
            to_file: FileId(new_parent),
            to_name: new_name,
            argument: Some(flags),
            ..named(Op::Rename, name)
        },
        Operation::Link { target, name } => Record {
            file: FileId(target),
            to_file: FileId(request.header.nodeid),
            to_name: name,
            ..on(Op::Link)
        },
        Operation::Open | Operation::Opendir => on(Op::Open),
        Operation::Flush => on(Op::Close),
        Operation::Read { offset, size } => moved(Op::Read, offset, u64::from(size)),
        Operation::Write { offset, data, .. } => moved(Op::Write, offset, data.len() as u64),
        Operation::Fsync | Operation::Fsyncdir => on(Op::Fsync),
        Operation::Syncfs => on(Op::Sync),
        Operation::Readdir { offset, size } | Operation::Readdirplus { offset, size } => {
            moved(Op::Readdir, offset, u64::from(size))
        }
        Operation::Statfs => on(Op::Statfs),
        Operation::Setxattr { name, value, flags, .. } => {
            Record { length: Some(value.len() as u64), argument: Some(flags), ..named(Op::Setxattr, name) }
        }
        Operation::Getxattr { name, size } => {
            Record { length: Some(u64::from(size)), ..named(Op::Getxattr, name) }
        }
        Operation::Listxattr { size } => Record { length: Some(u64::from(size)), ..on(Op::Listxattr) },
        Operation::Removexattr { name } => named(Op::Removexattr, name),
        Operation::Fallocate { offset, len, mode } => {
            Record { argument: Some(mode), ..moved(Op::Fallocate, offset, len) }
        }
        Operation::Lseek { offset, whence } => {
            Record { offset: Some(offset), argument: Some(whence), ..on(Op::Seek) }
        }
        Operation::CopyFileRange { from_offset, to, to_offset, len, .. } => {
            Record { to_file: FileId(to), to_offset: Some(to_offset), ..moved(Op::Copy, from_offset, len) }
        }
        Operation::Init { .. }
        | Operation::Destroy
        | Operation::Forget { .. }
        | Operation::BatchForget { .. }
        | Operation::Interrupt { .. }
        | Operation::Release
        | Operation::Releasedir
        | Operation::Ioctl
        | Operation::Unknown => return None,
    })
}

/// What a reply without an error says. It also gives the file that was found or made.
fn outcome(operation: &Operation<'_>, reply: &Reply, record: &mut Record<&[u8]>) -> Outcome {
    const ENOENT: u32 = 2;
    let payload = reply.payload();
    match operation {
        Operation::Lookup { .. }
        | Operation::Symlink { .. }
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Create { .. }
        | Operation::Tmpfile { .. }
        | Operation::Link { .. } => {
            let entry = abi::EntryOut::read_from_prefix(payload).map_or(0, |(entry, _)| entry.nodeid);
            if entry == 0 {
                // The kernel remembers that the name is absent.
                return Outcome::Failed(ENOENT);
            }
            if record.op != Op::Link {
                record.made = FileId(entry);
            }
            Outcome::Done(0)
        }
        Operation::Read { .. } | Operation::Readdir { .. } | Operation::Readdirplus { .. } => {
            Outcome::Done(reply.len_bytes() as u64)
        }
        Operation::Write { .. } | Operation::CopyFileRange { wide: false, .. } => Outcome::Done(
            abi::WriteOut::read_from_prefix(payload).map_or(0, |(written, _)| u64::from(written.size)),
        ),
        Operation::CopyFileRange { .. } => Outcome::Done(
            abi::CopyFileRangeOut::read_from_prefix(payload).map_or(0, |(copied, _)| copied.bytes_copied),
        ),
        Operation::Lseek { .. } => {
            Outcome::Done(abi::LseekOut::read_from_prefix(payload).map_or(0, |(found, _)| found.offset))
        }
        _ => Outcome::Done(0),
    }
}
