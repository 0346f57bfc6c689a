//! Mounts for end-to-end tests: the real program, a real mount, a volume in memory or on an image.
//!
//! A test that cannot run here (no `/dev/fuse`, or not root where root is needed) prints that and passes; it never
//! passes silently.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Where the volume lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Memory,
    Image,
    /// An image whose volume keeps no states of the past by itself.
    NoHistory,
    /// A Fast File System on an image.
    Fast,
}

impl Kind {
    /// It survives an unmount.
    pub fn is_kept(self) -> bool {
        self != Self::Memory
    }
}

/// The kernel has one set of caches, which all tests share.
static KERNEL_CACHES: RwLock<()> = RwLock::new(());

/// For a test that relies on the kernel's caches.
pub fn kernel_caches_stay() -> RwLockReadGuard<'static, ()> {
    KERNEL_CACHES.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that has the kernel drop its caches.
pub fn kernel_caches_go() -> RwLockWriteGuard<'static, ()> {
    KERNEL_CACHES.write().unwrap_or_else(PoisonError::into_inner)
}

/// A daemon that answers nothing until this is dropped.
pub struct Stopped(Pid);

impl Stopped {
    pub fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

pub const ALL: [Kind; 3] = [Kind::Memory, Kind::Image, Kind::Fast];

/// True if mounts are possible; prints a message if not.
pub fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("SKIPPED: NOT TESTED: /dev/fuse is missing");
    }
    can
}

/// True if this is root; prints a message if not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: NOT TESTED: needs root");
    }
    root
}

pub fn firn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firn")).args(words).output().unwrap()
}

