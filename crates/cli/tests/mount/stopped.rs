//! A daemon that answers nothing holds up nobody who asks about other mounts.

use crate::common::{Kind, Mount, Stopped, can_mount, firn};
use std::time::{Duration, Instant};

#[test]
fn df_shows_the_mounts_that_answer_and_names_those_that_do_not() {
    if !can_mount() {
        return;
    }
    let (mount, other) = (Mount::with(Kind::Image, "64M", &[]), Mount::with(Kind::Image, "64M", &[]));
    let stopped = Stopped::new(other.daemon_pid());
    let began = Instant::now();
    let output = firn(&["df", "-v"]);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let (shown, told) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}");
    assert!(shown.contains(mount.mnt.to_str().unwrap()), "{shown}");
    let silent = format!("not shown: {}: its daemon has not answered", other.mnt.display());
    assert!(told.contains(&silent), "{told}");
    drop(stopped);
}
