//! The states of a volume, mounted or in an image, and the state that a word on the command line means.
//!
//! The daemon of a mount tells its owner and root everything about the states. Other users see the names in `.firn/history`, in
//! the order of time. That is enough to read the past: the name of an automatic state is its time, and a snapshot is older than
//! the state after it.

use super::service::{HELD_OP, HISTORY_OP, HeldRequest, HistoryView, PointView, held, history};
use super::when;
use crate::failure::{Done, Exit, Failure};
use crate::names::{readable, shell_word};
use crate::progress::Bar;
use crate::target::{self, Target};
use firnfs::FsError;
use firnfs_format::TimeNs;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use firnfs_fuse::mount::table::Mount;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the states of a mount are, below its root.
pub const HISTORY_DIR: &str = ".firn/history";

/// A retained state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The name under which users find it.
    pub name: String,
    /// When it was made; `None` if this user may not ask the daemon and the name is not a time.
    pub time: Option<TimeNs>,
    /// It was made at or before this time.
    pub not_after: TimeNs,
    /// The facts that only the daemon knows.
    pub told: Option<Told>,
}

/// What the daemon knows about a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Number of its checkpoint.
    pub epoch: u32,
    /// Live bytes of the volume then.
    pub live_bytes: u64,
    /// It was made automatically; retention may drop it.
    pub is_automatic: bool,
    /// Bytes that deleting it would give back; `None` if they were not counted.
    pub frees_bytes: Option<u64>,
}

impl From<PointView> for State {
    fn from(point: PointView) -> Self {
        let PointView { name, epoch, time_ns, live_bytes, is_automatic } = point;
        let time = TimeNs(time_ns);
        Self {
            name,
            time: Some(time),
            not_after: time,
            told: Some(Told { epoch, live_bytes, is_automatic, frees_bytes: None }),
        }
    }
}

/// States that one request counts. The daemon counts each in a fraction of a millisecond; a request itself takes as long as
/// several of them.
const COUNTED_AT_ONCE: usize = 256;

/// The states of a volume, oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct States {
    /// Oldest first.
    pub list: Vec<State>,
    /// Bytes that only these states hold; `None` if this user may not know.
    pub past_bytes: Option<u64>,
    /// The volume, for messages.
    place: PathBuf,
}

impl States {
    /// The states of a volume on a mount or in an image.
    ///
    /// # Errors
    /// There is no volume, or it keeps no history.
    pub fn of(path: &Path) -> Done<Self> {
        Self::counted(path, |_| false)
    }

