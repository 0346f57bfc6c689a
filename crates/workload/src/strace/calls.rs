//! From calls to records.
//!
//! A record of a call with a path has the path as its name. Calls on names (open, unlink, rename) have no `file` then, and what
//! they find or make is `made`; other calls (stat, truncate) have the path's file.

use super::descriptors::{Descriptors, Open, Shared};
use super::syntax::{Call, string, unescape};
use crate::layout::NAME_MAX_BYTES;
use crate::record::{FileId, Op, Outcome, Record};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Follows the processes of a trace.
#[derive(Default)]
pub struct Tracer {
    descriptors: Descriptors,
}

/// One call of one process.
struct Context<'a> {
    pid: u32,
    time_ns: u64,
    call: &'a Call<'a>,
}

impl Context<'_> {
    fn argument(&self, at: usize) -> Result<&[u8], String> {
        let missing = || format!("{} has only {} arguments", self.call.name, self.call.arguments.len());
        self.call.arguments.get(at).copied().ok_or_else(missing)
    }

    fn text(&self, at: usize) -> Result<&str, String> {
        str::from_utf8(self.argument(at)?).map_err(|_| format!("argument {} is not a text", at + 1))
    }

    /// A path. An address instead of a string (the call failed before the kernel read it) is an empty path.
    fn path(&self, at: usize) -> Result<Vec<u8>, String> {
        Ok(string(self.argument(at)?).unwrap_or_default())
    }

    fn number(&self, at: usize) -> Result<u64, String> {
        let text = self.text(at)?;
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            // A negative number, as in calls that fail with EINVAL, is what the kernel was given.
            None => text.parse().ok().or_else(|| text.parse().ok().map(i64::cast_unsigned)),
        };
        parsed.ok_or_else(|| format!("argument {} of {} is '{text}', not a number", at + 1, self.call.name))
    }

    fn octal(&self, at: usize) -> Option<u32> {
        // mknod(2) writes `S_IFIFO|0644`.
        let text = self.text(at).ok()?;
        u32::from_str_radix(text.rsplit('|').next()?, 8).ok()
    }

    fn done(&self) -> Option<u64> {
        match self.call.outcome {
            Outcome::Done(value) => Some(value),
            _ => None,
        }
    }

    /// A record with what all records of calls have. The result of most calls is 0 or an address or a descriptor.
    fn record(&self, op: Op, file: FileId) -> Record {
        let mut record: Record = Record::new(self.time_ns, op, file);
        record.client = self.pid;
        record.duration_ns = self.call.duration_ns;
        record.outcome = match (op, self.call.outcome) {
            (Op::Read | Op::Write | Op::Copy | Op::Readdir | Op::Seek, outcome) => outcome,
            (_, Outcome::Done(_)) => Outcome::Done(0),
            (_, outcome) => outcome,
        };
        record
    }
}

impl Tracer {
    /// A process ended.
    pub fn exited(&mut self, pid: u32) {
        self.descriptors.exited(pid);
    }

