//! `mkfs --from-dir`: copies a directory tree into a fresh volume, through the library, without mounting it.
//!
//! It copies every file type, hard links, sparse files with their holes, extended attributes and ACLs, owners, modes,
//! access and modification times. It makes entries in the byte order of their names, so that the same tree gives the
//! same volume. Directories get their attributes after their entries: a default ACL or a set-group-id bit must not
//! affect the copied entries, and making an entry changes the directory's times.

use crate::failure::{Done, Failure};
use crate::sources::{next_data, xattrs_of};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::{Attr, Caller, NewNode, SetAttr, SetTime, XattrMode};
use firnfs::{FsError, Outcome};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_volume::Volume;
use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The content of a tree, or the part of it that has been copied so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Totals {
    /// Regular files, each counted once whatever its number of links.
    pub files: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Symbolic links, FIFOs, sockets and device nodes.
    pub others: u64,
    /// Further names of files already counted.
    pub hard_links: u64,
    /// Bytes of file content, holes not counted (as far as the source reports them).
    pub content_bytes: u64,
}

/// Identity of a source file: device and inode number.
type SourceId = (u64, u64);

/// How the content of a file is counted before it is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// By the space that the source has allocated: fast, but space that was allocated and never written counts too.
    Allocated,
    /// By the ranges of data that the source reports, as they will be copied.
    Data,
}

/// A tree before it is copied.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Survey {
    /// What it has.
    pub totals: Totals,
    /// Bytes that it takes at least in a volume, whatever the volume's kind: content beyond `inline_max_bytes` of a file, and a
    /// sector for each inode of a volume that keeps inodes in its space for data.
    pub least_bytes: u64,
}

impl Survey {
    /// Inodes that it takes.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.totals.files + self.totals.directories + self.totals.others
    }
}

/// Counts a tree before it is copied. `leave_out` is the image itself, which may be inside the tree. Smaller files than
/// `inline_max_bytes` take no space of their own; an inode takes `inode_bytes`.
///
/// # Errors
/// It is no directory; errors of reading the tree, with the path.
pub fn survey(
    tree: &Path,
    leave_out: Option<SourceId>,
    (inline_max_bytes, inode_bytes): (u64, u64),
    measure: Measure,
) -> Done<Survey> {
    directory(tree)?;
    let mut least_bytes = 0;
    let mut totals = Totals { directories: 1, ..Totals::default() };
    let mut linked = rustc_hash::FxHashSet::default();
    let mut pending = vec![tree.to_owned()];
    while let Some(directory) = pending.pop() {
        for (path, meta) in sorted_entries(&directory)? {
            if leave_out == Some(source_id(&meta)) {
                continue;
            }
            if meta.is_dir() {
                totals.directories += 1;
                pending.push(path);
            } else if meta.nlink() > 1 && !linked.insert(source_id(&meta)) {
                totals.hard_links += 1;
            } else if meta.is_file() {
                let bytes = match measure {
                    Measure::Allocated => meta.len().min(meta.blocks() * 512),
                    Measure::Data => data_bytes(&path, meta.len())?,
                };
                totals.files += 1;
                totals.content_bytes += bytes;
                if meta.len() > inline_max_bytes {
                    least_bytes += bytes;
                }
            } else {
                totals.others += 1;
            }
        }
    }
    let inodes = totals.files + totals.directories + totals.others;
    Ok(Survey { totals, least_bytes: least_bytes + inodes * inode_bytes })
}

/// The metadata of a directory that is to be copied.
fn directory(tree: &Path) -> Done<Metadata> {
    let root = std::fs::metadata(tree).map_err(|e| Failure::io("cannot read", tree, &e))?;
    if !root.is_dir() {
        return Err(Failure::usage(format!("{} is not a directory", tree.display()))
            .advise("--from-dir takes the directory whose content is copied into the volume"));
    }
    Ok(root)
}

