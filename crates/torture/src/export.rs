//! `export`: copies the tree of a volume into a directory, so that programs can examine the files that they left there.
//!
//! It copies regular files, directories and symbolic links with their permission bits. The programs that run on the
//! result need neither other kinds of files nor owners, times and attributes. Callers: the traces of programs under the
//! crash explorer.

use crate::listing::children;
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs::vfs::Attr;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Why a tree could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The volume could not be read.
    #[error("{0}: {1}")]
    Volume(String, FsError),
    /// The copy could not be written.
    #[error(transparent)]
    Copy(#[from] io::Error),
}

/// Copies everything below the root into `directory`, which exists.
///
/// # Errors
/// See [`ExportError`].
pub fn export(volume: &Volume<Lfs>, directory: &Path) -> Result<(), ExportError> {
    let mut pending = vec![(directory.to_owned(), InodeNo::ROOT)];
    while let Some((path, ino)) = pending.pop() {
        let failed = |e: FsError| ExportError::Volume(path.display().to_string(), e);
        for (name, child) in children(volume, ino).map_err(failed)? {
            let below = path.join(OsStr::from_bytes(&name));
            let failed = |e: FsError| ExportError::Volume(below.display().to_string(), e);
            let attr = volume.run(|vfs, _| vfs.getattr(child)).map_err(failed)?;
            match attr.kind {
                Kind::Directory => {
                    fs::create_dir(&below)?;
                    pending.push((below, child));
                }
                Kind::Regular => {
                    fs::write(&below, content(volume, &attr).map_err(failed)?)?;
                    fs::set_permissions(&below, Permissions::from_mode(u32::from(attr.mode)))?;
                }
                Kind::Symlink => {
                    let target = volume.run(|vfs, now| vfs.readlink(now, child)).map_err(failed)?;
                    symlink(OsStr::from_bytes(&target), &below)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn content(volume: &Volume<Lfs>, attr: &Attr) -> Result<Vec<u8>, FsError> {
    let mut bytes = vec![0; attr.size_bytes as usize];
    let mut done = 0;
    while done < bytes.len() {
        match volume.read(attr.ino, done as u64, &mut bytes[done..])? {
            0 => break,
            len => done += len,
        }
    }
    Ok(bytes)
}
