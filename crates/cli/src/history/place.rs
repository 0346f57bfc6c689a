//! Paths on a mount, and the same paths in its states, below `.firn/history/NAME`.
//!
//! A path need not exist: a command may restore what is gone. The part of it that exists leads to the mount.

use super::clone::CLONES_DIR;
use super::states::{HISTORY_DIR, State, States, has_no_history};
use crate::failure::{Done, Exit, Failure};
use crate::names::{readable, shell_word};
use firnfs_fuse::mount::table::{self, Mount};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A path on a mount of a volume with history.
#[derive(Clone, Debug)]
pub struct Place {
    /// A mount that shows the root of the volume.
    pub mount: Mount,
    /// The path below that root; empty for the root itself.
    pub below: PathBuf,
}

impl Place {
    /// Finds the mount that holds a path, which may be gone. A link in the last name of the path is not followed.
    ///
    /// # Errors
    /// The path is on no firnfs mount, or the volume keeps no history.
    pub fn of(path: &Path) -> Done<Self> {
        let absolute = std::path::absolute(path).map_err(|e| Failure::io("cannot find", path, &e))?;
        let (start, rest) = existing_part(&absolute)?;
        let (mount, shown) = root_of_volume(&start, path)?;
        // Joining an empty path leaves a slash.
        let below = shown.join(rest).components().collect();
        Ok(Self { mount, below })
    }

    /// The states of the volume.
    ///
    /// # Errors
    /// The daemon is dead. The path is in a clone or in a state, which have no states of their own.
    pub fn states(&self) -> Done<States> {
        let mut names = self.below.components().map(Component::as_os_str);
        let there = names.next().zip(names.next()).map(|(dot, kind)| Path::new(dot).join(kind));
        // The next component is the name of the clone or state.
        let rest: PathBuf = names.skip(1).collect();
        let refuse = |kind: &str, advice: String| {
            let message = format!(
                "{} is in a {kind}; states are kept only of the volume itself",
                readable(&self.now())
            );
            Err(Failure::new(Exit::Refused, message).advise(advice))
        };
        let in_present = shell_word(&join(&self.mount.mountpoint, &rest));
        match there {
            Some(there) if there == Path::new(HISTORY_DIR) => {
                refuse("state", format!("name its place in the present, {in_present}"))
            }
            Some(there) if there == Path::new(CLONES_DIR) => {
                let list = format!("'firn clone {} --list' names it", shell_word(&self.mount.mountpoint));
                refuse("clone", format!("the state that it began as may have {in_present}; {list}"))
            }
            _ => States::of_mount(&self.mount),
        }
    }

    /// The path in the present.
    pub fn now(&self) -> PathBuf {
        join(&self.mount.mountpoint, &self.below)
    }

    /// The path in a state.
    pub fn then(&self, state: &State) -> PathBuf {
        join(&self.root_of(state), &self.below)
    }

    /// The root directory of the volume in a state.
    pub fn root_of(&self, state: &State) -> PathBuf {
        self.mount.mountpoint.join(HISTORY_DIR).join(&state.name)
    }

    /// The same place with another path below the root.
    pub fn at(&self, below: PathBuf) -> Self {
        Self { mount: self.mount.clone(), below }
    }
}

/// The mount that shows the root of the volume, and the path of a directory or file below that root; `path` is for messages.
fn root_of_volume(start: &Path, path: &Path) -> Done<(Mount, PathBuf)> {
    let failed = |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    let no_mount = || {
        Failure::new(Exit::NotAVolume, format!("{} is not on a firnfs mount", readable(&path)))
            .advise("mount the volume first, and give a path below its mountpoint")
    };
    table::mount_of(start).map_err(failed)?.ok_or_else(no_mount)?;
    let mounts = table::firnfs_mounts().map_err(failed)?;
    let there = std::fs::metadata(start).map_err(|e| Failure::io("cannot find", start, &e))?.dev();
    let there = (rustix::fs::major(there), rustix::fs::minor(there));
    let shows = |mount: &&Mount| mount.own_device == there && start.starts_with(&mount.mountpoint);
    let nearest = mounts.iter().filter(shows).max_by_key(|mount| mount.mountpoint.as_os_str().len());
    let nearest = nearest.ok_or_else(|| has_no_history(path))?;
    // A state, or a bind mount of a directory, does not show the root of the volume.
    let is_root = |mount: &&Mount| mount.is_whole() && mount.own_device == nearest.device;
    let whole = if nearest.is_whole() { Some(nearest) } else { mounts.iter().rev().find(is_root) };
    let whole = whole.filter(|mount| mount.mountpoint.join(HISTORY_DIR).is_dir());
    let whole = whole.ok_or_else(|| has_no_history(path))?;
    let shown = nearest.root.strip_prefix("/").unwrap_or(&nearest.root);
    let below = start.strip_prefix(&nearest.mountpoint).unwrap_or(Path::new(""));
    Ok((whole.clone(), shown.join(below)))
}