/// Copies the content and attributes of `tree` into the root of `volume`, and makes nothing durable: the caller
/// syncs. `progress` is called after every file and every part of a large one; its failure ends the copying.
///
/// # Errors
/// Errors of reading the tree or writing the volume, with the path; that of `progress`.
pub fn copy_tree<S: Engine>(
    volume: &Volume<S>,
    tree: &Path,
    leave_out: Option<SourceId>,
    progress: &mut dyn FnMut(&Totals) -> Done,
) -> Done<Totals> {
    let root = directory(tree)?;
    let (linked, totals) = (FxHashMap::default(), Totals::default());
    let mut copier = Copier { volume, linked, totals, leave_out, progress };
    let mut open = vec![OpenDirectory::new(tree.to_owned(), root, InodeNo::ROOT)?];
    while let Some(directory) = open.last_mut() {
        match directory.entries.next() {
            Some((path, meta)) => {
                let parent = directory.ino;
                if let Some(child) = copier.copy_entry(parent, path, meta)? {
                    open.push(child);
                }
            }
            None => {
                copier.totals.directories += 1;
                copier.copy_attributes(directory.ino, &directory.path, &directory.meta)?;
                open.pop();
            }
        }
        (copier.progress)(&copier.totals)?;
    }
    Ok(copier.totals)
}

/// A directory whose entries are being copied.
struct OpenDirectory {
    path: PathBuf,
    meta: Metadata,
    ino: InodeNo,
    entries: std::vec::IntoIter<(PathBuf, Metadata)>,
}

impl OpenDirectory {
    fn new(path: PathBuf, meta: Metadata, ino: InodeNo) -> Done<Self> {
        let entries = sorted_entries(&path)?.into_iter();
        Ok(Self { path, meta, ino, entries })
    }
}

fn sorted_entries(directory: &Path) -> Done<Vec<(PathBuf, Metadata)>> {
    let unreadable = |e: std::io::Error| Failure::io("cannot read", directory, &e);
    let mut names: Vec<OsString> = std::fs::read_dir(directory)
        .map_err(unreadable)?
        .map(|entry| entry.map(|e| e.file_name()))
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    names.sort_unstable();
    names
        .into_iter()
        .map(|name| {
            let path = directory.join(name);
            let meta = std::fs::symlink_metadata(&path).map_err(|e| Failure::io("cannot read", &path, &e))?;
            Ok((path, meta))
        })
        .collect()
}

fn source_id(meta: &Metadata) -> SourceId {
    (meta.dev(), meta.ino())
}

fn kind_of(meta: &Metadata) -> Kind {
    let file_type = meta.file_type();
    if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_symlink() {
        Kind::Symlink
    } else if file_type.is_fifo() {
        Kind::Fifo
    } else if file_type.is_socket() {
        Kind::Socket
    } else if file_type.is_char_device() {
        Kind::CharDevice
    } else if file_type.is_block_device() {
        Kind::BlockDevice
    } else {
        Kind::Regular
    }
}

struct Copier<'a, S: Engine> {
    volume: &'a Volume<S>,
    linked: FxHashMap<SourceId, InodeNo>,
    totals: Totals,
    leave_out: Option<SourceId>,
    progress: &'a mut dyn FnMut(&Totals) -> Done,
}

