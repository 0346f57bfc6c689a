//! Sending states to other images: `firn send` and `firn receive`, in pipes.

use crate::common::{Kind, Mount, can_mount, complaint, firn, firn_ok, is_root, pattern, shell};
use crate::restore::{assert_same, make_tree, tree};
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FIRN: &str = env!("CARGO_BIN_EXE_firn");

/// What an image has, mounted elsewhere.
fn tree_of_image(image: &Path, below: &str) -> std::collections::BTreeMap<PathBuf, String> {
    let mnt = image.with_extension("mnt");
    fs::create_dir_all(&mnt).unwrap();
    firn_ok(&["mount", image.to_str().unwrap(), mnt.to_str().unwrap(), "-o", "ro"]);
    let found = tree(&mnt.join(below));
    firn_ok(&["umount", mnt.to_str().unwrap()]);
    found
}

#[test]
fn a_replica_follows_a_mounted_volume_from_state_to_state() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    let replica = away.path().join("replica.img");
    make_tree(&mount.path("tree"));
    let first = tree(&mount.path("tree"));
    firn_ok(&["snapshot", mnt, "one"]);
    shell(away.path(), &format!("{FIRN} send {mnt}@one | {FIRN} receive replica.img"));
    assert_same(&first, &tree_of_image(&replica, "tree"));
    // The present of the source goes on; what is sent is the state.
    shell(
        &mount.path("tree"),
        "git init -q . 2>/dev/null || true
         rm -r d11; mv d12 d13/inside; ln d20/f1 d21/again; echo more >> large; rm d8/f1; mkdir d11; echo new > d11/f1
         truncate -s 10M sparse; chmod 640 d30/f1; touch -d 2002-02-02 d31; ln -sf elsewhere l",
    );
    let second = tree(&mount.path("tree"));
    firn_ok(&["snapshot", mnt, "two"]);
    shell(&mount.path("tree"), "echo later > later; rm -r d40");
    shell(away.path(), &format!("{FIRN} send {mnt}@one..two > stream; {FIRN} receive replica.img < stream"));
    assert_same(&second, &tree_of_image(&replica, "tree"));
    // What changed is little.
    let (stream_bytes, all_bytes) = (fs::metadata(away.path().join("stream")).unwrap().len(), 3_000_000);
    assert!(stream_bytes < all_bytes, "{stream_bytes}");
    // The replica has both states, is sound, and is itself a volume that can be sent.
    firn_ok(&["fsck", replica.to_str().unwrap()]);
    let listed = firn_ok(&["snapshot", replica.to_str().unwrap(), "--list"]);
    assert!(listed.contains("one") && listed.contains("two"), "{listed}");
    shell(away.path(), &format!("{FIRN} send replica.img@two | {FIRN} receive third.img"));
    assert_same(&second, &tree_of_image(&away.path().join("third.img"), "tree"));
}

