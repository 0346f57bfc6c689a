//! One man page: what clap generates, and the sections that readers of man pages look for. Examples, notes and exit codes
//! come from the end of the command's help, so that both say the same; files and related pages are listed here.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};

/// The directory of the sockets on which daemons answer.
const SOCKETS: (&str, &str) = (
    "/run/firnfs, /run/user/UID/firnfs",
    "the sockets on which the daemons of mounts answer, of root and of other users",
);
const MOUNTINFO: (&str, &str) = ("/proc/self/mountinfo", "where the mounts are found");
const LOST_AND_FOUND: (&str, &str) = (
    "lost+found",
    "in the root of a volume: files and trees that had lost their names, as # and their number",
);
/// The page about getting files back.
const RECOVER: &[&str] = &["firn-recover(7)"];
const FSTAB: (&str, &str) =
    ("/etc/fstab", "entries of type firnfs, if /sbin/mount.firnfs is a link to this program");
const REMOUNTS: (&str, &str) = (
    "/sbin/mount.fuse.firnfs, /sbin/mount.fuseblk.firnfs",
    "links to this program, with which mount(8) remounts images and devices that fstab does not name",
);
const SNAPSHOTS: (&str, &str) =
    ("*.snap", "what firn age snapshot writes: which files there are, and where their blocks lie");
const WORKLOADS: (&str, &str) = (
    "*.fwl",
    "workloads: recorded, converted or made up; further parts of a recording end in .fwl.1, .fwl.2 and so on",
);
const PARAMETERS: (&str, &str) =
    ("FILE", "parameters of a disk or a machine: text, as docs/internals/simulated-hardware.md describes it");
const SIGNATURES: (&str, &str) = ("/dev/urandom", "for the volume's UUID, and the key of its hashes");

/// Writes the page of a command. `name` is firn-fsck for `firn fsck`, `common` the exit codes of all commands.
///
/// # Errors
/// As writing fails.
pub fn render(command: &Command, name: &str, common: &str, out: &mut dyn Write) -> io::Result<()> {
    let page =
        Man::new(command.clone().display_name(name.to_owned())).title(name.to_uppercase()).manual("firnfs");
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let [examples, notes, exit] = parts(&help);
    section(out, "EXIT STATUS", if exit.is_empty() { vec![common] } else { exit })?;
    section(out, "NOTES", notes)?;
    let mut list = Roff::new();
    list.control("SH", ["FILES"]);
    for (path, what) in files(name) {
        list.control("TP", [""; 0]).text([roman(*path)]).text([roman(*what)]);
    }
    list.to_writer(out)?;
    section(out, "EXAMPLES", examples)?;
    let mut related = Roff::new();
    related.control("SH", ["SEE ALSO"]);
    related.text([roman(see_also(command, name).join(", "))]);
    related.to_writer(out)?;
    page.render_version_section(out)
}

/// The blocks of a help's end: examples, everything else, exit codes.
fn parts(help: &str) -> [Vec<&str>; 3] {
    let mut parts = [const { Vec::new() }; 3];
    for block in help.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (head, rest) = block.split_once('\n').unwrap_or((block, ""));
        match head {
            "Examples:" | "Example:" => parts[0].push(rest),
            _ if head.starts_with("Exit codes") => parts[2].push(rest),
            _ => parts[1].push(block),
        }
    }
    parts
}

/// The exit codes of commands without their own: the end of the help of `firn`.
#[must_use]
pub fn common_exit_codes(firn: &Command) -> String {
    let help = firn.get_after_help().map(ToString::to_string).unwrap_or_default();
    parts(&help)[2].join("\n")
}

/// Writes blocks of text: lists as they are, paragraphs filled.
fn section(out: &mut dyn Write, title: &str, blocks: Vec<&str>) -> io::Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut page = Roff::new();
    page.control("SH", [title]);
    for block in blocks {
        page.control("PP", [""; 0]);
        for line in block.lines() {
            if line.starts_with(' ') {
                page.control("nf", [""; 0]).text([roman(line)]).control("fi", [""; 0]);
            } else {
                page.text([roman(line)]);
            }
        }
    }
    page.to_writer(out)
}

