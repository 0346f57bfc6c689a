//! States of a volume, mounted beside the mount of the volume itself by its daemon: `firn mount IMAGE@STATE`.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, shell,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An ordinary user, who mounts through fusermount3.
const USER: &str = "65534";

/// A directory of that user; what is mounted below it is unmounted when this is dropped.
struct Home {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_firn"), directory.path().join("firn")).unwrap();
        let script = format!("chmod 755 .; mkdir home; chown {USER}:{USER} home; chmod o+rw /dev/fuse");
        shell(directory.path(), &script);
        let path = directory.path().join("home").canonicalize().unwrap();
        Self { path, _directory: directory }
    }

    /// With a mounted volume that has the states `one` and `two`, and directories to mount on.
    fn with_states() -> Self {
        let home = Self::new();
        home.run(
            "firn mkfs disk.img --size 256M >/dev/null; mkdir mnt p1 p2 p3; firn mount disk.img mnt
             echo 1 >mnt/f; firn snapshot mnt one >/dev/null
             echo 2 >mnt/f; firn snapshot mnt two >/dev/null; echo 3 >mnt/f",
        );
        home
    }

    fn output(&self, script: &str) -> Output {
        let user = [&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "sh", "-euc"];
        let path = format!("{}:{}", self.path.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("setpriv");
        command.args(user).arg(script).current_dir(&self.path).env("PATH", path).env("HOME", &self.path);
        command.output().unwrap()
    }

    /// Runs a script as the user; what it prints.
    fn run(&self, script: &str) -> String {
        let output = self.output(script);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}\n{out}{err}");
        out.into_owned()
    }

    /// Runs a command that must fail; its complaint.
    fn refused(&self, command: &str) -> String {
        let output = self.output(command);
        assert!(!output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn mounted(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let places = table.lines().filter_map(|line| line.split(' ').nth(4));
        let names = places.filter_map(|place| Path::new(place).strip_prefix(&self.path).ok());
        names.map(|name| name.display().to_string()).collect()
    }

    /// The daemon of the volume on `mnt`.
    fn daemon(&self) -> Pid {
        let device = self.run("stat -c %Hd:%Ld mnt");
        let directory = match Path::new("/run/user").join(USER) {
            runtime if runtime.is_dir() => runtime.join("firnfs"),
            _ => PathBuf::from(format!("/tmp/firnfs-{USER}")),
        };
        let mut stream = UnixStream::connect(directory.join(format!("{}.sock", device.trim()))).unwrap();
        writeln!(stream, r#"{{"op":"info"}}"#).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
        Pid::from_raw(answer["ok"]["pid"].as_i64().unwrap() as i32).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for name in self.mounted().iter().rev() {
            let _gone = rustix::mount::unmount(self.path.join(name), rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn can_be_another_user() -> bool {
    can_mount() && is_root()
}

#[test]
fn an_ordinary_user_mounts_states_beside_the_present_and_real_programs_read_them() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::new();
    home.run(
        "git config --global user.name t; git config --global user.email t@example.org
         git config --global safe.directory '*'
         firn mkfs disk.img --size 256M >/dev/null; mkdir mnt p1 p2 copy; firn mount disk.img mnt
         git init -q mnt/repo; cd mnt/repo; mkdir -p deep/er; ln -s f1 link
         for n in $(seq 60); do echo $n >f$n; done; head -c 3000000 /dev/urandom >deep/er/large
         git add .; git commit -qm first; chmod 600 f7; touch -d 2001-02-03 f8; cd ../..; cp -a mnt/. copy
         firn snapshot mnt one >/dev/null
         cd mnt/repo; git rm -qr deep; echo changed >f2; git commit -qam second; cd ../..
         firn snapshot mnt two >/dev/null; rm -rf mnt/repo/.git; echo later >mnt/repo/f3
         firn mount disk.img@one p1; firn mount disk.img@two p2",
    );
    home.run("diff -r --no-dereference copy p1; diff -r --no-dereference p2 mnt/.firn/history/two");
    home.run("tar -C p1 -cf - . | tar -C copy -df -");
    assert_eq!(home.run("git -C p1/repo fsck --full; git -C p1/repo log --format=%s"), "first\n");
    assert_eq!(home.run("git -C p2/repo fsck --full; git -C p2/repo log --format=%s"), "second\nfirst\n");
    assert_eq!(home.run("git -C p2/repo status --porcelain; git -C p2/repo show HEAD:f2"), "changed\n");
    assert_eq!(home.run("cat mnt/repo/f3; grep -c . p1/repo/link"), "later\n1\n");
    // As mount tables show it.
    let shown = home.run("findmnt -no SOURCE,FSTYPE,OPTIONS p1");
    let source = home.path.join("disk.img@one").display().to_string();
    assert!(shown.starts_with(&format!("{source} fuse.firnfs ro,nosuid,nodev")), "{shown}");
    assert!(home.run("df p1").contains(&source));
    // Nothing there can be changed.
    for change in [
        "echo x >p1/repo/f1",
        "echo x >>p1/repo/f1",
        "touch p1/new",
        "mkdir p1/new",
        "rm p1/repo/f1",
        "mv p1/repo/f1 p1/repo/g",
        "ln p1/repo/f1 p1/repo/g",
        "chmod 777 p1/repo/f1",
        "truncate -s 1 p1/repo/f1",
        "ln -sf x p1/repo/link",
    ] {
        let said = home.refused(change);
        assert!(said.contains("Read-only file system"), "{change}: {said}");
    }
    assert_eq!(home.run("diff -r --no-dereference copy p1"), "");
}

#[test]
fn commands_on_a_mounted_state_are_for_its_volume_or_say_where_to_go() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::with_states();
    home.run("firn mount disk.img@one p1");
    let mnt = home.path.join("mnt").display().to_string();
    for command in ["firn stat p1", "firn df p1"] {
        assert!(home.run(command).contains(&mnt), "{command}");
    }
    let image = home.path.join("disk.img").display().to_string();
    assert_eq!(home.run("firn df").matches(&image).count(), 1);
    assert_eq!(home.run("firn log p1 --null"), home.run("firn log mnt --null"));
    let said = home.refused("firn log p1/f");
    assert!(said.contains("is in a state") && said.contains(&format!("{mnt}/f")), "{said}");
    let said = home.refused("firn mount -o remount,rw p1");
    assert!(said.contains("shows only a part of a volume"), "{said}");
    let said = home.refused("firn mount -f disk.img@two p2");
    assert!(
        said.contains(&format!("look into {mnt}/.firn/history/two")) || said.contains("--foreground"),
        "{said}"
    );
    assert!(home.refused("firn mount disk.img@none p2").contains("neither a state"));
    home.run("firn sync p1; firn snapshot p1 three >/dev/null; firn mount disk.img@three p2; cat p2/f");
    assert!(!home.refused("firn mount disk.img@two /proc").is_empty());
    assert_eq!(home.mounted(), ["mnt", "p1", "p2"]);
}

#[test]
fn a_state_is_unmounted_alone_and_the_volume_takes_its_states_along() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::with_states();
    home.run("firn mount disk.img@one p1; firn mount disk.img@two p2; firn mount disk.img@one p3");
    let said = home.refused("firn umount mnt");
    for name in ["p1", "p2", "p3"] {
        assert!(said.contains(&home.path.join(name).display().to_string()), "{said}");
    }
    home.run("firn umount p1; fusermount3 -u p3; firn mount disk.img@one p1; firn umount disk.img@one");
    assert_eq!(home.run("cat p2/f mnt/f; ls p1 p3"), "2\n3\np1:\n\np3:\n");
    home.run("firn umount p2; firn umount mnt; firn fsck disk.img; firn mount disk.img mnt");
    // Without firn nobody refuses, and a program that reads a state gets an error.
    home.run(
        "firn mount disk.img@one p1; firn mount disk.img@two p2; exec 3<p1/f; fusermount3 -u mnt
         for n in $(seq 200); do firn fsck disk.img >/dev/null 2>&1 && break; sleep 0.1; done
         firn fsck disk.img; ! cat <&3 2>/dev/null",
    );
    assert_eq!(home.mounted(), Vec::<String>::new());
}

/// The daemon has the image for itself until it is unmounted.
#[test]
fn a_volume_that_was_remounted_read_only_still_shows_its_states() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("echo 1 >f", "one");
    let past = mount.image.with_file_name("past");
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", "-o", "remount,ro", mount.mnt.to_str().unwrap()]);
    let source = format!("{}@one", mount.image.display());
    firn_ok(&["mount", &source, past.to_str().unwrap()]);
    assert_eq!(shell(&past, "cat f"), "1\n");
    firn_ok(&["umount", &source]);
    // One that was never writable leaves the image to others.
    mount.umount();
    mount.mount_image(&["-o", "ro"]);
    firn_ok(&["mount", &source, past.to_str().unwrap()]);
    mount.umount();
    assert_eq!(shell(&past, "cat f"), "1\n");
    firn_ok(&["umount", &source]);
}

#[test]
fn a_state_that_is_mounted_in_its_own_volume_goes_with_it() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("echo 1 >f", "one");
    // Above the volume itself, too.
    fs::write(mount.path("f"), "2\n").unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), mount.mnt.to_str().unwrap()]);
    assert_eq!(shell(&mount.mnt, "cat f"), "1\n");
    firn_ok(&["umount", mount.mnt.to_str().unwrap()]);
    assert_eq!(shell(&mount.mnt, "cat f; echo 1 >f"), "2\n");
    let past = mount.path("past");
    let (mnt, place) = (mount.mnt.to_str().unwrap(), past.to_str().unwrap());
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), place]);
    assert_eq!(shell(&mount.mnt, "cat f past/f; echo 2 >f; cat f past/f"), "1\n1\n2\n1\n");
    assert!(complaint(&["umount", mnt]).contains(place));
    assert!(complaint(&["log", past.join("f").to_str().unwrap()]).contains("is in a state"));
    firn_ok(&["umount", "--lazy", mnt]);
    assert!(!mount.is_mounted());
    mount.mount_image(&[]);
    assert_eq!(shell(&mount.mnt, "cat f; ls past"), "2\n");
}

