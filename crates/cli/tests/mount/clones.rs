//! `firn clone`: programs work in a tree that began as a snapshot, beside the volume; both survive unmounts and a killed daemon.

use crate::common::{Kind, Mount, can_mount, complaint, eventually, firn_json, firn_ok, is_root, shell};
use crate::restore::{assert_same, make_tree, tree};
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_clone_is_worked_in_like_the_volume_and_leaves_it_alone() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &[]);
    let mnt = mount.mnt.to_str().unwrap().to_owned();
    fs::create_dir(mount.path("d")).unwrap();
    make_tree(&mount.path("d"));
    shell(
        &mount.mnt,
        "git init -q repo; cd repo; git config user.name t; git config user.email t@t
         printf 'int main(void){return 0;}\\n' > main.c; seq 20000 > numbers; git add .; git commit -qm one",
    );
    firn_ok(&["snapshot", &mnt, "one"]);
    let then = tree(&mount.mnt);
    shell(&mount.mnt, "cd repo; seq 30000 > numbers; git commit -qam two; rm -r ../d/*; echo new > ../new");
    let now = tree(&mount.mnt);

    // Outside of the mount, and on it.
    let elsewhere = tempfile::tempdir().unwrap();
    let work = elsewhere.path().join("work");
    // Nothing is made if the link has no place.
    fs::write(elsewhere.path().join("file"), "").unwrap();
    for nowhere in ["missing/work", "file/work"] {
        let nowhere = elsewhere.path().join(nowhere);
        let said = complaint(&["clone", &mnt, "one", nowhere.to_str().unwrap()]);
        assert!(said.contains("cannot make a link in"), "{said}");
        assert!(firn_ok(&["clone", &mnt, "--list"]).contains("no clones"), "{nowhere:?}");
    }
    let said = firn_ok(&["clone", &mnt, "one", work.to_str().unwrap()]);
    assert!(said.contains("a clone of one"), "{said}");
    fs::create_dir(mount.path("sub")).unwrap();
    let inside = mount.path("sub/second");
    firn_ok(&["clone", &mnt, "one", inside.to_str().unwrap()]);
    assert_eq!(fs::read_link(&inside).unwrap().to_str(), Some("../.firn/clones/second"));
    let list = firn_json(&["clone", &mnt, "--list", "--json"]);
    assert_eq!(list["clones"][1]["name"], "second");
    assert_eq!(list["clones"][1]["origin"], "one");
    assert!(firn_ok(&["clone", &mnt, "--list"]).lines().all(|line| line.len() <= 80));
    assert_same(&then, &tree(&work.canonicalize().unwrap()));

    // Programs work in it: what they do is seen nowhere else.
    shell(
        &work,
        "cd repo; git fsck --strict; test $(wc -l < numbers) = 20000; seq 5 > numbers; git commit -qam mine; cc -O0 -o prog main.c; ./prog
         tar -C ../d -cf ../all.tar .; mkdir ../again; tar -C ../again -xf ../all.tar; rm -r ../d; git gc -q; git fsck --strict
         ln numbers link; mv link ../again/; printf x >> ../again/link; test $(wc -c < numbers) = 11
         fallocate -l 1M zeros 2>/dev/null || true; truncate -s 0 main.c",
    );
    let changed = tree(&work.canonicalize().unwrap());
    fs::remove_file(&inside).unwrap();
    fs::remove_dir(mount.path("sub")).unwrap();
    let times = |tree: &mut std::collections::BTreeMap<_, String>| tree.remove(std::path::Path::new(""));
    let (mut before, mut after) = (now.clone(), tree(&mount.mnt));
    times(&mut before);
    times(&mut after);
    assert_same(&before, &after);
    let second = mount.path(".firn/clones/second");
    assert_same(&then, &tree(&second));

    // It is another file system to programs that move and link.
    let crossing = fs::rename(work.join("repo/numbers"), mount.path("numbers")).unwrap_err();
    assert_eq!(crossing.kind(), std::io::ErrorKind::CrossesDevices);
    assert_eq!(fs::hard_link(mount.path("new"), work.join("new")).unwrap_err().kind(), crossing.kind());
    assert_ne!(
        fs::metadata(work.join("repo/.git")).unwrap().ino(),
        fs::metadata(mount.path("repo/.git")).unwrap().ino()
    );

    // The snapshot stays as long as its clones.
    let refused = complaint(&["snapshot", &mnt, "--delete", "one"]);
    assert!(refused.contains("clone 'second'") || refused.contains("clone 'work'"), "{refused}");
    assert!(complaint(&["clone", &mnt, "one", work.to_str().unwrap()]).contains("exists"));
    assert!(complaint(&["clone", &mnt, "one", mount.path("second").to_str().unwrap()]).contains("already"));
    assert!(complaint(&["clone", &mnt, "nothing", mount.path("x").to_str().unwrap()]).contains("nothing"));

    // After a kill and an unmount all is as it was. The kernel tells a FUSE daemon nothing of sync(2).
    firn_ok(&["sync", &mnt]);
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    shell(&mount.mnt, "cd /; umount -l \"$OLDPWD\" || true");
    eventually("the mount is gone", || !mount.is_mounted());
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
    mount.mount_image(&[]);
    assert_same(&changed, &tree(&work.canonicalize().unwrap()));
    assert_same(&then, &tree(&second));
    mount.remount_image();
    assert_same(&changed, &tree(&work.canonicalize().unwrap()));

    // Deleted by its link, and by its name.
    firn_ok(&["clone", &mnt, "--delete", work.to_str().unwrap()]);
    assert!(work.symlink_metadata().is_err());
    let gone = firn_json(&["clone", &mnt, "--delete", "second", "--json"]);
    assert_eq!((&gone["deleted"], &gone["link"]), (&true.into(), &serde_json::Value::Null));
    assert!(complaint(&["clone", &mnt, "--delete", "second"]).contains("no clone second"));
    eventually("the clones are gone", || {
        crate::common::firn(&["snapshot", &mnt, "--delete", "one"]).status.success()
    });
    assert!(firn_ok(&["clone", &mnt, "--list"]).contains("no clones"));
    mount.umount();
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
}
