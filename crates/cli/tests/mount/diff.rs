//! `firn diff` names what differs, and nothing that was changed back; `firn rollback` leaves that alone.

use crate::common::{Kind, Mount, can_mount, firn_json, firn_ok, is_root, shell};
use rustix::fs::{XattrFlags, removexattr, setxattr};

/// An ACL that lets user 5 read; the permissions of a file that all may read stay as they are.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 5, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16,
    0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

/// A volume with a state "one", in which all may read everything.
fn volume() -> Mount {
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    shell(
        &mount.mnt,
        "mkdir d e; for f in back link same time touched mode mark acl no-acl set-back; do echo 1 > d/$f; done
         echo 1 > owner; ln -s d/same symlink; chmod 755 d e; chmod 644 d/* owner",
    );
    set(&mount, "d/mark", "user.mark", b"old");
    set(&mount, "d/no-acl", "system.posix_acl_access", &ACL);
    firn_ok(&["snapshot", mount.mnt.to_str().unwrap(), "one"]);
    mount
}

fn set(mount: &Mount, name: &str, attribute: &str, value: &[u8]) {
    setxattr(mount.path(name), attribute, value, XattrFlags::empty()).unwrap();
}

#[test]
fn what_was_changed_back_is_no_difference() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    let mnt = mount.mnt.to_str().unwrap();
    let one = format!("{mnt}@one");
    set(&mount, "d/back", "user.note", b"1");
    set(&mount, "d/acl", "system.posix_acl_access", &ACL);
    assert_eq!(firn_ok(&["diff", &one]), "a d/acl\na d/back\n", "while it is changed");
    removexattr(mount.path("d/back"), "user.note").unwrap();
    removexattr(mount.path("d/acl"), "system.posix_acl_access").unwrap();
    shell(
        &mount.mnt,
        "chmod 600 d/mode; chmod 644 d/mode; ln d/link d/link2; rm d/link2; chmod 700 e; chmod 755 e
         mv d/time d/other; mv d/other d/time",
    );
    assert_eq!(firn_ok(&["diff", &one]), "");
    firn_ok(&["snapshot", mnt, "two"]);
    assert_eq!(firn_ok(&["diff", &one, &format!("{mnt}@two")]), "");
    assert_eq!(firn_ok(&["diff", &format!("{mnt}@two"), &one]), "");
}

#[test]
fn content_and_attributes_are_told_apart_also_where_sizes_and_times_do_not() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = volume();
    let mnt = mount.mnt.to_str().unwrap();
    set(&mount, "d/mark", "user.mark", b"new");
    set(&mount, "d/acl", "system.posix_acl_access", &ACL);
    removexattr(mount.path("d/no-acl"), "system.posix_acl_access").unwrap();
    shell(
        &mount.mnt,
        "echo 1 > d/touched; touch -d 2001-01-01 d/time e; echo 2 > d/same; chmod 600 d/mode; chown 5 owner
         touch -r d/set-back reference; echo 2 > d/set-back; touch -r reference d/set-back; rm reference",
    );
    let expected = "a d/acl\na d/mark\na d/mode\na d/no-acl\nM d/same\nM d/set-back\na d/time\na d/touched\na e/\na owner\n";
    let (one, two) = (format!("{mnt}@one"), format!("{mnt}@two"));
    assert_eq!(firn_ok(&["diff", &one]), expected);
    firn_ok(&["snapshot", mnt, "two"]);
    assert_eq!(firn_ok(&["diff", &one, &two]), expected);
    assert_eq!(firn_ok(&["diff", &two, &one]), expected);
}

#[test]
fn nothing_differs_after_a_rollback_and_another_one_finds_nothing_to_do() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = volume();
    let mnt = mount.mnt.to_str().unwrap();
    set(&mount, "d/mark", "user.mark", b"new");
    set(&mount, "d/back", "user.note", b"1");
    shell(
        &mount.mnt,
        "chmod 600 d/mode; chmod 700 e; chown 5 owner; touch -d 2001-01-01 d/time; echo 2 > d/same; echo new > e/new
         rm d/touched; mv d/link link; ln -sf elsewhere symlink",
    );
    let first = firn_json(&["rollback", mnt, "one", "--json"]);
    assert_eq!(first["problems"], 0, "{first}");
    assert_eq!(firn_ok(&["diff", &format!("{mnt}@one")]), "");
    let second = firn_json(&["rollback", mnt, "one", "--json"]);
    let done =
        ["removed", "returned", "renamed", "turned_back", "problems"].map(|what| second[what].as_u64());
    assert_eq!(done, [Some(0); 5], "{second}");
}