#[test]
fn after_the_daemon_was_killed_its_states_are_cleared_like_its_mount() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::with_states();
    home.run(
        "firn sync mnt; firn mount disk.img@one p1; firn mount disk.img@two p2; firn mount disk.img@two p3",
    );
    kill_process(home.daemon(), Signal::KILL).unwrap();
    eventually("it is dead", || home.output("cat p2/f").stderr.ends_with(b"not connected\n"));
    home.run("firn umount p1");
    // A mount over a dead one, and of the volume whose daemon died.
    home.run("firn mount disk.img mnt; firn mount disk.img@two p2");
    assert_eq!(home.run("cat mnt/f p2/f"), "3\n2\n");
    assert_eq!(home.mounted(), ["mnt", "p2"]);
    home.run("firn umount p2; firn umount mnt");
}

#[test]
fn a_signal_ends_many_mounted_states_with_the_volume() {
    const STATES: usize = 24;
    if !can_be_another_user() {
        return;
    }
    let home = Home::with_states();
    home.run(&format!(
        "for n in $(seq {STATES}); do echo $n >mnt/f; firn snapshot mnt s$n >/dev/null; mkdir q$n; done"
    ));
    let threads = || fs::read_dir(format!("/proc/{}/task", home.daemon().as_raw_pid())).unwrap().count();
    let before = threads();
    std::thread::scope(|scope| {
        for n in 1..=STATES {
            let home = &home;
            scope.spawn(move || home.run(&format!("firn mount disk.img@s{n} q{n}")));
        }
    });
    let read = format!("for n in $(seq {STATES}); do cat q$n/f; done");
    let expected: String = (1..=STATES).map(|n| format!("{n}\n")).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(home.run(&read), expected));
        }
    });
    eventually("few threads", || threads() <= before + 2 * STATES + 2);
    kill_process(home.daemon(), Signal::TERM).unwrap();
    eventually("all are gone", || home.mounted().is_empty());
    home.run("firn mount disk.img mnt; cat mnt/f; firn umount mnt; firn fsck disk.img");
}

