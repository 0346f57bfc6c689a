//! Names the damaged file in an error. A user knows its path, not its inode number, in which the upper bits say which state it is of.

use super::{SendError, State};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;

/// Names that the search for a path looks at, about. A user who waits for an error can wait for that many.
const NAMES_MAX: usize = 200_000;

/// The same error with the path of inode `ino` in place of its number, if a path is found in one of the states.
pub(super) fn with_path(
    error: SendError,
    volume: &Volume<Lfs>,
    (from, to): (Option<State>, State),
    ino: InodeNo,
) -> SendError {
    let SendError::Fs(FsError::Corrupt { what, at, expected, found }) = error else { return error };
    let states = || [to].into_iter().chain(from);
    let path = states().find_map(|state| path_of(volume, state, ino));
    let name = path.unwrap_or_else(|| format!("inode {ino}"));
    let numbers = states().map(|state| format!("inode {}", state.ino(ino)));
    let what = numbers.fold(what, |what, number| what.replace(&number, &name));
    SendError::Fs(FsError::Corrupt { what, at, expected, found })
}

/// A path of an inode from the root of the volume; `None` if the search does not find one.
fn path_of(volume: &Volume<Lfs>, state: State, wanted: InodeNo) -> Option<String> {
    let (mut pending, mut names_left) = (vec![(InodeNo::ROOT, String::new())], NAMES_MAX);
    if wanted == InodeNo::ROOT {
        return Some("/".to_owned());
    }
    while let Some((dir, path)) = pending.pop().filter(|_| names_left > 0) {
        let below = |name: &[u8]| format!("{path}/{}", String::from_utf8_lossy(name));
        for (name, ino, kind) in entries_of(volume, state, dir) {
            names_left = names_left.saturating_sub(1);
            if ino == wanted {
                return Some(below(&name));
            }
            if kind == Kind::Directory {
                pending.push((ino, below(&name)));
            }
        }
    }
    None
}

/// The entries of a directory up to the first that cannot be read.
fn entries_of(volume: &Volume<Lfs>, state: State, dir: InodeNo) -> Vec<(Vec<u8>, InodeNo, Kind)> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let before = cookie;
        let listed = volume.run_quietly(|vfs, now| {
            vfs.readdir(now, state.ino(dir), cookie, &mut |entry| {
                cookie = entry.next;
                if entry.name != b"." && entry.name != b".." {
                    entries.push((entry.name.to_vec(), firnfs::states::number_of(entry.ino), entry.kind));
                }
                true
            })
        });
        if listed.is_err() || cookie == before {
            return entries;
        }
    }
}
