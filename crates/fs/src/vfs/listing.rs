//! readdir, readdirplus and readlink.

use super::history::is_only_listed;
use super::{Attr, DirEntry, Vfs};
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::inode::{Body, Kind};
use crate::states::is_made_up;
use crate::store::{Fork, Store};
use crate::ufs::make::TARGET_MAX_BYTES;
use crate::ufs::{self, dir};
use firnfs_format::{InodeNo, TimeNs};

/// The cookie after `..`: entries up to it are `.` and `..`.
const DOTS: u64 = 2;

/// What a caller of [`Vfs::readdirplus`] wants of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nothing: the listing ends before it.
    Nothing,
    /// Its name.
    Name,
    /// Its name and the attributes of its inode.
    Attributes,
}

/// Entries of a directory with the attributes of their inodes, as [`Vfs::readdirplus`] gathers them. One buffer holds all
/// names: thousands of small allocations would cost more than the listing itself.
#[derive(Default)]
pub struct Listing {
    names: Vec<u8>,
    entries: Vec<ListingEntry>,
}

struct ListingEntry {
    ino: InodeNo,
    kind: Kind,
    next: u64,
    /// End of the name in [`Listing::names`]; it starts at the end of the previous one.
    name_end: usize,
    wants_attr: bool,
    attr: Result<Option<Attr>, FsError>,
}

impl Listing {
    fn push(&mut self, entry: DirEntry<'_>, wants_attr: bool) {
        let DirEntry { ino, kind, next, name } = entry;
        self.names.extend_from_slice(name);
        let name_end = self.names.len();
        self.entries.push(ListingEntry { ino, kind, next, name_end, wants_attr, attr: Ok(None) });
    }

    /// The entries in order. Each comes with the attributes of its inode; with `None` if they were not wanted, and for `.` and `..`; or
    /// with the error if the inode cannot be read: a damaged file must not hide its neighbours.
    pub fn iter(&self) -> impl Iterator<Item = (DirEntry<'_>, Result<Option<&Attr>, &FsError>)> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|entry| entry.name_end));
        self.entries.iter().zip(starts).map(|(entry, start)| {
            let name = &self.names[start..entry.name_end];
            let entry_of = DirEntry { ino: entry.ino, kind: entry.kind, next: entry.next, name };
            (entry_of, entry.attr.as_ref().map(Option::as_ref))
        })
    }
}

impl<S: Store> Vfs<S> {
    /// Entries from `cookie` on, as long as they are `wanted`, with attributes where these are. It requests all missing blocks at once.
    /// Counts one hold for each entry that carries attributes (released with [`Vfs::forget`]). States that nobody has looked into carry
    /// none.
    ///
    /// # Errors
    /// As [`Vfs::readdir`]; `Need` for inodes. Nothing is held then.
    pub fn readdirplus(
        &mut self,
        now: TimeNs,
        dir: InodeNo,
        cookie: u64,
        wanted: &mut dyn FnMut(&DirEntry<'_>) -> Wanted,
    ) -> Outcome<Listing> {
        let mut listing = Listing::default();
        self.readdir(now, dir, cookie, &mut |entry| {
            let wanted = wanted(&entry);
            if wanted != Wanted::Nothing {
                listing.push(entry, wanted == Wanted::Attributes);
            }
            wanted != Wanted::Nothing
        })?;
        let mut needs = Vec::new();
        let carries =
            |entry: &&mut ListingEntry| entry.wants_attr && entry.next > DOTS && !is_only_listed(entry.ino);
        for entry in listing.entries.iter_mut().filter(carries) {
            entry.attr = match gather_needs(self.attr_of(entry.ino), &mut needs) {
                Ok(attr) => Ok(attr),
                Err(Stop::Fail(why)) => Err(why),
                Err(stop) => return Err(stop),
            };
        }
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        for entry in &listing.entries {
            if let Ok(Some(attr)) = entry.attr {
                self.store.note_access(dir, entry.ino);
                self.hold_looked_at(entry.ino, attr.nlink);
            }
        }
        Ok(listing)
    }

    /// Visits entries from `cookie` (0: from the start) until the visitor returns false. A call may end early if blocks must
    /// be read first: a call that visits nothing has reached the end of the directory. Renews the access time as the mode
    /// says. A removed directory has no entries.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`; `Need` and `Corrupt`, before anything was visited.
    pub fn readdir(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Outcome<()> {
        if is_made_up(ino) {
            return self.list_made_up(ino, cookie, visit);
        }
        let dir = dir::view(&mut self.store, ino)?;
        let atime_is_due = self.atime_is_due(now, ino)?;
        let dots: [(&[u8], InodeNo); 2] = [(b".", ino), (b"..", Self::parent_of(&dir))];
        let mut dots = (1..).zip(dots).filter(|(next, _)| cookie < *next);
        let (mut visited, mut wants_more) = (false, dir.nlink > 0);
        // They come with the first name: a directory that has to be read first would seem to end behind them.
        let mut visit_dots = |visit: &mut dyn FnMut(DirEntry<'_>) -> bool| {
            for (next, (name, ino)) in dots.by_ref() {
                visited = true;
                wants_more = wants_more && visit(DirEntry { ino, kind: Kind::Directory, next, name });
            }
            (visited, wants_more)
        };
        if dir.nlink > 0 {
            let from = cookie.max(dir::FIRST_COOKIE);
            let listed = dir::list(&mut self.store, &dir, from, &mut |listed| {
                let (ino, name) = (listed.record.ino, listed.record.name);
                visit_dots(visit).1 && visit(DirEntry { ino, kind: listed.kind, next: listed.next, name })
            });
            match listed {
                Err(stop @ Stop::Need(_)) => return Err(stop),
                // Damage is told by the call for what is behind them.
                Err(stop) if !visit_dots(visit).0 => return Err(stop),
                _ => _ = visit_dots(visit),
            }
        }
        self.touch_atime(now, ino, atime_is_due);
        Ok(())
    }

    /// The target of a symbolic link. Renews the access time as the mode says.
    ///
    /// # Errors
    /// `Invalid` if the inode is no symbolic link; `NotFound`; `Need`, `Corrupt`.
    pub fn readlink(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<Vec<u8>> {
        let atime_is_due = self.atime_is_due(now, ino)?;
        let inode = self.store.inode(ino)?;
        if inode.kind != Kind::Symlink {
            return Err(FsError::Invalid("not a symbolic link").into());
        }
        let len_bytes = inode.size_bytes;
        let target = match &inode.body {
            Body::Inline(target) => target.clone(),
            Body::Blocks if len_bytes <= TARGET_MAX_BYTES as u64 => {
                ufs::read_whole(&mut self.store, ino, Fork::Data, len_bytes as usize)?
            }
            Body::Blocks => {
                return Err(FsError::Corrupt {
                    what: format!("symbolic link {ino}"),
                    at: "size".to_owned(),
                    expected: format!("at most {TARGET_MAX_BYTES}"),
                    found: len_bytes.to_string(),
                }
                .into());
            }
        };
        self.touch_atime(now, ino, atime_is_due);
        Ok(target)
    }
}
