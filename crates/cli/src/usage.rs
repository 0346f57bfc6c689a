//! What is wrong with a command line, in the words and the form of every other failure: one line that says what, where, and what to do.
//!
//! clap finds the error and names its parts; the text is made of those here. Help and version that the command line asks for are no
//! errors. Caller: `main`.

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

/// Longest list of values, reason, form of a command and typed word that a text holds, so that it takes three lines of 80 columns.
const VALUES_MAX: usize = 90;
const REASON_MAX: usize = 140;
const FORM_MAX: usize = 110;
const WORD_MAX: usize = 50;

/// What other programs call things, and the command that does them here.
const OTHER_NAMES: [(&str, &str); 36] = [
    ("unmount", "umount"),
    ("eject", "umount"),
    ("format", "mkfs"),
    ("create", "mkfs"),
    ("init", "mkfs"),
    ("make", "mkfs"),
    ("new", "mkfs"),
    ("info", "stat"),
    ("status", "stat"),
    ("show", "stat"),
    ("inspect", "dump"),
    ("dumpfs", "dump"),
    ("check", "fsck"),
    ("verify", "fsck"),
    ("repair", "fsck"),
    ("salvage", "fsck"),
    ("usage", "df"),
    ("space", "df"),
    ("gc", "clean"),
    ("compact", "clean"),
    ("defrag", "clean"),
    ("grow", "resize"),
    ("shrink", "resize"),
    ("extend", "resize"),
    ("fstrim", "trim"),
    ("discard", "trim"),
    ("quotas", "quota"),
    ("history", "log"),
    ("versions", "log"),
    ("recover", "restore"),
    ("revert", "rollback"),
    ("replicate", "send"),
    ("backup", "send"),
    ("export", "send"),
    ("import", "receive"),
    ("monitor", "watch"),
];

/// The failure of a command line.
#[must_use]
pub fn failure_of(error: &Error, command: Command, words: &[OsString]) -> Failure {
    let place = place_of(command, words);
    let (name, has_no) = match place.is_empty() {
        true => ("firn", "there is no".to_owned()),
        false => (place.as_str(), format!("{place} has no")),
    };
    let help = if place.is_empty() { "'firn --help'".to_owned() } else { format!("'firn {place} --help'") };
    let arg = bare(&strings(error, ContextKind::InvalidArg).join(", "));
    let value = shortened(&strings(error, ContextKind::InvalidValue).concat());
    let is_option = arg.starts_with('-');
    let form = form_of(error).unwrap_or_else(|| format!("see {help}"));
    let (message, advice) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = strings(error, ContextKind::InvalidSubcommand).concat();
            let meant = command_meant(error, &typed, &place).map(|meant| format!("'firn {meant}'"));
            (format!("{has_no} command '{}'", shortened(&typed)), did_you_mean(meant, &help))
        }
        ErrorKind::UnknownArgument if is_option => {
            let near = strings(error, ContextKind::SuggestedArg).into_iter().find(|near| is_near(&arg, near));
            let near = near.map(|near| format!("'{near}'"));
            (format!("{has_no} option '{}'", shortened(&arg)), did_you_mean(near, &help))
        }
        ErrorKind::UnknownArgument => (format!("{name}: '{}' is one word too many", shortened(&arg)), form),
        ErrorKind::MissingRequiredArgument => (format!("{name} needs {arg}"), form),
        ErrorKind::InvalidValue if value.is_empty() && is_option => {
            (format!("{name}: {} needs a value", option_of(&arg)), format!("see {help}"))
        }
        ErrorKind::InvalidValue if value.is_empty() => (format!("{name}: {arg} is empty"), form),
        ErrorKind::InvalidValue => {
            let values = strings(error, ContextKind::ValidValue).join(", ");
            let near =
                strings(error, ContextKind::SuggestedValue).into_iter().find(|near| is_slip(&value, near));
            let near = near.map(|near| format!("'{near}'"));
            match values.len() <= VALUES_MAX {
                true => (format!("{name} {arg}: '{value}' is not one of {values}"), format!("see {help}")),
                false => (format!("{name} {arg}: there is no '{value}'"), did_you_mean(near, &help)),
            }
        }
        ErrorKind::ValueValidation => {
            (format!("{name} {arg}: {}", why_invalid(error)), format!("see {help}"))
        }
        ErrorKind::ArgumentConflict => conflict(error, name, &arg),
        kind => (format!("{name}: {}", kind.as_str().unwrap_or("the command line is invalid")), form),
    };
    Failure::usage(message).advise(advice)
}