/// Runs `firn` and asserts success.
pub fn firn_ok(words: &[&str]) -> String {
    let output = firn(words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "firn {words:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The single line that a failed command prints.
pub fn complaint(words: &[&str]) -> String {
    let output = firn(words);
    assert!(!output.status.success(), "{words:?} succeeded");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// Runs `firn`, asserts success and that its JSON is as documented.
pub fn firn_json(words: &[&str]) -> serde_json::Value {
    crate::schema::parse(&firn_ok(words))
}

/// Runs a shell script in a directory and asserts success; returns its standard output.
pub fn shell(directory: &Path, script: &str) -> String {
    let output = Command::new("sh").arg("-euc").arg(script).current_dir(directory).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// The transport of mounts whose test names none: TRANSPORT of the environment, or else `/dev/fuse`. Never what the kernel
/// happens to have switched on.
fn transport() -> &'static str {
    static CHOSEN: LazyLock<String> = LazyLock::new(|| {
        let chosen = std::env::var("TRANSPORT").unwrap_or_else(|_| "dev".to_owned());
        if chosen == "uring" {
            firn_ok(&["mount", "--enable-uring"]);
        }
        eprintln!("mounts whose test names no transport: {chosen}");
        chosen
    });
    &CHOSEN
}

fn with_transport<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let mut options = options.to_vec();
    if !options.iter().any(|word| word.contains("transport")) {
        options.extend(["--transport", transport()]);
    }
    options
}

/// A mounted volume; unmounted when dropped.
pub struct Mount {
    _directory: tempfile::TempDir,
    pub mnt: PathBuf,
    pub image: PathBuf,
}

impl Mount {
    /// Runs a script in the root directory, and makes what it leaves a snapshot.
    pub fn state(&self, script: &str, name: &str) {
        shell(&self.mnt, script);
        firn_ok(&["snapshot", self.mnt.to_str().unwrap(), name]);
    }

    pub fn new(kind: Kind) -> Self {
        Self::with(kind, "512M", &[])
    }

    /// A mount of that size, with more options for `firn mount`. The transport is [`transport`] if they name none.
    pub fn with(kind: Kind, size: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        shell(directory.path(), "chmod 755 .");
        let mnt = directory.path().join("mnt");
        std::fs::create_dir(&mnt).unwrap();
        let image = directory.path().join("disk.img");
        let mount = Self { mnt, image, _directory: directory };
        match kind {
            Kind::Memory => {
                let mut words = vec!["mount", "--memory", size, mount.mnt.to_str().unwrap()];
                words.extend(with_transport(options));
                firn_ok(&words);
            }
            Kind::Image => {
                firn_ok(&["mkfs", mount.image.to_str().unwrap(), "--size", size]);
                mount.mount_image(options);
            }
            Kind::NoHistory => {
                firn_ok(&["mkfs", mount.image.to_str().unwrap(), "--size", size, "--history", "off"]);
                mount.mount_image(options);
            }
            Kind::Fast => {
                firn_ok(&["mkfs", mount.image.to_str().unwrap(), "--size", size, "--type", "ffs"]);
                mount.mount_image(options);
            }
        }
        mount
    }

    pub fn mount_image(&self, options: &[&str]) {
        let mut words = vec!["mount", self.image.to_str().unwrap(), self.mnt.to_str().unwrap()];
        words.extend(with_transport(options));
        firn_ok(&words);
    }

    pub fn umount(&self) {
        firn_ok(&["umount", self.mnt.to_str().unwrap()]);
    }

    /// Unmounts, checks and mounts again.
    pub fn remount_image(&self) {
        self.umount();
        firn_ok(&["fsck", self.image.to_str().unwrap()]);
        self.mount_image(&[]);
    }

    /// What is deleted or overwritten is dead then, and not a state's.
    pub fn keep_no_history(&self) {
        firn_ok(&["retain", self.mnt.to_str().unwrap(), "--off"]);
    }

    pub fn sync(&self) {
        firn_ok(&["sync", self.mnt.to_str().unwrap()]);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.mnt.join(name)
    }

    /// Runs one operation of the control socket.
    pub fn control(&self, request: &str) -> serde_json::Value {
        let answer = self.control_answer(request);
        assert!(answer.get("ok").is_some(), "{request}: {answer}");
        answer["ok"].clone()
    }

    /// Runs one that must be refused.
    pub fn control_error(&self, request: &str) -> serde_json::Value {
        let answer = self.control_answer(request);
        assert!(answer.get("error").is_some(), "{request}: {answer}");
        answer["error"].clone()
    }

    fn control_answer(&self, request: &str) -> serde_json::Value {
        let dev = std::fs::metadata(&self.mnt).unwrap().dev();
        let uid = rustix::process::geteuid().as_raw();
        let directory = match uid {
            0 => PathBuf::from("/run/firnfs"),
            uid if Path::new(&format!("/run/user/{uid}")).is_dir() => {
                PathBuf::from(format!("/run/user/{uid}/firnfs"))
            }
            uid => PathBuf::from(format!("/tmp/firnfs-{uid}")),
        };
        let socket = directory.join(format!("{}:{}.sock", rustix::fs::major(dev), rustix::fs::minor(dev)));
        let mut stream = UnixStream::connect(socket).unwrap();
        writeln!(stream, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn daemon_pid(&self) -> rustix::process::Pid {
        let pid = self.control(r#"{"op":"info"}"#)["pid"].as_i64().unwrap();
        rustix::process::Pid::from_raw(pid as i32).unwrap()
    }

    /// Requests of one kind so far.
    pub fn requests(&self, name: &str) -> u64 {
        let counts = self.control(r#"{"op":"requests"}"#);
        let found = counts.as_array().unwrap().iter().find(|c| c["name"] == name);
        found.map_or(0, |c| c["requests"].as_u64().unwrap())
    }

    pub fn is_mounted(&self) -> bool {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(&format!(" {} ", self.mnt.display()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        while self.is_mounted()
            && rustix::mount::unmount(&self.mnt, rustix::mount::UnmountFlags::DETACH).is_ok()
        {}
    }
}

/// Waits until something holds, 20 s at most.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut out: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next()).collect();
    out.truncate(len);
    out
}

pub fn write_synced(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// A program that has written to a file and keeps it open: the kernel may still have what it wrote. It is another program, because the kernel hands that over
/// whenever a process closes the file, and each program that a test starts closes the files of the test.
pub struct Held(Child);

impl Held {
    /// Returns once the program has written [`Held::content`].
    pub fn written(path: PathBuf) -> Self {
        let mut to = OsString::from("of=");
        to.push(&path);
        // dd writes what it has read at once, and waits for more.
        let mut dd =
            Command::new("dd").arg(to).args(["bs=64k", "status=none"]).stdin(Stdio::piped()).spawn().unwrap();
        dd.stdin.as_mut().unwrap().write_all(&Self::content()).unwrap();
        let len_bytes = Self::content().len() as u64;
        eventually("it is written", || std::fs::metadata(&path).is_ok_and(|meta| meta.len() == len_bytes));
        Self(dd)
    }

    /// As [`Held::written`], through a mapping by `program` (mapped.c), which is not on the mount.
    pub fn mapped(program: &Path, path: &Path) -> Self {
        let content = Self::content();
        let mut mapped = Command::new(program)
            .arg(path)
            .arg(content.len().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        mapped.stdin.as_mut().unwrap().write_all(&content).unwrap();
        let mut told = String::new();
        BufReader::new(mapped.stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert_eq!(told, "mapped\n");
        Self(mapped)
    }

    /// What it writes.
    pub fn content() -> Vec<u8> {
        "What a program wrote and the kernel has. ".repeat(1000).into_bytes()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its standard input ends.
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}
