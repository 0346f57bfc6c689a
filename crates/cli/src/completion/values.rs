//! What can stand for a value: names of policies and placements, settings, mounts.
//!
//! The names come from the texts that the help shows and from the tables that the commands use, so that none is missing here.

use crate::history::{Place, States, clones_of};
use crate::mounting::tags_of_volumes;
use crate::mounting::thresholds::mark_of;
use crate::tune::live_settings;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use firnfs::clean::names::{AGE_THRESHOLD, AGELESS_POLICIES, PLACEMENTS};
use firnfs_fuse::mount::table;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Words of `-o` beside the settings that `firn tune` changes.
const MOUNT_WORDS: [&str; 22] = [
    "ro",
    "rw",
    "noatime",
    "relatime",
    "strictatime",
    "nodev",
    "nosuid",
    "noexec",
    "sync",
    "allow_other",
    "noallow_other",
    "writeback",
    "discard",
    "nocoalesce",
    "transport=auto",
    "transport=uring",
    "transport=dev",
    "remount",
    "threads=",
    "rotational=auto",
    "rotational=yes",
    "rotational=no",
];

/// Cleaning policies of the file system.
pub fn policies() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting(&policy_names(), current))
}

/// Placements of the file system.
pub fn placements() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting(&names(PLACEMENTS), current))
}

/// The names in a list of the lab, such as its workloads.
pub fn listed(list: fn() -> String) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| starting(&names(&list()), current))
}

/// Mountpoints, and files beside them.
pub fn mounts() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mounts = table::firnfs_mounts().unwrap_or_default();
        let places = mounts.into_iter().map(|mount| mount.mountpoint.to_string_lossy().into_owned());
        let mut found = starting(&places.collect::<Vec<_>>(), current);
        let files = PathCompleter::any().complete(current);
        let others: Vec<_> = files.into_iter().filter(|file| !is_among(&found, file)).collect();
        found.extend(others);
        found
    })
}

/// Files, `IMAGE@STATE`, and the names of volumes on block devices once one has begun with `LABEL=` or `UUID=`.
pub fn volumes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy();
        let mut found = PathCompleter::any().complete(current);
        found.extend(states_at(&text, ""));
        if !text.is_empty() {
            let tags = ["LABEL=", "UUID="].into_iter().filter(|tag| tag.starts_with(&*text));
            let words: Vec<String> = match text.contains('=') {
                true => tags_of_volumes(),
                false => tags.map(str::to_owned).collect(),
            };
            found.extend(starting(&words, current));
        }
        found
    })
}

/// The states of the mount that the line is about.
pub fn states() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let all = mounts_of_the_line().into_iter();
        let states = all.filter_map(|mount| States::of_mount(&mount).ok()).flat_map(|states| states.list);
        starting(&states.map(|state| state.name).collect::<Vec<_>>(), current)
    })
}

/// `MOUNT@STATE`, and what [`mounts`] offers.
pub fn mounts_at() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| match current.to_string_lossy() {
        text if text.contains('@') => states_at(&text, ""),
        _ => mounts().complete(current),
    })
}

/// `MOUNT@STATE`, `MOUNT@OLDER..STATE`, and what [`mounts`] offers.
pub fn mounts_at_range() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy();
        let older = text.rsplit_once('@').and_then(|(_, range)| range.split_once(".."));
        match older {
            Some((older, _)) => states_at(&text, &format!("{older}..")),
            None => mounts_at().complete(current),
        }
    })
}

/// `PATH@STATE` for the states of a volume; each after what is typed of a range.
fn states_at(text: &str, older: &str) -> Vec<CompletionCandidate> {
    let Some((path, _)) = text.rsplit_once('@') else { return Vec::new() };
    let states = States::of(Path::new(path)).map(|states| states.list).unwrap_or_default();
    let words: Vec<String> = states.iter().map(|state| format!("{path}@{older}{}", state.name)).collect();
    starting(&words, OsStr::new(text))
}

/// The clones of the mount that the line is about, and files: links to clones.
pub fn clones() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let clones = mounts_of_the_line();
        let clones = clones.iter().filter_map(|mount| clones_of(mount).ok()).flatten();
        let mut found = starting(&clones.map(|clone| clone.name).collect::<Vec<_>>(), current);
        found.extend(PathCompleter::any().complete(current));
        found
    })
}

/// The mounts that words of the line lead into; all if none does. No other one is asked: its daemon may be busy or stopped, and Tab
/// would wait for it.
fn mounts_of_the_line() -> Vec<table::Mount> {
    // `firn -- firn restore /mnt/file --at MON`: what the shell asks about.
    let line = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let paths = line.map(PathBuf::from).filter(|path| path.exists());
    let mut named: Vec<table::Mount> = Vec::new();
    for place in paths.filter_map(|path| Place::of(&path).ok()) {
        if !named.contains(&place.mount) {
            named.push(place.mount);
        }
    }
    if named.is_empty() { table::firnfs_mounts().unwrap_or_default() } else { named }
}

