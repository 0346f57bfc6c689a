//! The settings of a mounted volume: their names, their values, and how long each lasts. The names and the syntax are those of
//! `firn mount -o`, and the same code reads them (`mounting::options`).
//!
//! Callers: the daemon's side (`service`), and `firn mount -o remount`.

use crate::mounting::MountPlan;
use crate::mounting::thresholds;
use crate::sizes::short;
use firnfs::lfs::Mark;
use firnfs_fuse::TransportChoice;
use serde::{Deserialize, Serialize};

/// How long the value of a setting lasts, which also says where it can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    /// It can be changed now; the next mount sets it anew.
    UntilUnmount,
    /// Only a mount sets it.
    SetByMount,
    /// It is stored in the volume, and can be changed now.
    InVolume,
}

impl Lasts {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::UntilUnmount => "until the unmount; can change now",
            Self::SetByMount => "until the unmount; only a mount sets it",
            Self::InVolume => "in the volume; can change now",
        }
    }
}

/// A setting of a mount.
pub struct Setting {
    /// As for `-o`.
    pub name: &'static str,
    /// Whether it can be changed while the volume is mounted.
    pub lasts: Lasts,
    /// Its value, as `-o` takes it.
    pub value: fn(&MountPlan) -> String,
}

/// The settings of a log-structured volume that a mount sets.
pub const SETTINGS: [Setting; 18] = [
    live("cache", |plan| short(plan.cache_bytes)),
    live("commit", |plan| seconds(plan.commit_interval_ms)),
    live("checkpoint", |plan| seconds(plan.checkpoint_interval_ms)),
    live("checkpoint_bytes", |plan| short(plan.checkpoint_bytes)),
    live("cleaning_policy", |plan| plan.cleaning_policy.to_string()),
    live("clean_low", |plan| thresholds::value_of(plan.thresholds, Mark::Low)),
    live("clean_high", |plan| thresholds::value_of(plan.thresholds, Mark::High)),
    live("clean_idle", |plan| thresholds::value_of(plan.thresholds, Mark::Idle)),
    live("coalesce", |plan| plan.coalesce_age_ms.map_or_else(|| "off".to_owned(), seconds)),
    live("idle_after", |plan| seconds(plan.idle_after_ms)),
    live("idle_rate", |plan| plan.idle_bytes_per_s.map_or_else(|| "off".to_owned(), short)),
    live("placement", |plan| plan.placement.map_or_else(|| "default".to_owned(), |name| name.to_string())),
    fixed("rotational", |plan| plan.rotational.map_or("auto", yes_no).to_owned()),
    live("discard", |plan| yes_no(plan.discard).to_owned()),
    fixed("threads", |plan| plan.threads.to_string()),
    fixed("transport", |plan| transport(plan).to_owned()),
    fixed("metrics", |plan| plan.metrics.map_or_else(|| "off".to_owned(), |address| address.to_string())),
    fixed("writeback", |plan| yes_no(plan.settings.writeback_cache).to_owned()),
];

const fn live(name: &'static str, value: fn(&MountPlan) -> String) -> Setting {
    Setting { name, lasts: Lasts::UntilUnmount, value }
}

const fn fixed(name: &'static str, value: fn(&MountPlan) -> String) -> Setting {
    Setting { name, lasts: Lasts::SetByMount, value }
}

/// The setting that a word such as `cache=1G`, `nocoalesce` or `nodiscard` concerns.
pub fn setting_of(word: &str) -> Option<&'static Setting> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let name = name.strip_prefix("no").filter(|name| ["coalesce", "discard"].contains(name)).unwrap_or(name);
    SETTINGS.iter().find(|setting| setting.name == name)
}

fn seconds(ms: u64) -> String {
    format!("{}", ms as f64 / 1000.0)
}

fn transport(plan: &MountPlan) -> &'static str {
    TransportChoice::NAMES
        .iter()
        .find(|(_, choice)| *choice == plan.transport)
        .map_or("auto", |(name, _)| name)
}

fn yes_no(is_on: bool) -> &'static str {
    if is_on { "yes" } else { "no" }
}