/// Joins paths. Adds no slash if the second one is empty.
pub fn join(directory: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { directory.to_owned() } else { directory.join(below) }
}

/// Splits a path into the part that exists, with its links resolved, and the rest.
fn existing_part(absolute: &Path) -> Done<(PathBuf, PathBuf)> {
    let mut rest: Vec<&OsStr> = Vec::new();
    let mut start = absolute;
    // The last name is not resolved, unless it is a mountpoint.
    if let (Some(parent), Some(name)) = (start.parent(), start.file_name())
        && !is_mountpoint(start)
    {
        rest.push(name);
        start = parent;
    }
    loop {
        match start.canonicalize() {
            Ok(found) => {
                if rest.contains(&OsStr::new("..")) {
                    let message = format!("{} has .. behind a directory that is gone", readable(&absolute));
                    return Err(Failure::usage(message));
                }
                return Ok((found, rest.iter().rev().collect()));
            }
            Err(e) => match (start.parent(), start.components().next_back()) {
                (Some(parent), Some(last)) if e.kind() == std::io::ErrorKind::NotFound => {
                    rest.push(last.as_os_str());
                    start = parent;
                }
                _ => return Err(Failure::io("cannot find", start, &e)),
            },
        }
    }
}

fn is_mountpoint(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.dev());
    path.parent().is_some_and(|parent| device(path) != device(parent)) && path.exists()
}

/// Splits `PATH@STATE`. A path that exists as it stands names no state.
pub fn split_state(text: &OsStr) -> (PathBuf, Option<String>) {
    let whole = PathBuf::from(text);
    if whole.symlink_metadata().is_ok() {
        return (whole, None);
    }
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().rposition(|&b| b == b'@') else { return (whole, None) };
    // `/mnt@@1795527910`: a time in seconds has a sign of its own.
    let at = if at > 0 && bytes[at - 1] == b'@' { at - 1 } else { at };
    let Ok(state) = std::str::from_utf8(&bytes[at + 1..]) else { return (whole, None) };
    if at == 0 || state.is_empty() {
        return (whole, None);
    }
    (PathBuf::from(OsString::from(OsStr::from_bytes(&bytes[..at]))), Some(state.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_follows_the_last_sign_unless_the_whole_path_exists() {
        let split = |text: &str| {
            let (path, state) = split_state(OsStr::new(text));
            (path.to_str().unwrap().to_owned(), state)
        };
        let of = |path: &str, state: &str| (path.to_owned(), Some(state.to_owned()));
        assert_eq!(split("/no/mnt@one"), of("/no/mnt", "one"));
        assert_eq!(split("/no/a@b@2 hours ago"), of("/no/a@b", "2 hours ago"));
        assert_eq!(split("/no/mnt@@1795527910"), of("/no/mnt", "@1795527910"));
        for whole in ["/no/mnt", "/no/mnt@", "@one"] {
            assert_eq!(split(whole), (whole.to_owned(), None));
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a@b");
        std::fs::write(&file, "").unwrap();
        assert_eq!(split_state(file.as_os_str()), (file, None));
    }

    #[test]
    fn what_is_gone_is_found_by_what_is_still_there() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(".", there.join("link")).unwrap();
        let part = |path: &str| existing_part(&there.join(path)).unwrap();
        assert_eq!(part("gone/deeper"), (there.clone(), PathBuf::from("gone/deeper")));
        assert_eq!(part("link/gone"), (there.clone(), PathBuf::from("gone")));
        assert_eq!(part("link"), (there.clone(), PathBuf::from("link")));
        assert!(existing_part(&there.join("gone/../x")).is_err());
    }
}