/// `SETTING=VALUE` of `firn tune`.
pub fn settings() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting(&setting_words(current), current))
}

/// The comma-separated words of `firn mount -o`.
pub fn mount_words() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy();
        let (before, word) =
            text.rsplit_once(',').map_or(("", &*text), |(_, word)| text.split_at(text.len() - word.len()));
        let mut words: Vec<String> = MOUNT_WORDS.map(str::to_owned).to_vec();
        words.extend(setting_words(OsStr::new(word)));
        let found = words.iter().filter(|known| known.starts_with(word));
        found.map(|known| CompletionCandidate::new(format!("{before}{known}"))).collect()
    })
}

/// `NAME=` for every setting, or `NAME=VALUE` for the values of the one that is being typed.
fn setting_words(current: &OsStr) -> Vec<String> {
    let text = current.to_string_lossy();
    let values = match text.split_once('=') {
        Some(("cleaning_policy", _)) => policy_names(),
        Some(("coalesce" | "idle_rate", _)) => vec!["off".to_owned()],
        Some((name, _)) if mark_of(name).is_some() => vec!["auto".to_owned()],
        Some(("discard", _)) => ["yes", "no"].map(str::to_owned).to_vec(),
        Some(("placement", _)) => [names(PLACEMENTS), vec!["default".to_owned()]].concat(),
        _ => return live_settings().map(|name| format!("{name}=")).collect(),
    };
    let name = text.split('=').next().unwrap_or_default();
    values.into_iter().map(|value| format!("{name}={value}")).collect()
}

/// Policies of the file system, without their parameters.
pub fn policy_names() -> Vec<String> {
    [names(AGELESS_POLICIES), names(AGE_THRESHOLD)].concat()
}

/// The names in a text such as `greedy, dac[:LOGS=6], split (users, cleaner)`, without parameters and explanations.
fn names(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut found = vec![String::new()];
    for letter in list.chars() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => found.push(String::new()),
            _ if depth == 0 => found.last_mut().expect("one at least").push(letter),
            _ => {}
        }
    }
    // `trace:FILE`: the name with its colon, as the parameter is required.
    let name = |word: &str| match word.trim().split_once(':') {
        Some((name, _)) => format!("{name}:"),
        None => word.split_whitespace().next().unwrap_or_default().to_owned(),
    };
    found.iter().map(|word| name(word)).filter(|name| !name.is_empty() && name != "..").collect()
}

fn starting(words: &[String], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    words.iter().filter(|word| word.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

fn is_among(found: &[CompletionCandidate], other: &CompletionCandidate) -> bool {
    let name = |candidate: &CompletionCandidate| {
        candidate.get_value().to_string_lossy().trim_end_matches('/').to_owned()
    };
    found.iter().any(|one| name(one) == name(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_offered_is_one_that_is_understood() {
        let policies = policy_names();
        assert!(policies.len() == 9 && policies.contains(&"age-threshold".to_owned()), "{policies:?}");
        for name in policies {
            name.parse::<firnfs::clean::Policy>().unwrap();
        }
        let placements = names(PLACEMENTS);
        assert_eq!(placements, ["one", "split", "age-sort", "dac", "dac-leap", "sepbit", "mida"]);
        for name in placements {
            name.parse::<firnfs::clean::PlacementName>().unwrap();
        }
        for name in names(&firnfs_lab::cleaning::scheme::policies()) {
            name.parse::<firnfs_lab::cleaning::scheme::PolicyName>().unwrap();
        }
        for name in names(&firnfs_lab::cleaning::scheme::placements()) {
            name.parse::<firnfs_lab::cleaning::scheme::PlacementName>().unwrap();
        }
        for name in names(&firnfs_lab::hardware::disk_names()) {
            firnfs_lab::hardware::find_disk(&name).unwrap();
        }
    }

    #[test]
    fn a_setting_is_completed_by_its_values_and_a_list_by_its_last_word() {
        let of = |completer: ArgValueCompleter, text: &str| -> Vec<String> {
            let found = completer.complete(OsStr::new(text));
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(of(settings(), "ca"), ["cache="]);
        assert_eq!(of(settings(), "cleaning_policy=gr"), ["cleaning_policy=greedy"]);
        assert_eq!(of(settings(), "placement=def"), ["placement=default"]);
        assert_eq!(of(settings(), "clean_"), ["clean_low=", "clean_high=", "clean_idle="]);
        assert_eq!(of(settings(), "clean_low="), ["clean_low=auto"]);
        assert_eq!(of(settings(), "threads"), [""; 0], "they cannot change");
        assert_eq!(of(mount_words(), "ro,cleaning_policy=fi"), ["ro,cleaning_policy=fifo"]);
        assert_eq!(of(mount_words(), "noat"), ["noatime"]);
        assert_eq!(of(mount_words(), "placement=dac-"), ["placement=dac-leap"]);
    }
}
