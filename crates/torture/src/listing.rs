//! All entries of a directory. Callers: [`crate::export`], [`crate::crash`], the fuzzer of send streams.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;

/// Names and inodes in a directory, without `.` and `..`, in its order. A call ends early if blocks must be read first, so the end is
/// reached when a call finds nothing.
///
/// # Errors
/// `NotDirectory`, `NotFound`, `Corrupt`, `Io`.
pub fn children<S: Engine>(volume: &Volume<S>, ino: InodeNo) -> Result<Vec<(Vec<u8>, InodeNo)>, FsError> {
    let (mut children, mut cookie) = (Vec::new(), 0);
    loop {
        let (found, next) = volume.run(|vfs, now| {
            let (mut found, mut next) = (Vec::new(), cookie);
            vfs.readdir(now, ino, cookie, &mut |entry| {
                next = entry.next;
                found.push((entry.name.to_vec(), entry.ino));
                true
            })?;
            Ok((found, next))
        })?;
        if found.is_empty() {
            return Ok(children);
        }
        children.extend(found.into_iter().filter(|(name, _)| name != b"." && name != b".."));
        cookie = next;
    }
}
