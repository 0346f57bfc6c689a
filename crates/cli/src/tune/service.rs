//! The daemon's side of `firn tune` and of `firn mount -o remount`: one operation of the control socket that lists settings and
//! changes them.
//!
//! Invariant: a request changes all of the settings that it names, or none. Caller: `mounting::operations`.

use super::settings::{Lasts, SETTINGS, Setting, setting_of};
use crate::mounting::{MountPlan, thresholds};
use crate::socket;
use firnfs::FsError;
use firnfs::lfs::{Lfs, Tuning};
use firnfs::vfs::Vfs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Weak;

/// Sets what `words` say, and answers with a [`TuneView`].
pub const TUNE_OP: &str = "tune";

/// The setting that the volume keeps.
pub(super) const LABEL: &str = "label";
/// The beginning of a word that sets it.
pub const LABEL_IS: &str = "label=";

#[derive(Deserialize)]
struct Request {
    /// As for `-o`; none to list the settings.
    #[serde(default)]
    words: Vec<String>,
}

/// Answer of `tune`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TuneView {
    /// What this request changed.
    pub changed: Vec<ChangeView>,
    /// All settings, as they are now.
    pub settings: Vec<SettingView>,
}

/// A changed setting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangeView {
    /// Its name.
    pub name: String,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
}

/// A setting and its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SettingView {
    /// Its name.
    pub name: String,
    /// Its value; `-o` takes what a mount can set in this form.
    pub value: String,
    /// How long the value lasts.
    pub lasts: Lasts,
    /// How many clean segments a mark of the cleaner stands for now; `None` for other settings.
    #[serde(default)]
    pub segments: Option<u64>,
}

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>, plan: &MountPlan) {
    let plan = Mutex::new(plan.clone());
    let help = "lists the settings of the mount, and changes those that 'words' name (as 'firn mount -o' takes them)";
    registry.register(TUNE_OP, help, move |request| {
        let request: Request = socket::arguments(request)?;
        socket::answer(&tune(&*socket::open(&volume)?, &mut plan.lock(), &request.words)?)
    });
}

fn tune(volume: &Volume<Lfs>, plan: &mut MountPlan, words: &[String]) -> Result<TuneView, OpError> {
    let failed = |e: FsError| OpError::from(&e);
    let (labels, words) = words.iter().partition::<Vec<_>, _>(|word| word.starts_with(LABEL_IS));
    let wanted = resolve(plan, &words)?;
    if wanted.thresholds != plan.thresholds {
        refuse_unfit(volume, &wanted)?;
    }
    let mut changed = changes(plan, &wanted);
    // Before anything else: it is the only change that the device can refuse.
    for label in labels.iter().filter_map(|word| word.strip_prefix(LABEL_IS)) {
        let from = label_of(volume).map_err(failed)?;
        if from != label {
            volume.relabel(label).map_err(|e| match e {
                FsError::Invalid(why) => OpError::new(ErrorKind::InvalidArgument, why.to_owned()),
                e => failed(e),
            })?;
            changed.push(ChangeView { name: LABEL.to_owned(), from, to: label.to_owned() });
        }
    }
    if *plan != wanted {
        let tuning = wanted.tuning();
        let retune = |vfs: &mut Vfs<Lfs>| {
            vfs.store_mut().tune(&tuning);
            Ok(())
        };
        volume.run_quietly(|vfs, _| retune(vfs)).map_err(failed)?;
        // The background thread sleeps as long as the old intervals said.
        volume.wake();
        *plan = wanted;
    }
    for ChangeView { name, from, to } in &changed {
        tracing::info!("{name} is {to:?} now; it was {from:?}");
    }
    Ok(TuneView { changed, settings: all(volume, plan).map_err(failed)? })
}

/// All settings, as they are now.
fn all(volume: &Volume<Lfs>, plan: &MountPlan) -> Result<Vec<SettingView>, FsError> {
    let (marks, label) = volume.run_quietly(|vfs, _| {
        Ok((thresholds::in_effect(vfs.store()), vfs.store().superblock().label.clone()))
    })?;
    let shown = |setting: &Setting| SettingView {
        name: setting.name.to_owned(),
        value: (setting.value)(plan),
        lasts: setting.lasts,
        segments: marks.iter().find(|(mark, _)| thresholds::name_of(*mark) == setting.name).map(|of| of.1),
    };
    let mut settings: Vec<_> = SETTINGS.iter().map(shown).collect();
    settings.push(SettingView {
        name: LABEL.to_owned(),
        value: label,
        lasts: Lasts::InVolume,
        segments: None,
    });
    Ok(settings)
}

/// Refuses marks of the cleaner that the volume cannot keep to.
fn refuse_unfit(volume: &Volume<Lfs>, wanted: &MountPlan) -> Result<(), OpError> {
    let judged = volume.run_quietly(|vfs, _| Ok(vfs.store().judge_thresholds(wanted.thresholds)));
    let judged = judged.map_err(|e| OpError::from(&e))?;
    judged.map_err(|unfit| OpError::new(ErrorKind::InvalidArgument, thresholds::refusal(&unfit)))
}

fn label_of(volume: &Volume<Lfs>) -> Result<String, FsError> {
    volume.run_quietly(|vfs, _| Ok(vfs.store().superblock().label.clone()))
}

/// The plan with the words applied, if all of them can change while the volume is mounted.
fn resolve(plan: &MountPlan, words: &[&String]) -> Result<MountPlan, OpError> {
    let refuse = |message: String| OpError::new(ErrorKind::InvalidArgument, message);
    let mut wanted = plan.clone();
    for word in words {
        let Some(setting) = setting_of(word) else {
            return Err(refuse(match word.split_once('=') {
                Some(("rate", _)) => "rate: the limit of one scrub; see 'firn scrub --rate'".to_owned(),
                _ => format!("{word}: no setting of this mount has that name; 'firn tune --list' shows all"),
            }));
        };
        let was = (setting.value)(&wanted);
        // The words of this request were not given after `-o`.
        wanted
            .apply(word)
            .map_err(|failure| refuse(failure.to_string().trim_start_matches("-o ").to_owned()))?;
        let is = (setting.value)(&wanted);
        // mount(8) repeats what fstab says: the present value is no change.
        if is != was && setting.lasts != Lasts::UntilUnmount {
            let name = setting.name;
            return Err(refuse(format!(
                "{name} cannot change from {was} to {is} while the volume is mounted; unmount it and mount it with -o {word}"
            )));
        }
    }
    Ok(wanted)
}

fn changes(from: &MountPlan, to: &MountPlan) -> Vec<ChangeView> {
    let pairs = SETTINGS.iter().map(|setting| (setting.name, (setting.value)(from), (setting.value)(to)));
    let changed = pairs.filter(|(_, from, to)| from != to);
    changed.map(|(name, from, to)| ChangeView { name: name.to_owned(), from, to }).collect()
}

impl MountPlan {
    /// The part that can change while the volume is mounted.
    fn tuning(&self) -> Tuning {
        Tuning {
            cache_bytes: self.cache_bytes,
            commit_interval_ms: self.commit_interval_ms,
            checkpoint_interval_ms: self.checkpoint_interval_ms,
            checkpoint_bytes: self.checkpoint_bytes,
            cleaning_policy: self.cleaning_policy,
            thresholds: self.thresholds,
            coalesce_age_ms: self.coalesce_age_ms,
            idle_after_ms: self.idle_after_ms,
            idle_bytes_per_s: self.idle_bytes_per_s,
            placement: self.placement,
            discard: self.discard,
        }
    }
}