    /// The same; also counts what deleting each state that `is_wanted` accepts would give back.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn counted(path: &Path, is_wanted: impl Fn(&State) -> bool) -> Done<Self> {
        match target::resolve(path)? {
            Target::Mounted(mount) => {
                let mut states = Self::of_mount(&mount)?;
                let held = |epochs| ask(&mount, HELD_OP, &HeldRequest { epochs }, |_, _| None);
                states.count(is_wanted, held)?;
                Ok(states)
            }
            Target::Image(image) => {
                let volume = crate::volume::open_read_only(&image)?;
                let failed = |e: FsError| Failure::fs("cannot list the states", &e);
                let mut states = Self::told(history(&volume).map_err(failed)?, image);
                let held = |epochs: Vec<u32>| {
                    let counts = epochs.into_iter().map(|epoch| held(&volume, epoch));
                    counts.collect::<Result<_, _>>().map_err(failed)
                };
                states.count(is_wanted, held)?;
                Ok(states)
            }
        }
    }

    /// Counts what deleting some states would give back, as far as this user may know.
    fn count(
        &mut self,
        is_wanted: impl Fn(&State) -> bool,
        mut held: impl FnMut(Vec<u32>) -> Done<Vec<Option<u64>>>,
    ) -> Done {
        let bar = Bar::of_entries();
        let wanted = self.list.iter_mut().filter(|state| is_wanted(state));
        let mut told: Vec<&mut Told> = wanted.filter_map(|state| state.told.as_mut()).collect();
        let (total, mut done) = (told.len() as u64, 0);
        for some in told.chunks_mut(COUNTED_AT_ONCE) {
            bar.show(done, total, "states counted");
            let counts = held(some.iter().map(|told| told.epoch).collect())?;
            some.iter_mut().zip(counts).for_each(|(told, bytes)| told.frees_bytes = bytes);
            done += some.len() as u64;
        }
        Ok(())
    }

    /// The states of a mounted volume.
    ///
    /// # Errors
    /// It keeps no history, or its daemon is dead.
    pub fn of_mount(mount: &Mount) -> Done<Self> {
        let asked = Client::for_mount(mount).and_then(|mut client| client.ask(HISTORY_OP, Value::Null));
        match asked {
            Ok(view) => Ok(Self::told(view, mount.mountpoint.clone())),
            Err(ClientError::Permission(_)) => Self::listed(&mount.mountpoint),
            Err(error) => Err(failure_of(&error)),
        }
    }

    /// The states that the volume itself has listed.
    pub fn told(view: HistoryView, place: PathBuf) -> Self {
        let list = view.points.into_iter().map(State::from).collect();
        Self { list, past_bytes: Some(view.past_bytes), place }
    }

    /// The states in the directory of states. Its entries are in the order of time, and its own time is about that of the newest.
    fn listed(mountpoint: &Path) -> Done<Self> {
        let directory = mountpoint.join(HISTORY_DIR);
        let cannot = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => has_no_history(mountpoint),
            _ => Failure::io("cannot list", &directory, &e),
        };
        let meta = std::fs::metadata(&directory).map_err(cannot)?;
        let entries = std::fs::read_dir(&directory).map_err(cannot)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<Result<_, _>>().map_err(cannot)?;
        // The kernel may have cached a listing with states that were deleted since.
        let names = names.into_iter().filter(|name| directory.join(name).exists()).collect();
        let newest = TimeNs(meta.mtime() * 1_000_000_000 + meta.mtime_nsec());
        Ok(Self { list: dated(names, newest), past_bytes: None, place: mountpoint.to_owned() })
    }

    /// The state that a word means: its name, the number of its checkpoint, or the newest one at or before a time.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, word: &str) -> Done<&State> {
        let named = self.list.iter().rfind(|state| state.name == word);
        let number: Option<u32> = word.parse().ok();
        let numbered =
            || self.list.iter().find(|state| number.is_some() && state.told.map(|told| told.epoch) == number);
        if let Some(state) = named.or_else(numbered) {
            return Ok(state);
        }
        let (place, in_command) = (readable(&self.place), shell_word(&self.place));
        let Some(time) = when::parse(word, &when::now()) else {
            let message = format!("'{word}' is neither a state of {place} nor a time");
            return Err(Failure::usage(message).advise(format!(
                "'firn log {in_command}' lists the states; times are \"yesterday\", \"2 hours ago\", \"2026-11-24 13:45\""
            )));
        };
        self.list.iter().rfind(|state| state.not_after <= time).ok_or_else(|| match self.list.first() {
            Some(oldest) => {
                let (time, oldest) = (when::local(time), &oldest.name);
                Failure::failed(format!("{place} has no state as old as {time}; the oldest is {oldest}"))
                    .advise(format!("'firn log {in_command}' lists them"))
            }
            None => self.none_kept(),
        })
    }

    /// The volume's path, for messages.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The failure of a volume without states.
    pub fn none_kept(&self) -> Failure {
        let (place, in_command) = (readable(&self.place), shell_word(&self.place));
        Failure::failed(format!("{place} keeps no states")).advise(format!(
            "'firn snapshot {in_command} NAME' makes one, 'firn retain {in_command}' shows when it makes them by itself"
        ))
    }
}

/// The states with these names. If a name is not a time, its state was made at or before the time of the next one.
fn dated(names: Vec<String>, newest: TimeNs) -> Vec<State> {
    let mut not_after = newest;
    let mut list = Vec::with_capacity(names.len());
    for name in names.into_iter().rev() {
        let is_newest = list.is_empty();
        let time =
            name.parse().ok().and_then(|time: jiff::Timestamp| i64::try_from(time.as_nanosecond()).ok());
        let time = time.map(TimeNs).or(is_newest.then_some(newest));
        not_after = time.unwrap_or(not_after);
        list.push(State { name, time, not_after, told: None });
    }
    list.reverse();
    list
}