#[test]
fn only_the_user_who_mounted_a_volume_mounts_its_states() {
    if !can_be_another_user() {
        return;
    }
    let home = Home::with_states();
    let image = home.path.join("disk.img@one");
    let place = home.path.join("p1");
    let line = complaint(&["mount", image.to_str().unwrap(), place.to_str().unwrap()]);
    assert!(line.contains(&format!("only user {USER} may mount its states; look into")), "{line}");
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("echo 1 >f", "one");
    let line = home.refused(&format!("firn mount {}@one p1", mount.image.display()));
    let directory = mount.path(".firn/history/one").display().to_string();
    assert!(line.contains("only user 0 may mount its states") && line.contains(&directory), "{line}");
    // What root mounts everybody may read.
    let past = mount.image.with_file_name("past");
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), past.to_str().unwrap()]);
    assert_eq!(home.run(&format!("cat {}/f", past.display())), "1\n");
    let said = home.refused(&format!("firn log {}/f", past.display()));
    assert!(said.contains("is in a state"), "{said}");
    firn_ok(&["umount", past.to_str().unwrap()]);
}

#[test]
fn a_state_that_is_dropped_while_it_is_mounted_is_stale() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    mount.state("echo 1 >f; mkdir d; echo 1 >d/g", "one");
    let past = mount.image.with_file_name("past");
    let (mnt, place) = (mount.mnt.to_str().unwrap(), past.to_str().unwrap());
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), place]);
    assert_eq!(fs::read(past.join("f")).unwrap(), b"1\n");
    firn_ok(&["snapshot", mnt, "--delete", "one"]);
    let stale = Some(rustix::io::Errno::STALE.raw_os_error());
    eventually("it is stale", || fs::read(past.join("d/g")).is_err_and(|e| e.raw_os_error() == stale));
    let line = complaint(&["mount", &format!("{}@one", mount.image.display()), place]);
    assert!(line.contains("neither a state"), "{line}");
    firn_ok(&["umount", place]);
    mount.remount_image();
}

