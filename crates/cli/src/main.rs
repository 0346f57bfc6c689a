//! `firn`: makes, mounts, examines and measures firnfs volumes.
//!
//! `main` parses the command line and prints a failure; everything else happens in the command's own module. The
//! libraries contain the file-system logic.
//!
//! - The command line: `args`, its `help`, what is wrong with it (`usage`), `completion`, man pages (`manual`; `man_page` is one,
//!   `recover_page` another), `target` (the volume that it names), `sizes`.
//! - Output: `output` (the result), `names` (of files, for people), `fold` (long lines), `color`, `tell` (lines beside the
//!   result), `progress`, `failure`; `interrupt` (Ctrl-C).
//! - Volumes: `mkfs`, `mounting` (`firn mount`, `umount`, `sync`), `fsck`, `dump`, `resize`, `trim`, `freeze`.
//! - A volume in use: `stat` (and `df`), `metrics`, `watch`, `record`, `tune`, `quota`, `clean`, `scrub`; `port` (the cleaner's),
//!   `socket` (what the daemon's sides of commands share).
//! - The past: `history` (`firn snapshot` and its like), `retain`.
//! - Experiments: `bench`, `sim`, `age`, `paper`, `workload`.
//! - Beneath: `image` reads a volume without the file system, `volume` opens one without a mount; `beneath` is the disk under an
//!   image, `sources` the files to be copied.

mod age;
mod args;
mod bench;
mod beneath;
mod clean;
mod color;
mod completion;
mod dump;
mod failure;
mod fold;
mod freeze;
mod fsck;
mod help;
mod history;
mod image;
mod interrupt;
mod man_page;
mod manual;
mod metrics;
mod mkfs;
mod mounting;
mod names;
mod output;
mod paper;
mod port;
mod progress;
mod quota;
mod record;
mod recover_page;
mod resize;
mod retain;
mod scrub;
mod sim;
mod sizes;
mod socket;
mod sources;
mod stat;
mod target;
mod tell;
mod trim;
mod tune;
mod usage;
mod volume;
mod watch;
mod workload;

use args::{Cli, Command};
use clap::{ArgMatches, FromArgMatches};
use failure::{Done, Exit};
use output::Output;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    completion::answer_shell();
    let words: Vec<_> = mounting::command_line(std::env::args_os()).into_iter().collect();
    let asked = color::asked_for(&words);
    let command = help::command_for(output::terminal_columns(rustix::stdio::stdout()), asked.into());
    let parsed = command.try_get_matches_from(&words).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, name_of(&matches)))
    });
    let (cli, name) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return unparsed(&error, &words, asked),
    };
    color::decide(cli.color);
    match run(cli, name) {
        Ok(exit) => exit,
        Err(failure) => {
            tell::tell_failure(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Shows the help that a command line asks for, or tells what is wrong with it.
fn unparsed(error: &clap::Error, words: &[OsString], colors: color::When) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand) {
        if let Err(failure) = output::finish(error.print().and_then(|()| std::io::stdout().flush())) {
            color::decide(colors);
            tell::tell_failure(&failure);
            return ExitCode::from(failure.exit as u8);
        }
    } else {
        color::decide(colors);
        tell::tell_failure(&usage::failure_of(error, help::command(), words));
    }
    let is_fsck = words.get(1).is_some_and(|word| word == "fsck");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_fsck => ExitCode::from(fsck::USAGE),
        _ => ExitCode::from(Exit::Usage as u8),
    }
}

/// The words that choose a command, such as `sim disk`.
fn name_of(matches: &ArgMatches) -> String {
    let all = std::iter::successors(Some(matches), |matches| matches.subcommand().map(|(_, inner)| inner));
    all.filter_map(ArgMatches::subcommand_name).collect::<Vec<_>>().join(" ")
}

fn run(cli: Cli, name: String) -> Done<ExitCode> {
    let mut output = Output::stdout().of(name);
    match cli.command {
        Command::Mkfs(args) => mkfs::run(&args, &mut output),
        Command::Mount(args) => mounting::mount(&args),
        Command::Umount(args) => mounting::umount(&args),
        Command::Sync(args) => mounting::sync(&args),
        Command::Freeze(args) => freeze::freeze(&args, &mut output),
        Command::Thaw(args) => freeze::thaw(&args, &mut output),
        Command::Snapshot(args) => history::snapshot(&args, &mut output),
        Command::Log(args) => history::log(&args, &mut output),
        Command::Diff(args) => history::diff(&args, &mut output),
        Command::Restore(args) => history::restore(&args, &mut output),
        Command::Clone(args) => history::clone(&args, &mut output),
        Command::Rollback(args) => history::rollback(&args, &mut output),
        Command::Send(args) => history::send(&args, &mut output),
        Command::Receive(args) => history::receive(&args, &mut output),
        Command::Undelete(args) => history::undelete(&args, &mut output),
        Command::Stat(args) => stat::stat(&args, &mut output),
        Command::Df(args) => stat::df(&args, &mut output),
        Command::Dump(args) => dump::run(&args, &mut output),
        Command::Fsck(args) => return Ok(fsck::run(&args, &mut output)),
        Command::Scrub(args) => return scrub::run(&args, &mut output),
        Command::Clean(args) => return clean::run(&args, &mut output),
        Command::Quota(args) => quota::run(&args, &mut output),
        Command::Resize(args) => return resize::run(&args, &mut output),
        Command::Watch(args) => watch::run(&args, &mut output),
        Command::Trim(args) => trim::run(&args, &mut output),
        Command::Retain(args) => retain::run(&args, &mut output),
        Command::Tune(args) => tune::run(&args, &mut output),
        Command::Age(command) => age::run(&command, &mut output),
        Command::Bench(args) => bench::run(args, &mut output),
        Command::Sim(command) => sim::run(command, &mut output),
        Command::Paper(args) => paper::run(&args, &mut output),
        Command::Workload(command) => workload::run(&command, &mut output),
        Command::Record(args) => record::run(&args, &mut output),
        Command::Completions(args) => manual::completions(&args, &mut output),
        Command::UdevId(args) => mounting::udev_id(&args),
        Command::Man(args) => manual::man(&args, &mut output),
    }?;
    Ok(ExitCode::SUCCESS)
}
