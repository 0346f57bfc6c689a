//! Directories of retained points list what the directory held when the point was made, and nothing else.

use crate::common::{create, mount, new_device, unlink};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs_format::InodeNo;
use firnfs_volume::Volume;

fn names(volume: &Volume<Lfs>, dir: InodeNo) -> Vec<String> {
    let list = |names: &mut Vec<String>| {
        volume.run(|vfs, now| {
            names.clear();
            vfs.readdir(now, dir, 0, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
                true
            })
        })
    };
    let mut names = Vec::new();
    list(&mut names).unwrap();
    names
}

/// Guards: a record without an inode, which is left where the first name of a block was removed, was listed as an entry without a name.
#[test]
fn removed_names_are_not_listed_in_the_past() {
    let (volume, _) = mount(&new_device(24 << 20, 0), Options::default());
    for name in ["first", "second", "third"] {
        create(&volume, InodeNo::ROOT, name, Kind::Regular);
    }
    unlink(&volume, InodeNo::ROOT, "first").unwrap();
    volume.run(|vfs, now| vfs.store_mut().make_point(now, "then")).unwrap();
    let find = |dir, name: &str| volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false));
    let root =
        [".firn", "history", "then"].iter().fold(InodeNo::ROOT, |dir, name| find(dir, name).unwrap().ino);
    assert_eq!(names(&volume, root), [".", "..", "second", "third"]);
}