    /// Takes a call; appends its records. Calls that concern no file append none.
    pub fn call(
        &mut self,
        pid: u32,
        time_ns: u64,
        call: &Call<'_>,
        out: &mut VecDeque<Record>,
    ) -> Result<(), String> {
        let cx = Context { pid, time_ns, call };
        let record = match call.name {
            "open" => return self.open(&cx, None, 0, 1, out),
            "openat" | "openat2" => return self.open(&cx, Some(0), 1, 2, out),
            "creat" => return self.open(&cx, None, 0, usize::MAX, out),
            "close" => self.close(&cx)?,
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" | "chdir" | "fchdir" | "clone" | "clone3"
            | "fork" | "vfork" => {
                self.follow(&cx)?;
                None
            }
            "read" | "readv" | "pread64" | "preadv" | "preadv2" => self.transfer(&cx, Op::Read)?,
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => self.transfer(&cx, Op::Write)?,
            "lseek" | "_llseek" => self.seek(&cx)?,
            "copy_file_range" => self.copy(&cx)?,
            "fsync" | "fdatasync" => self.on_descriptor(&cx, Op::Fsync)?,
            "sync" | "syncfs" => Some(cx.record(Op::Sync, FileId::NONE)),
            "fstat" | "fstat64" => self.on_descriptor(&cx, Op::Getattr)?,
            "fchmod" => with(self.on_descriptor(&cx, Op::Setattr)?, |record| record.argument = cx.octal(1)),
            "fchown" | "fchown32" | "futimens" => self.on_descriptor(&cx, Op::Setattr)?,
            "fstatfs" | "fstatfs64" => self.on_descriptor(&cx, Op::Statfs)?,
            "getdents" | "getdents64" => {
                let length = cx.number(2)?;
                with(self.on_descriptor(&cx, Op::Readdir)?, |record| record.length = Some(length))
            }
            "ftruncate" | "ftruncate64" => {
                let length = cx.number(1)?;
                with(self.on_descriptor(&cx, Op::Truncate)?, |record| record.length = Some(length))
            }
            "fallocate" => {
                let (offset, length) = (cx.number(2)?, cx.number(3)?);
                let flags = fallocate_flags(cx.text(1)?);
                with(self.on_descriptor(&cx, Op::Fallocate)?, |record| {
                    (record.offset, record.length, record.argument) = (Some(offset), Some(length), flags);
                })
            }
            "fgetxattr" | "fsetxattr" | "fremovexattr" | "flistxattr" => {
                let op = xattr_op(&call.name[1..]);
                let name = if op == Op::Listxattr { Vec::new() } else { bounded(cx.path(1)?)? };
                with(self.on_descriptor(&cx, op)?, |record| record.name = name)
            }
            _ => self.on_path(&cx)?,
        };
        out.extend(record);
        Ok(())
    }

    /// The open file of the descriptor in an argument such as `3` or `3</tmp/a>`; `None` if it is no file, or not known.
    fn file_of(&mut self, cx: &Context<'_>, at: usize) -> Result<Option<Shared>, String> {
        let (fd, path) = descriptor(cx.argument(at)?)
            .ok_or_else(|| format!("argument {} of {} is no descriptor", at + 1, cx.call.name))?;
        let Some(path) = path else { return Ok(self.descriptors.get(cx.pid, fd)) };
        if !path.starts_with(b"/") {
            return Ok(None);
        }
        let path = bounded(path)?;
        let known = self.descriptors.get(cx.pid, fd).filter(|open| open.borrow().path == path);
        Ok(Some(known.unwrap_or_else(|| {
            let open = Rc::new(RefCell::new(Open { path, place: None, appends: false }));
            self.descriptors.set(cx.pid, fd, Rc::clone(&open));
            open
        })))
    }

    fn on_descriptor(&mut self, cx: &Context<'_>, op: Op) -> Result<Option<Record>, String> {
        let open = self.file_of(cx, 0)?;
        Ok(open.map(|open| cx.record(op, FileId::of_bytes(&open.borrow().path))))
    }

    /// The absolute path of one relative to a directory in an argument, or to the working directory.
    fn resolve(
        &mut self,
        cx: &Context<'_>,
        directory: Option<usize>,
        path: &[u8],
    ) -> Result<Vec<u8>, String> {
        if path.starts_with(b"/") {
            return bounded(tidy(path));
        }
        let base = match directory.map(|at| cx.argument(at)).transpose()? {
            Some(argument) if argument.starts_with(b"AT_FDCWD") => {
                let marked = marked_path(argument).map(bounded).transpose()?;
                if let Some(path) = &marked {
                    // Calls without a directory get to know it, too.
                    self.descriptors.set_directory(cx.pid, path.clone());
                }
                marked
            }
            Some(_) => self.file_of(cx, directory.unwrap_or(0))?.map(|open| open.borrow().path.clone()),
            None => None,
        };
        let base =
            base.or_else(|| self.descriptors.directory(cx.pid).map(<[u8]>::to_vec)).unwrap_or_default();
        if path.is_empty() {
            return Ok(base);
        }
        if base.is_empty() {
            return bounded(tidy(path));
        }
        bounded(tidy(&[&base, &b"/"[..], path].concat()))
    }

