//! `firn`: make, mount, look into and measure firnfs volumes.
//!
//! `main` parses the command line and prints a failure; everything else happens in the command's own module. File-system
//! logic lives in the libraries.

mod args;
mod bench;
mod dump;
mod failure;
mod image;
mod manual;
mod mkfs;
mod mounting;
mod output;
mod sim;
mod sizes;
mod stat;
mod target;
mod volume;

use args::{Cli, Command};
use clap::Parser;
use failure::Done;
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(Cli::parse_from(mounting::command_line(std::env::args_os()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("firn: {failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(cli: Cli) -> Done {
    let mut output = Output::stdout();
    match cli.command {
        Command::Mkfs(args) => mkfs::run(&args, &mut output),
        Command::Mount(args) => mounting::mount(&args),
        Command::Umount(args) => mounting::umount(&args),
        Command::Sync(args) => mounting::sync(&args),
        Command::Stat(args) => stat::stat(&args, &mut output),
        Command::Df(args) => stat::df(&args, &mut output),
        Command::Dump(args) => dump::run(&args, &mut output),
        Command::Bench(command) => bench::run(command, &mut output),
        Command::Sim(command) => sim::run(command, &mut output),
        Command::Completions(args) => manual::completions(&args, &mut output),
        Command::Man(args) => manual::man(&args, &mut output),
    }
}