/// Files that a command reads or makes. For commands without fixed ones: what those on their command line are.
fn files(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "firn" | "firn-mount" => &[SOCKETS, MOUNTINFO, FSTAB, REMOUNTS],
        "firn-mkfs" | "firn-receive" => &[SIGNATURES, MOUNTINFO],
        "firn-fsck" => &[LOST_AND_FOUND, MOUNTINFO],
        "firn-umount" | "firn-sync" | "firn-stat" | "firn-df" | "firn-dump" | "firn-scrub" | "firn-clean"
        | "firn-quota" | "firn-resize" | "firn-trim" | "firn-freeze" | "firn-thaw" | "firn-watch"
        | "firn-record" | "firn-record-start" | "firn-record-stop" | "firn-record-status" | "firn-tune"
        | "firn-retain" | "firn-snapshot" | "firn-log" | "firn-restore" | "firn-undelete" | "firn-diff"
        | "firn-rollback" | "firn-clone" | "firn-send" | "firn-age-layout" | "firn-age-snapshot" => {
            &[SOCKETS, MOUNTINFO]
        }
        "firn-completions" => &[(
            "/etc/bash_completion.d, ~/.zfunc, ~/.config/fish/completions",
            "where shells look for completions",
        )],
        "firn-man" => &[("DIRECTORY/*.1, DIRECTORY/firn-recover.7", "the pages")],
        _ => files_of_experiments(name),
    }
}

/// The same of commands that measure, simulate, and read workloads.
fn files_of_experiments(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "firn-age" | "firn-age-workload" => &[SNAPSHOTS, WORKLOADS],
        "firn-age-bench" => &[("DIR", "gets files of 32 MB together during the run"), WORKLOADS],
        "firn-age-compare" => &[
            WORKLOADS,
            ("OUT/compare.html", "the report, with the plots beside it as SVG and CSV"),
            ("/dev/loop*", "devices on the images in --dir during the run"),
        ],
        "firn-age-replay" => {
            &[WORKLOADS, (".firn-age", "in the root of the target: the state of a replay that was stopped")]
        }
        "firn-bench" => &[
            ("DIR", "each directory gets the files of the workloads during the run"),
            ("OUT", "with --out: a chart of each workload as SVG, and its numbers as CSV"),
        ],
        "firn-bench-micro" => &[
            SOCKETS,
            ("firn-bench.img", "or the image of --image: made for the run, and removed"),
            ("PATH.md, PATH.json", "with --report: the report"),
        ],
        "firn-bench-floor" => &[
            ("/dev/fuse", "the device that each daemon serves"),
            ("/tmp", "or the directory that TMPDIR names: where the daemons are mounted during the run"),
        ],
        "firn-paper" => &[
            ("OUT/index.html, OUT/claims.html", "the figures and tables, and what was reproduced"),
            ("OUT/*.svg, OUT/*.csv", "each figure, and its numbers"),
        ],
        "firn-sim-figures" => {
            &[("OUT/*.svg, OUT/report.md", "the figures, and values beside those of the paper")]
        }
        "firn-sim-paper" => {
            &[PARAMETERS, ("OUT/figure-9.svg, OUT/figure-12.svg", "with --out: the curves of bandwidth")]
        }
        "firn-sim-trace" => &[WORKLOADS, PARAMETERS],
        "firn-sim" => &[WORKLOADS, PARAMETERS],
        "firn-sim-disk" | "firn-sim-coalescing" => &[PARAMETERS],
        "firn-sim-cleaning" | "firn-sim-history" => {
            &[("FILE", "of the workload trace:FILE: text, a write or deletion of blocks a line")]
        }
        "firn-sim-comparison" | "firn-sim-crosscheck" => {
            &[("(none)", "everything is in memory; the result goes to standard output")]
        }
        "firn-workload"
        | "firn-workload-convert"
        | "firn-workload-generate"
        | "firn-workload-head"
        | "firn-workload-info" => &[WORKLOADS],
        _ => &[],
    }
}

