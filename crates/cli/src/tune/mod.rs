//! `firn tune`: shows and changes the settings of a mounted volume. `settings` names them, `service` is the daemon's side.

pub mod service;
mod settings;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::mounting::bounds;
use crate::output::Output;
use clap::Args;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde_json::json;
pub use service::LABEL_IS;
use service::{ChangeView, SettingView, TUNE_OP, TuneView};
use settings::Lasts;
use std::path::PathBuf;

/// Arguments of `firn tune`.
#[derive(Args, Debug)]
#[command(after_help = format!("Examples:
  firn tune /mnt                         list the settings and their values
  firn tune /mnt cache=1G commit=1       1 GiB of memory, durable within a second
  firn tune /mnt cleaning_policy=greedy  clean as Sprite LFS did at first
  firn tune /mnt coalesce=off            put no scattered files in order
  firn tune /mnt idle_rate=20M           clean more slowly while nobody works
  firn tune /mnt clean_low=60 clean_high=120
                                         begin to clean below 60 clean segments, end at 120
  firn tune /mnt clean_low=auto          as the volume's size and fullness say
  firn tune /mnt label=backup            another label, stored in the volume

Settings and values are those of 'firn mount -o'. A change holds from now on until the unmount;
name it in fstab(5) to keep it. 'firn mount -o remount,...' does the same. Either all of the
given settings change or none. Settings that only a mount or mkfs sets are refused by name, with the way to set them.

A setting with a number takes:
{}
Only the label is stored in the volume; it survives a power cut once the command ends.

Cleaning starts below clean_low clean segments and stops at clean_high; while nobody works it goes on to clean_idle.
auto, the default, follows from the size of the volume and how full it is; the list shows how many segments that is
now. More clean segments take longer bursts of writes without waiting, and make cleaning more expensive: the segments
in use are fuller. Numbers that the files do not leave room for, or that checkpoints and the cleaner need for
themselves, are refused; where files are added later, the cleaner makes fewer.", bounds::lines()))]
pub struct TuneArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Settings to change
    #[arg(value_name = "SETTING=VALUE", add = values::settings())]
    pub words: Vec<String>,
    /// List the settings (so does a command line that changes none)
    #[arg(long, conflicts_with = "words")]
    pub list: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// The names of the settings that can change while a volume is mounted.
pub fn live_settings() -> impl Iterator<Item = &'static str> {
    let live = settings::SETTINGS.iter().filter(|setting| setting.lasts == settings::Lasts::UntilUnmount);
    live.map(|setting| setting.name).chain([service::LABEL])
}

/// Runs the command.
///
/// # Errors
/// Not a mount, a volume without settings, or a setting that cannot be changed.
pub fn run(args: &TuneArgs, output: &mut Output) -> Done {
    let (mut client, _) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let view = change(&mut client, &args.words)?;
    output.show(args.json, &view, |out| match args.words.is_empty() {
        true => {
            writeln!(out, "{:<16} {:<18} lasts", "setting", "value")?;
            view.settings.iter().try_for_each(|SettingView { name, value, lasts, segments }| {
                let value = match segments {
                    Some(segments) if segments.to_string() != *value => format!("{value} ({segments} now)"),
                    _ => value.clone(),
                };
                writeln!(out, "{name:<16} {value:<18} {}", lasts.words())
            })
        }
        false if view.changed.is_empty() => writeln!(out, "nothing to change: it is so already"),
        false => view.changed.iter().try_for_each(|ChangeView { name, from, to }| {
            let now = view.settings.iter().find(|setting| setting.name == *name);
            let is_stored = now.is_some_and(|setting| setting.lasts == Lasts::InVolume);
            let lasts = if is_stored { "stored in the volume" } else { "until the unmount" };
            writeln!(out, "{name}: {from} -> {to}, {lasts}")
        }),
    })
}

/// Has the daemon change settings.
///
/// # Errors
/// As [`run`].
pub fn change(client: &mut Client, words: &[String]) -> Done<TuneView> {
    client.ask(TUNE_OP, json!({ "words": words })).map_err(|e| failure_of(&e))
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this mount has no settings that can change")
                .advise("only log-structured volumes have; unmount this one and mount it with other options")
        }
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::usage(refused.message.clone())
        }
        _ => Failure::failed(error.to_string()),
    }
}