    fn open(
        &mut self,
        cx: &Context<'_>,
        directory: Option<usize>,
        path_at: usize,
        flags_at: usize,
        out: &mut VecDeque<Record>,
    ) -> Result<(), String> {
        let given = cx.path(path_at)?;
        let path = self.resolve(cx, directory, &given)?;
        let flags = if flags_at == usize::MAX { "O_CREAT|O_WRONLY|O_TRUNC" } else { cx.text(flags_at)? };
        let has = |flag: &str| {
            flags.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == flag)
        };
        let op = match (has("O_TMPFILE"), has("O_CREAT")) {
            (true, _) => Op::Tmpfile,
            (_, true) => Op::Create,
            _ => Op::Open,
        };
        let mut record = cx.record(op, FileId::NONE);
        record.name = path.clone();
        if op != Op::Open {
            let mode_at = if flags_at == usize::MAX { 1 } else { flags_at + 1 };
            record.argument = cx.octal(mode_at);
        }
        let Some(fd) = cx.done() else {
            out.push_back(record);
            return Ok(());
        };
        let fd = i32::try_from(fd).map_err(|_| "the result is no descriptor")?;
        let found = bounded(cx.call.result_path.map_or(path, unescape))?;
        record.made = FileId::of_bytes(&found);
        let made = record.made;
        out.push_back(record);
        if has("O_TRUNC") {
            let mut emptied = cx.record(Op::Truncate, made);
            (emptied.length, emptied.duration_ns) = (Some(0), None);
            out.push_back(emptied);
        }
        let appends = has("O_APPEND");
        let place = (!appends).then_some(0);
        self.descriptors.set(cx.pid, fd, Rc::new(RefCell::new(Open { path: found, place, appends })));
        Ok(())
    }

    fn close(&mut self, cx: &Context<'_>) -> Result<Option<Record>, String> {
        let record = self.on_descriptor(cx, Op::Close)?;
        if let (Some((fd, _)), Some(_)) = (descriptor(cx.argument(0)?), cx.done()) {
            self.descriptors.close(cx.pid, fd);
        }
        Ok(record)
    }

    /// Calls that change what descriptors and relative paths mean.
    fn follow(&mut self, cx: &Context<'_>) -> Result<(), String> {
        let Some(result) = cx.done() else { return Ok(()) };
        match cx.call.name {
            "chdir" => {
                let path = self.resolve(cx, None, &cx.path(0)?)?;
                self.descriptors.set_directory(cx.pid, path);
            }
            "fchdir" => {
                if let Some(open) = self.file_of(cx, 0)? {
                    let path = open.borrow().path.clone();
                    self.descriptors.set_directory(cx.pid, path);
                }
            }
            "clone" | "clone3" | "fork" | "vfork" => {
                let shares = cx.call.arguments.iter().any(|a| a.windows(11).any(|w| w == b"CLONE_FILES"));
                let child = u32::try_from(result).map_err(|_| "the result is no process")?;
                self.descriptors.fork(cx.pid, child, shares);
            }
            _ => {
                let is_dup = !cx.call.name.starts_with("fcntl") || cx.text(1)?.starts_with("F_DUPFD");
                let new = i32::try_from(result).map_err(|_| "the result is no descriptor");
                if is_dup {
                    match self.file_of(cx, 0)? {
                        Some(open) => self.descriptors.set(cx.pid, new?, open),
                        None => self.descriptors.close(cx.pid, new?),
                    }
                }
            }
        }
        Ok(())
    }

    fn transfer(&mut self, cx: &Context<'_>, op: Op) -> Result<Option<Record>, String> {
        let Some(open) = self.file_of(cx, 0)? else { return Ok(None) };
        let mut record = cx.record(op, FileId::of_bytes(&open.borrow().path));
        // The third argument of the vector forms counts pieces, not bytes.
        if !cx.call.name.contains('v') {
            record.length = Some(cx.number(2)?);
        }
        // -1 in preadv2(2) and pwritev2(2) is the place of the descriptor.
        let explicit = if cx.call.name.starts_with('p') { Some(cx.number(3)?) } else { None };
        let explicit = explicit.filter(|offset| *offset != u64::MAX);
        let mut open = open.borrow_mut();
        let at_end = op == Op::Write && open.appends;
        record.offset = explicit.or(if at_end { None } else { open.place });
        if explicit.is_none() {
            match (cx.done(), open.place) {
                (Some(moved), Some(place)) if !at_end => open.place = place.checked_add(moved),
                (Some(_), _) => open.place = None,
                _ => {}
            }
        }
        Ok(Some(record))
    }

    fn seek(&mut self, cx: &Context<'_>) -> Result<Option<Record>, String> {
        const DATA: u32 = 3;
        const HOLE: u32 = 4;
        let Some(open) = self.file_of(cx, 0)? else { return Ok(None) };
        if let Some(place) = cx.done() {
            open.borrow_mut().place = Some(place);
        }
        let whence = match cx.call.arguments.last().copied() {
            Some(b"SEEK_DATA") => DATA,
            Some(b"SEEK_HOLE") => HOLE,
            // Other seeks only set the place of the next call, which has it as its offset.
            _ => return Ok(None),
        };
        let mut record = cx.record(Op::Seek, FileId::of_bytes(&open.borrow().path));
        (record.offset, record.argument) = (cx.number(1).ok(), Some(whence));
        Ok(Some(record))
    }

    fn copy(&mut self, cx: &Context<'_>) -> Result<Option<Record>, String> {
        let (Some(from), Some(to)) = (self.file_of(cx, 0)?, self.file_of(cx, 2)?) else { return Ok(None) };
        let moved = cx.done().unwrap_or(0);
        // `NULL` means the place of the descriptor; else `[0]` or `[0 => 4096]`.
        let place = |at: usize, open: &Shared| -> Result<Option<u64>, String> {
            let text = cx.text(at)?;
            if text != "NULL" {
                let digits = text.trim_matches(['[', ']']).split(' ').next().unwrap_or_default();
                return Ok(digits.parse().ok());
            }
            let mut open = open.borrow_mut();
            let place = open.place;
            open.place = place.and_then(|place| place.checked_add(moved));
            Ok(place)
        };
        let mut record = cx.record(Op::Copy, FileId::of_bytes(&from.borrow().path));
        record.to_file = FileId::of_bytes(&to.borrow().path);
        (record.offset, record.to_offset) = (place(1, &from)?, place(3, &to)?);
        record.length = Some(cx.number(4)?);
        Ok(Some(record))
    }

    /// Calls with a path; `None` for those that concern no file.
    fn on_path(&mut self, cx: &Context<'_>) -> Result<Option<Record>, String> {
        // Operation, directory, path; then the same of a second path; then the place of the mode or the new size.
        type Form = (Op, Option<usize>, usize, Option<(Option<usize>, usize)>, Option<usize>);
        let form: Form = match cx.call.name {
            "stat" | "lstat" | "stat64" | "lstat64" => (Op::Getattr, None, 0, None, None),
            "newfstatat" | "fstatat64" | "statx" => (Op::Getattr, Some(0), 1, None, None),
            "access" => (Op::Access, None, 0, None, None),
            "faccessat" | "faccessat2" => (Op::Access, Some(0), 1, None, None),
            "chmod" => (Op::Setattr, None, 0, None, Some(1)),
            "fchmodat" | "fchmodat2" => (Op::Setattr, Some(0), 1, None, Some(2)),
            "chown" | "lchown" | "utime" | "utimes" => (Op::Setattr, None, 0, None, None),
            "fchownat" | "utimensat" | "futimesat" => (Op::Setattr, Some(0), 1, None, None),
            "truncate" | "truncate64" => (Op::Truncate, None, 0, None, Some(1)),
            "statfs" | "statfs64" => (Op::Statfs, None, 0, None, None),
            "readlink" => (Op::Readlink, None, 0, None, None),
            "readlinkat" => (Op::Readlink, Some(0), 1, None, None),
            "mkdir" => (Op::Mkdir, None, 0, None, Some(1)),
            "mkdirat" => (Op::Mkdir, Some(0), 1, None, Some(2)),
            "mknod" => (Op::Mknod, None, 0, None, Some(1)),
            "mknodat" => (Op::Mknod, Some(0), 1, None, Some(2)),
            "rmdir" => (Op::Rmdir, None, 0, None, None),
            "unlink" => (Op::Unlink, None, 0, None, None),
            "unlinkat" if cx.text(2)?.contains("AT_REMOVEDIR") => (Op::Rmdir, Some(0), 1, None, None),
            "unlinkat" => (Op::Unlink, Some(0), 1, None, None),
            "rename" => (Op::Rename, None, 0, Some((None, 1)), None),
            "renameat" | "renameat2" => (Op::Rename, Some(0), 1, Some((Some(2), 3)), None),
            "link" => (Op::Link, None, 0, Some((None, 1)), None),
            "linkat" => (Op::Link, Some(0), 1, Some((Some(2), 3)), None),
            "symlink" => (Op::Symlink, None, 1, None, None),
            "symlinkat" => (Op::Symlink, Some(1), 2, None, None),
            name @ ("getxattr" | "setxattr" | "listxattr" | "removexattr") => {
                (xattr_op(name), None, 0, None, None)
            }
            name @ ("lgetxattr" | "lsetxattr" | "llistxattr" | "lremovexattr") => {
                (xattr_op(&name[1..]), None, 0, None, None)
            }
            _ => return Ok(None),
        };
        let (op, directory, path_at, second, extra) = form;
        // The path of a descriptor itself: an empty string, or NULL.
        let path = self.resolve(cx, directory, &cx.path(path_at)?)?;
        if path.is_empty() {
            return Ok(None);
        }
        let mut record = cx.record(op, FileId::NONE);
        self.place_path(&mut record, path);
        if let Some((directory, at)) = second {
            record.to_name = self.resolve(cx, directory, &cx.path(at)?)?;
        }
        match op {
            Op::Truncate => record.length = Some(cx.number(extra.unwrap_or(1))?),
            Op::Symlink => record.to_name = bounded(cx.path(0)?)?,
            Op::Getxattr | Op::Setxattr | Op::Removexattr => record.name = bounded(cx.path(1)?)?,
            Op::Rename => record.argument = rename_flags(cx.call.arguments.get(4).copied()),
            _ => record.argument = extra.and_then(|at| cx.octal(at)),
        }
        Ok(Some(record))
    }

    fn place_path(&self, record: &mut Record, path: Vec<u8>) {
        let file = FileId::of_bytes(&path);
        match record.op {
            Op::Mkdir | Op::Mknod | Op::Symlink => {
                if matches!(record.outcome, Outcome::Done(_)) {
                    record.made = file;
                }
            }
            Op::Unlink | Op::Rmdir | Op::Rename => {}
            _ => record.file = file,
        }
        record.name = path;
    }
}

