//! Signals to programs whose requests wait, through both transports.

use crate::common::{Kind, Mount, can_mount, eventually, firn_ok, is_root, shell};
use crate::in_process::{Served, volume_image};
use crate::transports::transports;
use firnfs::lfs::Options;
use firnfs_device::{Completion, Device, Geometry, MemDevice, Request, Tag};
use firnfs_fuse::TransportChoice;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

// SIGTERM stands for SIGINT, too: whoever starts the tests in the background has their children ignore that.

/// Much longer than a signal takes, much shorter than anything here waits.
const SOON: Duration = Duration::from_secs(5);

fn start(directory: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// How many of them have ended after at most [`SOON`]; returns earlier if all have.
fn ended_soon(children: &mut [Child]) -> usize {
    let begin = Instant::now();
    loop {
        let ended = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        if ended == children.len() || begin.elapsed() > SOON {
            return ended;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Nothing tells that a request waits.
fn let_them_wait(children: &mut [Child]) {
    std::thread::sleep(Duration::from_millis(300));
    assert!(children.iter_mut().all(|child| child.try_wait().unwrap().is_none()), "somebody did not wait");
}

#[test]
fn programs_that_are_killed_while_a_change_waits_end_at_once_and_have_changed_nothing() {
    if !can_mount() || !is_root() {
        return;
    }
    for transport in transports() {
        for sent in [Signal::KILL, Signal::TERM] {
            let mount = Mount::with(Kind::Image, "64M", &["--transport", transport]);
            let mnt = mount.mnt.to_str().unwrap();
            // Each in a directory of its own: the kernel lets only one program at a time change a directory.
            shell(&mount.mnt, "mkdir a b c d e; echo old >d/file; echo old >b/file; echo old >e/file");
            firn_ok(&["freeze", mnt, "--timeout", "60"]);
            let mut children = [
                start(&mount.mnt, &["mkdir", "a/made"]),
                start(&mount.mnt, &["rm", "b/file"]),
                start(&mount.mnt, &["touch", "c/made"]),
                start(&mount.mnt, &["mv", "d/file", "d/moved"]),
                start(&mount.mnt, &["dd", "if=/dev/zero", "of=e/file", "bs=100", "count=1", "conv=notrunc"]),
            ];
            let_them_wait(&mut children);
            children.iter().for_each(|child| signal(child, sent));
            let ended = ended_soon(&mut children);
            firn_ok(&["thaw", mnt]);
            children.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
            assert_eq!(ended, children.len(), "{transport}, {sent:?}");
            let left = shell(&mount.mnt, "cat b/file d/file e/file; ls a c; mkdir a/made; ls a d");
            assert_eq!(left, "old\nold\nold\na:\n\nc:\na:\nmade\n\nd:\nfile\n", "{transport}");
            mount.remount_image();
        }
    }
}

#[test]
fn a_signal_that_a_program_handles_does_not_end_its_call_and_a_later_one_that_kills_it_does() {
    if !can_mount() || !is_root() {
        return;
    }
    for transport in transports() {
        let mount = Mount::with(Kind::Image, "64M", &["--transport", transport]);
        let mnt = mount.mnt.to_str().unwrap();
        shell(&mount.mnt, "mkdir a b");
        firn_ok(&["freeze", mnt, "--timeout", "60"]);
        // The shell itself waits in open(2).
        let handles = |name: &str| {
            start(
                &mount.mnt,
                &["sh", "-c", &format!("trap 'echo yes >{name}/handled' TERM; echo x >{name}/file")],
            )
        };
        let mut children = [handles("a"), handles("b")];
        let_them_wait(&mut children);
        children.iter().for_each(|child| signal(child, Signal::TERM));
        let_them_wait(&mut children);
        signal(&children[1], Signal::KILL);
        let ended = ended_soon(&mut children[1..]);
        firn_ok(&["thaw", mnt]);
        assert!(children[0].wait().unwrap().success(), "{transport}");
        children[1].wait().unwrap();
        assert_eq!(ended, 1, "{transport}");
        assert_eq!(shell(&mount.mnt, "cat a/file a/handled; ls b"), "x\nyes\n", "{transport}");
        mount.remount_image();
    }
}

/// A device that begins no request of some kind while it is held.
struct Held {
    device: MemDevice,
    holds: Mutex<Holds>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Flushes,
    Changes,
}

impl Held {
    fn hold(&self, holds: Holds) {
        *self.holds.lock().unwrap() = holds;
        self.changed.notify_all();
    }
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let is_held = |holds: &mut Holds| match request {
            Request::Read { .. } => false,
            Request::Flush => *holds != Holds::Nothing,
            _ => *holds == Holds::Changes,
        };
        drop(self.changed.wait_while(self.holds.lock().unwrap(), is_held).unwrap());
        self.device.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.device.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        "a slow device".into()
    }
}

#[test]
fn programs_that_wait_for_room_or_for_the_flush_of_others_end_at_once_when_they_are_killed() {
    if !can_mount() || !is_root() {
        return;
    }
    for transport in transports() {
        let choice = if *transport == "dev" { TransportChoice::Dev } else { TransportChoice::Uring };
        let device = MemDevice::from_image(volume_image());
        let device = Arc::new(Held { device, holds: Mutex::new(Holds::Nothing), changed: Condvar::new() });
        let served = Served::start_over(choice, device.clone(), Options::default());
        shell(&served.mnt, "for i in 1 2 3 4 5 6; do echo $i >f$i; done; : >large");
        // Of those that sync, one carries out the flush; background work may do it, too.
        let sync = |n: usize| start(&served.mnt, &["sync", &format!("f{n}")]);
        let write =
            || start(&served.mnt, &["dd", "if=/dev/zero", "of=large", "bs=1M", "count=60", "conv=notrunc"]);
        for holds in [Holds::Flushes, Holds::Changes] {
            device.hold(holds);
            let mut children: Vec<Child> = match holds {
                Holds::Flushes => (1..=6).map(sync).collect(),
                _ => vec![write()],
            };
            let_them_wait(&mut children);
            children.iter().for_each(|child| signal(child, Signal::TERM));
            let ended = ended_soon(&mut children);
            device.hold(Holds::Nothing);
            children.iter_mut().for_each(|child| assert!(child.wait().is_ok()));
            assert!(ended >= (children.len() - 1).max(1), "{transport}: {ended} of {}", children.len());
        }
        assert_eq!(shell(&served.mnt, "sync f1; cat f1 f6"), "1\n6\n");
        eventually("the file can be removed", || fs::remove_file(served.mnt.join("large")).is_ok());
        served.end().unwrap();
    }
}
