//! What a file to be copied has beyond what `std::fs` tells: its holes, and its extended attributes. Callers: `mkfs::from_dir`, `history`.

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// The next range of data at or after `at_bytes`, below `len_bytes`.
///
/// # Errors
/// As the system reports.
pub fn next_data(file: &File, at_bytes: u64, len_bytes: u64) -> std::io::Result<Option<(u64, u64)>> {
    if at_bytes >= len_bytes {
        return Ok(None);
    }
    let start_bytes = match rustix::fs::seek(file, SeekFrom::Data(at_bytes)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A source that does not support holes is all data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((at_bytes, len_bytes))),
        Err(e) => return Err(e.into()),
    };
    let end_bytes = rustix::fs::seek(file, SeekFrom::Hole(start_bytes))?;
    Ok((start_bytes < len_bytes).then_some((start_bytes, end_bytes.min(len_bytes))))
}

/// All extended attributes that this process may read, in the order of their names.
///
/// # Errors
/// As the system reports.
pub fn xattrs_of(path: &Path) -> std::io::Result<Vec<(OsString, Vec<u8>)>> {
    let list = xattr_list_of(path)?;
    let mut names: Vec<&[u8]> = list.split(|&b| b == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let name = OsString::from_vec(name.to_vec());
        match grow(|buf| rustix::fs::lgetxattr(path, &name, buf)) {
            Ok(value) => out.push((name, value)),
            // Removed meanwhile, or not readable by this process (`trusted.` without CAP_SYS_ADMIN).
            Err(Errno::NODATA | Errno::PERM | Errno::OPNOTSUPP) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(out)
}

/// The names of all extended attributes, each ended by NUL.
///
/// # Errors
/// As the system reports.
pub fn xattr_list_of(path: &Path) -> std::io::Result<Vec<u8>> {
    match grow(|buf| rustix::fs::llistxattr(path, buf)) {
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        list => Ok(list?),
    }
}

/// Calls with a larger buffer until the answer fits.
fn grow(mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(e) => return Err(e),
        }
    }
}