/// The words of the command line that choose a command, such as `sim disk`, as far as they do.
fn place_of(command: Command, words: &[OsString]) -> String {
    let matches = command.ignore_errors(true).try_get_matches_from(words);
    matches.map(|matches| crate::name_of(&matches)).unwrap_or_default()
}

/// How a command is written, if that is short.
fn form_of(error: &Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let words: Vec<&str> = usage.split_whitespace().filter(|word| *word != "Usage:").collect();
    let form = bare(&words.join(" "));
    (form.len() <= FORM_MAX).then(|| format!("write it as '{form}'"))
}

/// The command that was meant: by the name that other programs use, or the only one that differs in a slip of the finger. Commands
/// that merely look alike do different things.
fn command_meant(error: &Error, typed: &str, place: &str) -> Option<String> {
    let other = OTHER_NAMES.iter().find(|(name, _)| place.is_empty() && *name == typed);
    let near = strings(error, ContextKind::SuggestedSubcommand).into_iter();
    let near: Vec<String> = near.filter(|command| is_slip(typed, command)).collect();
    let near = || <[String; 1]>::try_from(near).ok().map(|[command]| format!("{place} {command}"));
    let meant = other.map(|(_, command)| (*command).to_owned()).or_else(near)?;
    Some(meant.trim_start().to_owned())
}

fn did_you_mean(meant: Option<String>, help: &str) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}? {help} lists all"),
        None => format!("{help} lists all"),
    }
}

/// One letter more, one less, another one, or two swapped.
fn is_slip(typed: &str, right: &str) -> bool {
    strsim::osa_distance(typed, right) == 1
}

/// A slip, or the beginning of an option. clap also suggests options that share only some letters.
fn is_near(typed: &str, option: &str) -> bool {
    let typed = option_of(typed);
    is_slip(typed, option) || (typed.len() > "--x".len() && option.starts_with(typed))
}

/// Why a value is refused.
fn why_invalid(error: &Error) -> String {
    let typed = strings(error, ContextKind::InvalidValue).concat();
    let value = shortened(&typed);
    let Some(source) = error.source() else { return format!("'{value}' is invalid") };
    if source.is::<ParseIntError>() {
        return format!("'{value}' is not a whole number that fits");
    }
    if source.is::<ParseFloatError>() {
        return format!("'{value}' is not a number");
    }
    let why = source.to_string();
    if let Some(why) = out_of_bounds(&why) {
        return why;
    }
    let why = if why.contains(&typed) { why.replace(&typed, &value) } else { format!("'{value}': {why}") };
    // The help has the list of what there is that may follow.
    let first = why.split("; ").next().unwrap_or_default();
    if why.len() > REASON_MAX { first.to_owned() } else { why }
}

/// The bounds of a number, which clap tells as Rust writes them, such as `7 is not in 1..=5`.
fn out_of_bounds(why: &str) -> Option<String> {
    let (value, bounds) = why.split_once(" is not in ")?;
    let (least, most) = bounds.split_once("..")?;
    let most = most.trim_start_matches('=');
    let is_endless =
        most.is_empty() || [u64::MAX.to_string(), i64::MAX.to_string()].contains(&most.to_owned());
    Some(match (is_endless, least.is_empty()) {
        (true, _) => format!("{value} is less than {least}"),
        (_, true) => format!("{value} is more than {most}"),
        _ => format!("{value} is not between {least} and {most}"),
    })
}

fn conflict(error: &Error, name: &str, arg: &str) -> (String, String) {
    let others = strings(error, ContextKind::PriorArg);
    let others: Vec<String> = others.iter().map(|other| bare(other)).collect();
    if others.iter().all(|other| other == arg) {
        return (format!("{name}: {arg} is given twice"), "give it once".to_owned());
    }
    let others = others.join(" or ");
    (format!("{name}: {arg} does not go together with {others}"), "leave one of them out".to_owned())
}

/// An option without its value.
fn option_of(arg: &str) -> &str {
    arg.split([' ', '=']).next().unwrap_or(arg)
}

/// An argument as firn's texts name it: `IMAGE`, not `<IMAGE>`.
fn bare(arg: &str) -> String {
    let arg = arg.replace(['<', '>'], "");
    // One that may be missing; `--against [NAME=]DIR` keeps its own.
    if arg.starts_with('[') { arg.replace(['[', ']'], "") } else { arg }
}

/// A word as it was typed; a long one only begins so.
fn shortened(word: &str) -> String {
    match word.char_indices().nth(WORD_MAX) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}

/// The texts that clap gives for a part of the error.
fn strings(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