impl<S: Engine> Copier<'_, S> {
    /// Copies one entry; a directory is made and returned, so that the caller can descend into it.
    fn copy_entry(&mut self, parent: InodeNo, path: PathBuf, meta: Metadata) -> Done<Option<OpenDirectory>> {
        if self.leave_out == Some(source_id(&meta)) {
            return Ok(None);
        }
        let name = path.file_name().unwrap_or_default().as_bytes();
        if let Some(&ino) = self.linked.get(&source_id(&meta)) {
            self.run(&path, |vfs, now| vfs.link(now, ino, parent, name, false))?;
            self.totals.hard_links += 1;
            return Ok(None);
        }
        let kind = kind_of(&meta);
        let ino = self.make(parent, name, kind, &path, &meta)?.ino;
        if kind == Kind::Directory {
            return OpenDirectory::new(path, meta, ino).map(Some);
        }
        if meta.nlink() > 1 {
            self.linked.insert(source_id(&meta), ino);
        }
        if kind == Kind::Regular {
            self.copy_content(ino, &path, meta.len())?;
            self.totals.files += 1;
        } else {
            self.totals.others += 1;
        }
        self.copy_attributes(ino, &path, &meta)?;
        Ok(None)
    }

    fn make(&self, parent: InodeNo, name: &[u8], kind: Kind, path: &Path, meta: &Metadata) -> Done<Attr> {
        let target = if kind == Kind::Symlink {
            std::fs::read_link(path).map_err(|e| Failure::io("cannot read", path, &e))?
        } else {
            PathBuf::new()
        };
        let rdev =
            (u64::from(rustix::fs::major(meta.rdev())) << 32) | u64::from(rustix::fs::minor(meta.rdev()));
        let is_device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let node = NewNode {
            kind,
            mode: 0o600,
            rdev: if is_device { rdev } else { 0 },
            target: target.as_os_str().as_bytes(),
        };
        let owner = Caller { uid: meta.uid(), gid: meta.gid(), umask: 0 };
        self.run(path, |vfs, now| vfs.make(now, owner, parent, name, node, false))
    }

    /// Copies the data between the holes, then sets the size, which also makes a hole at the end.
    fn copy_content(&mut self, ino: InodeNo, path: &Path, len_bytes: u64) -> Done {
        let unreadable = |e: std::io::Error| Failure::io("cannot read", path, &e);
        let file = File::open(path).map_err(unreadable)?;
        let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(len_bytes).unwrap_or(COPY_BYTES))];
        let mut at_bytes = 0;
        while let Some((start_bytes, end_bytes)) =
            next_data(&file, at_bytes, len_bytes).map_err(unreadable)?
        {
            at_bytes = start_bytes;
            while at_bytes < end_bytes {
                let want = (end_bytes - at_bytes).min(buffer.len() as u64) as usize;
                let got = file.read_at(&mut buffer[..want], at_bytes).map_err(unreadable)?;
                if got == 0 {
                    return Err(Failure::failed(format!(
                        "{} became shorter while it was copied",
                        path.display()
                    ))
                    .advise("copy a tree that does not change during the copy"));
                }
                self.volume
                    .write_all(ino, at_bytes, &buffer[..got], false)
                    .map_err(|e| copy_failed(path, &e))?;
                at_bytes += got as u64;
                self.totals.content_bytes += got as u64;
                (self.progress)(&self.totals)?;
            }
        }
        let resize = SetAttr { size_bytes: Some(len_bytes), ..SetAttr::default() };
        self.run(path, |vfs, now| vfs.setattr(now, ino, resize)).map(drop)
    }

    /// Copies extended attributes first: setting an ACL changes the mode, and the mode is copied last.
    fn copy_attributes(&self, ino: InodeNo, path: &Path, meta: &Metadata) -> Done {
        for (name, value) in
            xattrs_of(path).map_err(|e| Failure::io("cannot read attributes of", path, &e))?
        {
            self.run(path, |vfs, now| vfs.setxattr(now, ino, name.as_bytes(), &value, XattrMode::Any))?;
        }
        let time = |secs: i64, nanos: i64| Some(SetTime::At(TimeNs::from_parts(secs, nanos as u32)));
        let is_symlink = meta.file_type().is_symlink();
        let set = SetAttr {
            mode: (!is_symlink).then_some((meta.mode() & 0o7777) as u16),
            uid: Some(meta.uid()),
            gid: Some(meta.gid()),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ..SetAttr::default()
        };
        self.run(path, |vfs, now| vfs.setattr(now, ino, set)).map(drop)
    }

    fn run<T>(&self, path: &Path, op: impl FnMut(&mut firnfs::vfs::Vfs<S>, TimeNs) -> Outcome<T>) -> Done<T> {
        self.volume.run(op).map_err(|e| copy_failed(path, &e))
    }
}

fn copy_failed(path: &Path, error: &FsError) -> Failure {
    Failure::fs(format_args!("cannot copy {} into the volume", path.display()), error)
}

/// Bytes of a file that are not in holes.
fn data_bytes(path: &Path, len_bytes: u64) -> Done<u64> {
    let unreadable = |e: std::io::Error| Failure::io("cannot read", path, &e);
    let file = File::open(path).map_err(unreadable)?;
    let (mut at_bytes, mut bytes) = (0, 0);
    while let Some((start_bytes, end_bytes)) = next_data(&file, at_bytes, len_bytes).map_err(unreadable)? {
        bytes += end_bytes - start_bytes;
        at_bytes = end_bytes;
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "from_dir_tests.rs"]
mod tests;