/// The pages of the commands around it, and of the system's own tools for the same.
fn see_also(command: &Command, name: &str) -> Vec<String> {
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    let mut pages: Vec<String> = inner.map(|inner| format!("{name}-{}(1)", inner.get_name())).collect();
    let (ours, others): (&[&str], &[&str]) = match name {
        "firn" => (&[], &["firn-recover(7)", "mount(8)", "fuse(4)"]),
        "firn-mkfs" => (&["mount", "fsck", "stat"], &["mkfs(8)", "truncate(1)"]),
        "firn-mount" => (&["umount", "mkfs", "stat", "clean"], &["mount(8)", "fstab(5)", "fuse(4)"]),
        "firn-umount" => (&["mount", "sync"], &["umount(8)", "fuser(1)"]),
        "firn-sync" => (&["umount"], &["sync(1)", "fsync(2)"]),
        "firn-freeze" => (&["thaw", "sync"], &["fsfreeze(8)"]),
        "firn-thaw" => (&["freeze"], &["fsfreeze(8)"]),
        "firn-stat" => (&["df", "watch", "dump", "clean"], &["statvfs(3)"]),
        "firn-watch" => (&["stat", "clean", "sim-cleaning"], &["zpool-iostat(8)"]),
        "firn-tune" => (&["mount", "clean", "stat"], &["mount(8)"]),
        "firn-df" => (&["stat", "quota", "trim"], &["df(1)"]),
        "firn-dump" => (&["stat", "fsck"], &["dumpe2fs(8)"]),
        "firn-fsck" => (&["scrub", "dump"], &["fsck(8)"]),
        "firn-scrub" => (&["fsck", "stat"], &["btrfs-scrub(8)"]),
        "firn-clean" => (&["stat", "trim", "sim-cleaning"], &[]),
        "firn-quota" => (&["df"], &["quota(1)", "edquota(8)", "repquota(8)"]),
        "firn-resize" => (&["df", "mkfs"], &["resize2fs(8)", "lvextend(8)"]),
        "firn-age-snapshot" => (&["age-layout"], &["filefrag(8)"]),
        "firn-age-layout" => (&["age-snapshot", "clean"], &["filefrag(8)", "e2freefrag(8)"]),
        "firn-age-workload" => (&["age-snapshot", "workload-info"], &["git-log(1)"]),
        "firn-age-replay" => (&["age-workload", "age-layout"], &[]),
        "firn-age-bench" => (&["age-replay", "bench"], &[]),
        "firn-workload-convert" => (&["record", "workload-info", "sim-trace"], &["strace(1)"]),
        "firn-sim-trace" => (&["record", "workload-generate", "workload-convert"], &[]),
        "firn-snapshot" => (&["log", "restore", "undelete", "retain"], RECOVER),
        "firn-log" => (&["snapshot", "restore", "undelete"], RECOVER),
        "firn-diff" => (&["log", "snapshot", "rollback"], &["diff(1)"]),
        "firn-restore" => (&["log", "undelete", "snapshot"], &["firn-recover(7)", "cp(1)"]),
        "firn-undelete" => (&["log", "restore", "snapshot"], RECOVER),
        "firn-clone" => (&["snapshot", "log", "send"], &["cp(1)"]),
        "firn-send" => (&["receive", "snapshot", "log"], &["ssh(1)"]),
        "firn-receive" => (&["send", "snapshot", "mount"], &["ssh(1)"]),
        "firn-retain" => (&["log", "snapshot", "df"], RECOVER),
        "firn-rollback" => (&["diff", "restore", "snapshot"], RECOVER),
        "firn-trim" => (&["clean", "df"], &["fstrim(8)", "fallocate(1)"]),
        "firn-bench" => (&["age-bench", "paper"], &["fio(1)"]),
        "firn-paper" => (&["sim", "bench"], &[]),
        "firn-record" => (&["mount", "workload-info", "sim-trace"], &["strace(1)"]),
        "firn-workload" => (&["record", "sim-trace"], &["strace(1)"]),
        "firn-sim" => (&["paper", "bench", "clean"], &[]),
        "firn-age" => (&["bench", "record"], &["filefrag(8)"]),
        "firn-age-compare" => (&["age-workload", "age-replay", "bench"], &["mkfs(8)"]),
        "firn-completions" => (&["man"], &["bash(1)"]),
        "firn-man" => (&["completions"], &["man(1)"]),
        _ => (&[], &[]),
    };
    let parent = name.rsplit_once('-').map(|(parent, _)| format!("{parent}(1)"));
    pages.extend(ours.iter().map(|page| format!("firn-{page}(1)")));
    pages.extend(parent);
    pages.extend(others.iter().map(|page| (*page).to_owned()));
    pages
}