#[test]
fn a_stream_that_was_cut_is_continued_and_a_wrong_one_changes_nothing() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    shell(&mount.mnt, "mkdir d; head -c 5000000 /dev/urandom > d/large; echo small > d/small");
    firn_ok(&["snapshot", mnt, "one"]);
    let before = tree(&mount.path("d"));
    let said = shell(
        away.path(),
        &format!(
            "{FIRN} send {mnt}@one | head -c 3000000 | {FIRN} receive r.img --keep part 2>&1 && exit 9
             test ! -e r.img; {FIRN} send {mnt}@one --skip 3000000 | {FIRN} receive r.img --keep part; test ! -e part
             {FIRN} send {mnt}@one --output all; head -c 2000000 all > rest; {FIRN} send {mnt}@one --skip 1999999 -o rest && exit 9
             {FIRN} send {mnt}@one --skip 2000000 -o rest; cmp all rest"
        ),
    );
    assert!(said.contains("--skip 3000000"), "{said}");
    let replica = away.path().join("r.img");
    assert_same(&before, &tree_of_image(&replica, "d"));
    // Streams for another state, and for a volume that has one already.
    shell(&mount.mnt, "echo changed > d/small");
    firn_ok(&["snapshot", mnt, "two"]);
    firn_ok(&["snapshot", mnt, "three"]);
    let refused = |script: &str| shell(away.path(), &format!("({script}) 2>&1 && exit 9; true"));
    let why = refused(&format!("{FIRN} send {mnt}@two..three | {FIRN} receive r.img"));
    assert!(why.contains("starts from the state") && why.contains("new image"), "{why}");
    let why = refused(&format!("{FIRN} send {mnt}@two | {FIRN} receive r.img"));
    assert!(why.contains("only an empty volume"), "{why}");
    let why = refused(&format!("{FIRN} receive r.img < /etc/passwd"));
    assert!(why.contains("send stream"), "{why}");
    let why = refused(&format!("{FIRN} send {mnt}@one..two > s; head -c 200 s | {FIRN} receive r.img"));
    assert!(why.contains("is as it was"), "{why}");
    assert_same(&before, &tree_of_image(&replica, "d"));
    shell(away.path(), &format!("{FIRN} receive r.img < s"));
    assert_same(&tree(&mount.path("d")), &tree_of_image(&replica, "d"));
    // A replica that somebody has changed takes nothing more.
    let other = away.path().join("r.mnt");
    firn_ok(&["mount", replica.to_str().unwrap(), other.to_str().unwrap()]);
    shell(&other, "echo of its own > own");
    firn_ok(&["umount", other.to_str().unwrap()]);
    let why = refused(&format!("{FIRN} send {mnt}@two..three | {FIRN} receive r.img"));
    assert!(why.contains("has changed since"), "{why}");
    assert!(complaint(&["send", mnt]).contains("which state"));
    assert!(complaint(&["send", &format!("{mnt}@nowhere")]).contains("firn log"));
}

#[test]
fn an_unmount_does_not_wait_for_a_reader_that_has_stopped() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &[]);
    shell(&mount.mnt, "head -c 30000000 /dev/urandom > large");
    let mnt = mount.mnt.to_str().unwrap();
    firn_ok(&["snapshot", mnt, "one"]);
    let mut sending = Command::new(FIRN)
        .args(["send", &format!("{mnt}@one")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It has begun, and nobody reads the rest.
    let mut begun = [0; 1000];
    sending.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    let since = Instant::now();
    mount.umount();
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    drop(sending.stdout.take());
    assert!(!sending.wait().unwrap().success());
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
}

/// The exit code and the single line of a command that fails.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    (firn(words).status.code(), complaint(words))
}

#[test]
fn a_send_that_is_refused_makes_no_file_and_replaces_none() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    mount.state("echo 1 > f", "one");
    mount.state("echo 2 > f", "two");
    let out = away.path().join("st");
    let stream = out.to_str().unwrap();
    let at = |states: &str| format!("{mnt}@{states}");
    for (states, exit, why) in [
        ("two..one", 2, "name the older state first"),
        ("one..one", 2, "both states are one"),
        ("nowhere", 2, "neither a state"),
    ] {
        let (code, line) = refused(&["send", &at(states), "-o", stream]);
        assert!(code == Some(exit) && line.contains(why), "{line}");
        assert!(!out.exists(), "{states}");
    }
    let (code, line) = refused(&["send", &at("one"), "--skip", "9", "-o", stream]);
    assert!(code == Some(2) && line.contains("--skip continues a file that is"), "{line}");
    fs::write(&out, "of value").unwrap();
    let (code, line) = refused(&["send", &at("one"), "-o", stream]);
    assert!(code == Some(4) && line.contains("exists; remove it, or name another file"), "{line}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "of value");
    // Devices are written to as they are.
    firn_ok(&["send", &at("one"), "-o", "/dev/null"]);
    fs::remove_file(&out).unwrap();
    firn_ok(&["send", &at("one..two"), "-o", stream]);
    assert!(fs::metadata(&out).unwrap().len() > 0);
}

