//! `firn age` on mounted volumes: the daemon says where blocks lie.

use crate::common::{Kind, Mount, can_mount, firn, firn_json, firn_ok, shell};

#[test]
fn the_layout_of_a_mount_is_that_of_its_image() {
    if !can_mount() {
        return;
    }
    for kind in [Kind::Image, Kind::Fast] {
        let mount = Mount::new(kind);
        shell(&mount.mnt, "mkdir d; for n in 1 2 3 4 5; do head -c ${n}00000 /dev/zero >d/$n; done; rm d/3");
        shell(&mount.mnt, "cat d/5 d/5 >d/6; chmod 600 d/6");
        let layout = |path: &std::path::Path| {
            let mut layout =
                firn_json(&["age", "layout", path.to_str().unwrap(), "--json"])["layouts"][0].clone();
            layout["taken"].take();
            layout["path"].take();
            layout
        };
        let mounted = layout(&mount.mnt);
        // The image is served by a daemon: it answers.
        assert_eq!(layout(&mount.image), mounted);
        assert_eq!(mounted["placed_files"], 5, "{mounted}");
        mount.umount();
        let mut alone = layout(&mount.image);
        // The unmount writes a checkpoint.
        alone["free_space"].take();
        let mut mounted = mounted;
        mounted["free_space"].take();
        assert_eq!(alone, mounted);
    }
}

#[test]
fn a_volume_in_memory_has_no_layout() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let output = firn(&["age", "layout", mount.mnt.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("in memory"), "{stderr}");
    assert!(
        firn_ok(&["age", "layout", "/proc/self/fd"]).contains("0 with blocks"),
        "other file systems are shown"
    );
}
