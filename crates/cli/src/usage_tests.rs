use super::*;
use crate::help::command;
use crate::output::{WIDTH, write_words_within};

/// What is told about a command line, as a terminal of 80 columns shows it.
fn told_in_lines(line: &str) -> String {
    let words: Vec<OsString> = std::iter::once("firn").chain(line.split(' ')).map(OsString::from).collect();
    let error = command().try_get_matches_from(&words).unwrap_err();
    let mut out = Vec::new();
    write_words_within(&mut out, "firn:", &failure_of(&error, command(), &words).to_string(), WIDTH).unwrap();
    String::from_utf8(out).unwrap()
}

fn told(line: &str) -> String {
    let lines = told_in_lines(line);
    let words: Vec<&str> = lines.lines().map(str::trim).collect();
    words.join(" ")
}

#[test]
fn each_kind_of_usage_error_says_what_where_and_what_to_do() {
    for (line, text) in [
        (
            "mkfs a --siez 1G",
            "firn: mkfs has no option '--siez'; did you mean '--size'? 'firn mkfs --help' lists all",
        ),
        ("sim disk --nosuch", "firn: sim disk has no option '--nosuch'; 'firn sim disk --help' lists all"),
        ("--nosuch stat", "firn: there is no option '--nosuch'; 'firn --help' lists all"),
        (
            "statt /mnt",
            "firn: there is no command 'statt'; did you mean 'firn stat'? 'firn --help' lists all",
        ),
        ("age layers", "firn: age has no command 'layers'; 'firn age --help' lists all"),
        (
            "age layuot",
            "firn: age has no command 'layuot'; did you mean 'firn age layout'? 'firn age --help' lists all",
        ),
        (
            "mount a b --cleaning-policy lru",
            "firn: mount --cleaning-policy NAME: no policy is called lru; see 'firn mount --help'",
        ),
        ("fsck", "firn: fsck needs IMAGE; write it as 'firn fsck IMAGE'"),
        ("fsck a -y", "firn: fsck needs --repair; write it as 'firn fsck --repair --yes IMAGE'"),
        ("fsck a b", "firn: fsck: 'b' is one word too many; write it as 'firn fsck [OPTIONS] IMAGE'"),
        (
            "bench micro",
            "firn: bench micro needs --against [NAME=]DIR; write it as 'firn bench micro --against [NAME=]DIR'",
        ),
        ("mkfs a --size", "firn: mkfs: --size needs a value; see 'firn mkfs --help'"),
        (
            "--color blue df",
            "firn: df --color WHEN: 'blue' is not one of auto, always, never; see 'firn df --help'",
        ),
        ("clean /mnt --until 0", "firn: clean --until N: 0 is less than 1; see 'firn clean --help'"),
        (
            "mkfs a --minfree 70",
            "firn: mkfs --minfree PERCENT: 70 is not between 0 and 50; see 'firn mkfs --help'",
        ),
        (
            "clean /mnt --until many",
            "firn: clean --until N: 'many' is not a whole number that fits; see 'firn clean --help'",
        ),
        (
            "mount a /mnt --idle-after soon",
            "firn: mount --idle-after SECONDS: 'soon' is not a number; see 'firn mount --help'",
        ),
        (
            "undelete /mnt a --all",
            "firn: undelete: NAMES... does not go together with --all; leave one of them out",
        ),
        ("mkfs a --size 1G --size 2G", "firn: mkfs: --size SIZE is given twice; give it once"),
    ] {
        assert_eq!(told(line), text, "{line}");
    }
    let size = told("mkfs a --size lots");
    assert!(
        size.starts_with("firn: mkfs --size SIZE: `lots` has no unit that firn knows: use K, M,"),
        "{size}"
    );
}

#[test]
fn no_usage_error_takes_more_than_three_lines_of_a_terminal() {
    let long = "x".repeat(300);
    for line in [
        "mkfs a --size 5X",
        "mount",
        "mount a /mnt --cleaning-policy lru",
        "mount a /mnt --placement lru",
        "mount a b c d",
        "sim",
        "sim cleaning --patterns nosuch",
        "dump a --nosuch",
        "completions",
        "completions csh",
        "retain /mnt --keep nonsense",
        "clean /mnt --once --until 7 --segments 8",
        "bench --nosuch",
        "paper --jobs 0 x",
        &format!("--{long}"),
        &format!("stat /mnt --{long}"),
        &long,
        &format!("fsck a {long}"),
        &format!("clean /mnt --until {long}"),
    ] {
        let lines = told_in_lines(line);
        assert!(lines.starts_with("firn: ") && lines.lines().count() <= 3, "{line}:\n{lines}");
        assert!(lines.lines().all(|line| line.chars().count() <= WIDTH), "{line}:\n{lines}");
    }
}

#[test]
fn a_command_that_does_not_exist_leads_to_the_right_one_or_to_none() {
    let meant = |typed: &str| {
        let text = told(&format!("{typed} x"));
        text.split_once("did you mean 'firn ").map(|(_, rest)| rest.split('\'').next().unwrap().to_owned())
    };
    for (typed, right) in [
        ("unmount", "umount"),
        ("statt", "stat"),
        ("fcsk", "fsck"),
        ("check", "fsck"),
        ("moutn", "mount"),
        ("format", "mkfs"),
        ("shrink", "resize"),
    ] {
        assert_eq!(meant(typed).as_deref(), Some(right), "{typed}");
    }
    for typed in ["lfs", "ls", "list"] {
        assert_eq!(meant(typed), None, "{typed}");
    }
    let commands = command();
    for (name, right) in OTHER_NAMES {
        assert!(
            commands.find_subcommand(right).is_some() && commands.find_subcommand(name).is_none(),
            "{name}"
        );
    }
}

#[test]
fn an_option_is_suggested_only_for_a_slip_or_its_beginning() {
    for (line, near) in [("fsck a --repiar", "'--repair'"), ("fsck a --all-ch", "'--all-checkpoints'")] {
        assert!(told(line).contains(&format!("did you mean {near}?")), "{}", told(line));
    }
    for line in ["fsck a --prepare", "mkfs a --resize 1G", "stat a --cleanup"] {
        assert!(!told(line).contains("did you mean"), "{}", told(line));
    }
}