#[test]
fn a_send_of_a_damaged_file_names_it_and_leaves_no_stream() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    fs::create_dir(mount.path("d")).unwrap();
    fs::write(mount.path("d/sound"), pattern(1, 300_000)).unwrap();
    fs::write(mount.path("d/large"), pattern(7, 300_000)).unwrap();
    firn_ok(&["snapshot", mnt, "one"]);
    mount.umount();
    let (bytes, wanted) = (fs::read(&mount.image).unwrap(), &pattern(7, 300_000)[200_000..200_064]);
    let at = bytes.windows(wanted.len()).position(|some| some == wanted).unwrap();
    let file = fs::File::options().write(true).open(&mount.image).unwrap();
    file.write_all_at(&[bytes[at] ^ 4], at as u64).unwrap();
    let out = mount.mnt.with_file_name("st");
    let fails = |source: &str| {
        let (code, line) = refused(&["send", &format!("{source}@one"), "-o", out.to_str().unwrap()]);
        assert_eq!(code, Some(3), "{line}");
        assert!(line.contains("/d/large block ") && line.contains("the volume is damaged"), "{line}");
        assert!(!line.contains("inode") && !out.exists(), "{line}");
    };
    fails(image);
    mount.mount_image(&[]);
    fails(mnt);
}

#[test]
fn an_output_that_takes_no_more_is_named_and_a_reader_that_has_enough_is_no_error() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    mount.state("head -c 5000000 /dev/urandom > large", "one");
    let send = |source: &str| {
        let full = shell(away.path(), &format!("{FIRN} send {source}@one 2>&1 >/dev/full && exit 9; true"));
        assert!(
            full.contains("cannot write the stream to standard output: No space left on device"),
            "{full}"
        );
        assert!(!full.contains("os error") && full.lines().count() == 1, "{full}");
        let script =
            format!("{{ {FIRN} send {source}@one; echo \"ended with $?\" >&2; }} | head -c 10 > begun");
        let output = Command::new("sh").args(["-c", &script]).current_dir(away.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "ended with 0\n");
    };
    send(mnt);
    mount.umount();
    send(mount.image.to_str().unwrap());
}

#[test]
fn a_stream_that_filled_a_disk_is_continued_as_the_error_says() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    mount.state("head -c 5000000 /dev/urandom > large", "one");
    let said = shell(
        away.path(),
        &format!(
            "mkdir small; mount -t tmpfs -o size=1M tmpfs small; trap 'umount -l small' EXIT
             {FIRN} send {mnt}@one -o small/st 2>&1 && exit 9
             bytes=$(stat -c %s small/st); mount -o remount,size=20M small
             echo then --skip $bytes; {FIRN} send {mnt}@one --skip $bytes -o small/st
             {FIRN} send {mnt}@one > all; cmp all small/st"
        ),
    );
    let (line, rest) = said.split_once('\n').unwrap();
    let skip = rest.strip_prefix("then ").unwrap().lines().next().unwrap();
    assert!(line.contains("cannot write small/st: No space left on device"), "{line}");
    assert!(line.contains(&format!("{skip} --output small/st sends the rest")), "{line}");
}

#[test]
fn a_new_image_that_would_be_too_small_is_refused_with_the_least_size() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "128M", &[]);
    let (mnt, away) = (mount.mnt.to_str().unwrap(), tempfile::tempdir().unwrap());
    mount.state("echo 1 > f", "one");
    shell(away.path(), &format!("{FIRN} send {mnt}@one -o st"));
    let receive = |size: u64| {
        let script = format!("{FIRN} receive r.img --size {size}M < st 2>&1; echo \"ended with $?\"");
        shell(away.path(), &format!("set +e; {script}"))
    };
    let said = receive(10);
    assert!(said.contains("10 MiB is too small") && said.ends_with("ended with 2\n"), "{said}");
    assert!(!away.path().join("r.img").exists());
    let least = said.split("use --size ").nth(1).and_then(|rest| rest.split_once('M')).unwrap().0;
    let least: u64 = least.parse().unwrap();
    assert!(receive(least - 1).contains("too small"), "{least}");
    assert!(!receive(least).contains("too small"), "{least}");
}