/// The daemon refuses what the kernel lets through after a remount.
#[test]
fn a_mounted_state_cannot_be_changed_even_if_root_makes_the_mount_writable() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    mount.state("echo 1 >f; mkdir d", "one");
    let past = mount.image.with_file_name("past");
    let place = past.to_str().unwrap();
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), place]);
    rustix::mount::mount_remount(&past, rustix::mount::MountFlags::empty(), c"").unwrap();
    for change in ["echo x >f", "touch g", "mkdir e", "rm f", "mv f g", "ln f g", "chmod 777 f", "rmdir d"] {
        let output = Command::new("sh").arg("-euc").arg(change).current_dir(&past).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("Read-only file system"), "{change}: {said}");
    }
    assert_eq!(shell(&past, "cat f; ls; sync f"), "1\nd\nf\n");
    firn_ok(&["umount", place]);
    assert_eq!(shell(&mount.mnt, "cat f"), "1\n");
}

#[test]
fn states_are_shown_beside_a_volume_that_is_served_over_io_uring() {
    if !can_mount() || !is_root() || !firn(&["mount", "--enable-uring"]).status.success() {
        eprintln!("SKIPPED: NOT TESTED: FUSE over io_uring cannot be switched on");
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--transport", "uring"]);
    mount.state("for n in $(seq 200); do echo $n >f$n; done", "one");
    let past = mount.image.with_file_name("past");
    let place = past.to_str().unwrap();
    fs::create_dir(&past).unwrap();
    firn_ok(&["mount", &format!("{}@one", mount.image.display()), place]);
    std::thread::scope(|scope| {
        scope.spawn(|| shell(&mount.mnt, "for n in $(seq 200); do echo x >>f$n; done"));
        scope.spawn(|| {
            assert_eq!(shell(&past, "cat f* | sort -n | sha256sum"), shell(&past, "seq 200 | sha256sum"))
        });
    });
    assert_eq!(firn_json(&["stat", place, "--json"])["transport"], "io_uring");
    assert!(complaint(&["umount", mount.mnt.to_str().unwrap()]).contains(place));
    kill_process(mount.daemon_pid(), Signal::TERM).unwrap();
    eventually("both are gone", || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        !mount.is_mounted() && !table.contains(place)
    });
    mount.mount_image(&[]);
}