fn with(record: Option<Record>, change: impl FnOnce(&mut Record)) -> Option<Record> {
    record.map(|mut record| {
        change(&mut record);
        record
    })
}

fn xattr_op(name: &str) -> Op {
    match name {
        "getxattr" => Op::Getxattr,
        "setxattr" => Op::Setxattr,
        "removexattr" => Op::Removexattr,
        _ => Op::Listxattr,
    }
}

fn rename_flags(argument: Option<&[u8]>) -> Option<u32> {
    let text = String::from_utf8_lossy(argument?).into_owned();
    let flags = [("RENAME_NOREPLACE", 1), ("RENAME_EXCHANGE", 2), ("RENAME_WHITEOUT", 4)];
    Some(flags.iter().filter(|(name, _)| text.contains(name)).map(|(_, bit)| bit).sum())
}

fn fallocate_flags(text: &str) -> Option<u32> {
    let flags = [
        ("FALLOC_FL_KEEP_SIZE", 1),
        ("FALLOC_FL_PUNCH_HOLE", 2),
        ("FALLOC_FL_COLLAPSE_RANGE", 8),
        ("FALLOC_FL_ZERO_RANGE", 16),
        ("FALLOC_FL_INSERT_RANGE", 32),
    ];
    Some(flags.iter().filter(|(name, _)| text.contains(name)).map(|(_, bit)| bit).sum())
}

/// `3` or `3</tmp/a>`.
fn descriptor(argument: &[u8]) -> Option<(i32, Option<Vec<u8>>)> {
    let end = argument.iter().position(|byte| *byte == b'<').unwrap_or(argument.len());
    let fd = str::from_utf8(&argument[..end]).ok()?.parse().ok()?;
    Some((fd, marked_path(argument)))
}

/// The path in `3</tmp/a>`; a file that was removed meanwhile is marked `(deleted)`.
fn marked_path(argument: &[u8]) -> Option<Vec<u8>> {
    let at = argument.iter().position(|byte| *byte == b'<')?;
    let inner =
        argument[at + 1..].strip_suffix(b">").or_else(|| argument[at + 1..].strip_suffix(b">(deleted)"))?;
    Some(unescape(inner))
}

/// A path without `.` and repeated slashes.
fn tidy(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    let joined = parts.join(&b'/');
    if path.starts_with(b"/") { [&b"/"[..], &joined].concat() } else { joined }
}

fn bounded(path: Vec<u8>) -> Result<Vec<u8>, String> {
    if path.len() <= NAME_MAX_BYTES { Ok(path) } else { Err(format!("a path has {} bytes", path.len())) }
}
