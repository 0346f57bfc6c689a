//! Completion in a real bash on a terminal, by its readline: what a user gets who types a beginning and presses Tab.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Types lines into an interactive bash on a terminal of `script`(1); returns everything that the terminal showed. `None` if
/// the machine lacks one of the two.
fn typed(lines: &str, directory: &Path) -> Option<String> {
    let bin = Path::new(env!("CARGO_BIN_EXE_firn")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let bash = "bash --norc --noprofile -i";
    let mut child = Command::new("script")
        .args(["-qec", bash, "/dev/null"])
        .current_dir(directory)
        .env("PATH", path)
        .env("TERM", "dumb")
        .env("INPUTRC", "/dev/null")
        .env("PS1", "$ ")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let setup = "bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'; stty cols 250\n\
                 source <(firn completions bash)\n";
    let all = format!("{setup}{lines}exit\n");
    child.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What bash makes of one beginning. The line is ended as a comment, so that nothing runs.
fn completed(beginning: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    for words in [&["mkfs", "disk.img", "--size", "64M"][..], &["snapshot", "disk.img", "upgrade"]] {
        let mut firn = Command::new(env!("CARGO_BIN_EXE_firn"));
        assert!(firn.args(words).current_dir(directory.path()).output().unwrap().status.success());
    }
    // Ctrl-A and a number sign make a comment of the completed line.
    typed(&format!("{beginning}\t\x01#\x05\n"), directory.path())
}

#[test]
fn bash_completes_commands_options_and_values() {
    let can = Command::new("script").arg("--version").output().is_ok_and(|out| out.status.success())
        && Command::new("bash").arg("--version").output().is_ok_and(|out| out.status.success());
    if !can {
        eprintln!("SKIPPED: NOT TESTED: there is no bash, or no script(1)");
        return;
    }
    for (beginning, whole) in [
        ("firn umo", "firn umount "),
        ("firn stat --clea", "firn stat --cleaning "),
        ("firn clean /mnt --policy gr", "--policy greedy "),
        ("firn clean /mnt --policy age-", "--policy age-threshold "),
        ("firn tune /mnt cleaning_p", "firn tune /mnt cleaning_policy="),
        ("firn tune /mnt cleaning_policy=gr", "firn tune /mnt cleaning_policy=greedy "),
        ("firn tune /mnt cleaning_policy=win", "firn tune /mnt cleaning_policy=windowed "),
        ("firn mount disk.img mnt --placement dac-", "--placement dac-leap "),
        ("firn mount disk.img mnt -o ro,noat", "-o ro,noatime "),
        ("firn mount disk.img mnt -o placement=sep", "-o placement=sepbit "),
        ("firn mkfs --type f", "--type ffs "),
        ("firn sim disk hp", "firn sim disk hp97560 "),
        ("firn sim cleaning --policy greedy,fi", "--policy greedy,fifo "),
        ("firn fsck di", "firn fsck disk.img "),
        ("firn mount disk.img@upg", "firn mount disk.img@upgrade "),
        ("firn send disk.img@upg", "firn send disk.img@upgrade "),
        ("firn send disk.img@upgrade..upg", "firn send disk.img@upgrade..upgrade "),
    ] {
        let shown = completed(beginning).unwrap();
        assert!(shown.contains(whole), "{beginning:?} became\n{shown}");
    }
    let choices = completed("firn clean /mnt --policy cost-").unwrap();
    for policy in ["cost-benefit", "cost-benefit-sqrt", "cost-benefit-youngest"] {
        assert!(choices.contains(policy), "{choices}");
    }
}
