//! `firn-licences COPYRIGHT`: prints the copyright file of a package with the program `firn`, built for this machine. COPYRIGHT is the
//! part of it that is written by hand.

use firnfs_licences::{allowed, copyright_file, linked};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match printed() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("firn-licences: {why}");
            ExitCode::FAILURE
        }
    }
}

fn printed() -> Result<String, String> {
    let path = std::env::args_os().nth(1).ok_or("usage: firn-licences COPYRIGHT")?;
    let head = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    copyright_file(&head, &linked("firnfs-cli", &host()?), &allowed())
}

/// The target that the compiler builds for by itself.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