/// The failure of a volume that cannot have states.
pub fn has_no_history(place: &Path) -> Failure {
    Failure::new(Exit::Refused, format!("{} keeps no history", readable(&place)))
        .advise("only log-structured volumes do, if no entry of their root directory is called .firn")
}

/// The failure of a request to the daemon.
pub fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this volume keeps no history")
                .advise("only log-structured volumes do; if this is one, mount it with this version of firn")
        }
        _ => Failure::failed(error.to_string()),
    }
}

/// Asks the daemon of a mount to do something. `refusal` turns the name and message of an error into a failure; `None` if it does
/// not know that error.
///
/// # Errors
/// The daemon is dead, keeps no history, or refuses.
pub fn ask<T: for<'a> Deserialize<'a>>(
    mount: &Mount,
    op: &str,
    request: &impl Serialize,
    refusal: impl FnOnce(&str, &str) -> Option<Failure>,
) -> Done<T> {
    let mut client = Client::for_mount(mount).map_err(|e| failure_of(&e))?;
    let request = serde_json::to_value(request).map_err(|e| Failure::failed(e.to_string()))?;
    client.ask(op, request).map_err(|e| {
        let known = match &e {
            ClientError::Refused(refused) => {
                refused.errno.as_deref().and_then(|errno| refusal(errno, &refused.message))
            }
            _ => None,
        };
        known.unwrap_or_else(|| failure_of(&e))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, epoch: u32, time_s: i64) -> PointView {
        PointView {
            name: name.to_owned(),
            epoch,
            time_ns: time_s * 1_000_000_000,
            live_bytes: 0,
            is_automatic: false,
        }
    }

    #[test]
    fn a_word_is_a_name_or_a_number_or_a_time() {
        let points = vec![
            state("one", 7, 1_000_000_000),
            state("9", 12, 1_500_000_000),
            state("two", 15, 1_600_000_000),
        ];
        let states = States::told(HistoryView { points, past_bytes: 0 }, "/mnt".into());
        let found = |word: &str| states.find(word).map(|state| state.name.clone()).map_err(|e| e.to_string());
        assert_eq!(found("two").as_deref(), Ok("two"));
        assert_eq!(found("7").as_deref(), Ok("one"));
        assert_eq!(found("9").as_deref(), Ok("9"));
        assert_eq!(found("@1500000000").as_deref(), Ok("9"));
        assert_eq!(found("@1499999999").as_deref(), Ok("one"));
        assert_eq!(found("now").as_deref(), Ok("two"));
        assert!(found("@999999999").unwrap_err().contains("the oldest is one"));
        let unknown = states.find("three").unwrap_err();
        assert!(unknown.exit == Exit::Usage && unknown.to_string().contains("firn log /mnt"), "{unknown}");
    }

    #[test]
    fn a_volume_without_states_says_how_states_come_to_be() {
        let states = States::told(HistoryView { points: Vec::new(), past_bytes: 0 }, "/mnt".into());
        let refused = states.find("yesterday").unwrap_err();
        assert_eq!((refused.exit, refused.message.as_str()), (Exit::Failed, "/mnt keeps no states"));
        let text = refused.to_string();
        assert!(text.contains("firn snapshot /mnt NAME") && text.contains("firn retain /mnt"), "{text}");
    }

    #[test]
    fn without_the_daemon_a_snapshot_is_older_than_what_follows_it() {
        let names = ["first", "2026-11-24T13:45:10Z", "second", "2026-11-24T15:00:00Z", "last"];
        let newest = TimeNs(1_795_540_000_000_000_000);
        let list = dated(names.map(str::to_owned).to_vec(), newest);
        let automatic = TimeNs(1_795_527_910_000_000_000);
        assert_eq!((list[0].time, list[0].not_after), (None, automatic));
        assert_eq!(list[1].time, Some(automatic));
        assert_eq!((list[2].time, list[2].not_after), (None, list[3].not_after));
        assert_eq!(list[4].time, Some(newest));
    }
}
