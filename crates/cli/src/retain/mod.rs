//! `firn retain`: which states of a volume are kept by themselves. `rules` reads and writes the rules, `service` is the daemon's side.

pub mod rules;
pub mod service;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::target::{self, Target};
use clap::Args;
use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{FileDevice, FileOptions};
use firnfs_format::checkpoint::Retention;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use service::RETAIN_OP;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `firn retain`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn retain /mnt                                 what is kept
  firn retain /mnt --keep \"all:1h hourly:2d daily:30d weekly:1y\" --at-most 30
  firn retain /mnt --keep \"15m:8h daily:1y\"        one state in 15 minutes, one a day
  firn retain /mnt --off                           no state but those with a name

A rule is PERIOD:TIME: it keeps the first state of each period for that time; 'all' keeps
every one. A state stays if one rule keeps it. With 'all', each 'firn sync' makes a
state, and the volume makes one every 5 seconds while something changes; without it,
they are 10 to 30 seconds apart.

The rules are stored in the volume. Beyond the share, beyond half of what files leave free,
and when the volume is full, the oldest states go; those with a name (firn snapshot) never
do. While states have to go within seconds, they are made up to a minute apart.")]
pub struct RetainArgs {
    /// Any path on a mount, an image file or a block device
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// What to keep, up to six rules
    #[arg(long, value_name = "RULES", value_parser = rules::parse_retention, conflicts_with = "off")]
    pub keep: Option<Retention>,
    /// Percentage of the volume that these states may hold, 1 to 100
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "off")]
    pub at_most: Option<u32>,
    /// Keep no states but those with a name
    #[arg(long)]
    pub off: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// A percentage, with or without its sign.
fn percent(text: &str) -> Result<u32, String> {
    let number =
        text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| (1..=100).contains(percent));
    number.ok_or_else(|| "a percentage from 1 to 100".to_owned())
}

/// What is kept, as the daemon and JSON say it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RetentionView {
    /// Rules as `--keep` takes them; empty if no states are kept by themselves.
    pub keep: String,
    /// Percentage of the volume that these states may hold.
    pub at_most_percent: u32,
    /// Bytes that only retained states hold.
    pub held_bytes: u64,
}

/// A change of it; what is left out stays.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Change {
    /// As `--keep`, or `off`.
    pub keep: Option<String>,
    /// As `--at-most`.
    pub at_most_percent: Option<u32>,
}

impl Change {
    fn of(args: &RetainArgs) -> Self {
        let keep = args.keep.as_ref().map(|retention| match retention.percent {
            0 => "off".to_owned(),
            _ => rules::text(&retention.rules),
        });
        Self { keep: keep.or_else(|| args.off.then(|| "off".to_owned())), at_most_percent: args.at_most }
    }

    /// What is kept after the change.
    ///
    /// # Errors
    /// Rules that are none; a share without rules.
    pub fn apply(&self, before: &Retention) -> Result<Retention, String> {
        let mut after = match &self.keep {
            None => before.clone(),
            Some(keep) => {
                let new = rules::parse_retention(keep)?;
                let percent = if before.percent > 0 { before.percent } else { new.percent };
                Retention { percent: if new.rules.is_empty() { 0 } else { percent }, ..new }
            }
        };
        if let Some(percent) = self.at_most_percent {
            if after.rules.is_empty() {
                return Err("no states are kept by themselves; say which with --keep".to_owned());
            }
            after.percent = percent;
        }
        Ok(after)
    }
}

/// Runs the command.
///
/// # Errors
/// No volume of this kind, in use by another process, or read-only.
pub fn run(args: &RetainArgs, output: &mut Output) -> Done {
    let change = Change::of(args);
    let view = match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            let mut client = Client::for_mount(&mount).map_err(|e| failure_of(&e))?;
            client.ask(RETAIN_OP, json!(change)).map_err(|e| failure_of(&e))?
        }
        Target::Image(image) => of_image(&image, &change)?,
    };
    output.show(args.json, &view, |out| {
        if view.keep.is_empty() {
            writeln!(out, "keeps no states but those with a name")?;
        } else {
            writeln!(out, "keeps {}, at most {}% of the volume", view.keep, view.at_most_percent)?;
        }
        writeln!(out, "{} are held by states of the past now", crate::sizes::Bytes(view.held_bytes))
    })
}

fn of_image(image: &Path, change: &Change) -> Done<RetentionView> {
    let volume = if *change == Change::default() {
        crate::volume::open_read_only(image)?
    } else {
        let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| open_failed(&e))?;
        crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?
    };
    let view = service::change(&volume, change).map_err(|e| Failure::failed(e.message));
    let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
    view.and_then(|view| closed.map(|()| view))
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this mount keeps no states").advise("only log-structured volumes do")
        }
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::usage(refused.message.clone())
        }
        _ => Failure::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let before = rules::parse_retention("all:1h").unwrap();
        let change =
            |keep: Option<&str>, at_most_percent| Change { keep: keep.map(str::to_owned), at_most_percent };
        assert_eq!(change(None, None).apply(&before), Ok(before.clone()));
        assert_eq!(change(None, Some(5)).apply(&before).unwrap().percent, 5);
        let shared = Retention { percent: 5, ..before.clone() };
        let after = change(Some("daily:1y"), None).apply(&shared).unwrap();
        assert_eq!((after.percent, rules::text(&after.rules)), (5, "daily:1y".to_owned()));
        assert_eq!(change(Some("off"), None).apply(&shared), Ok(Retention::default()));
        assert!(change(None, Some(5)).apply(&Retention::default()).is_err());
        assert_eq!(percent("30%"), Ok(30));
        assert!(percent("0").is_err() && percent("101").is_err());
    }
}
