//! `DiskParams`: a disk's parameter file, checked.
//!
//! docs/internals/simulated-hardware.md describes the keys. Callers: `library`; the lab, for files of users.

use crate::disk::flash::Flash;
use crate::disk::layout::{Layout, Zone};
use crate::disk::mechanical::Mechanics;
use crate::disk::media::Media;
use crate::disk::model::{DiskKind, DiskModel};
use crate::disk::order::Order;
use crate::disk::rotation::Rotation;
use crate::disk::seek::SeekCurve;
use crate::disk::{SECTOR_BYTES, ns};
use crate::params::{Section, parse};
use crate::speed::Speed;
use std::cell::RefCell;
use std::ops::RangeInclusive;

pub use crate::params::{ParamError, Sourced};

/// Milliseconds that any time in a file may have.
const MS: RangeInclusive<f64> = 0.0..=1000.0;
/// Megabytes a second, of 1,000,000 bytes.
const MB_PER_S: RangeInclusive<f64> = 0.01..=100_000.0;
const CYLINDERS_MAX: u32 = 1 << 20;
const TRACK_SECTORS_MAX: u32 = 1 << 14;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct DiskParams {
    /// Manufacturer and model.
    pub title: String,
    /// The disk.
    pub kind: DiskKind,
    /// The order of its queue.
    pub order: Order,
    /// Longest command, in bytes: the host splits longer requests.
    pub transfer_max_bytes: Option<u64>,
    /// All values with their sources, in the order of the file's sections.
    pub sources: Vec<Sourced>,
}

impl DiskParams {
    /// Reads a file's text; `file` is its name in errors.
    ///
    /// # Errors
    /// The first value that is missing, unknown or out of range.
    pub fn read(file: &str, text: &str) -> Result<Self, ParamError> {
        let table = parse(file, text)?;
        let sources = RefCell::default();
        let root = Section::root(file, &table, &sources);
        let title = root.text("title")?.to_owned();
        let kind = match root.word("kind", &["mechanical", "flash", "constant"])? {
            "mechanical" => DiskKind::Mechanical(Box::new(mechanical(&root)?)),
            "flash" => DiskKind::Flash(flash(&root)?),
            _ => DiskKind::Constant(constant(&root)?),
        };
        let queue = root.section("queue")?;
        let order = match queue.word("order", &["arrival", "elevator"])? {
            "elevator" => Order::Elevator,
            _ => Order::Arrival,
        };
        let transfer_max_kb = queue.optional_number("transfer_max_kb", 4.0..=65536.0)?;
        queue.finish()?;
        root.finish()?;
        let transfer_max_bytes = transfer_max_kb.map(|kb| kb as u64 * 1024);
        Ok(Self { title, kind, order, transfer_max_bytes, sources: sources.take() })
    }

    /// The disk at rest.
    #[must_use]
    pub fn model(&self) -> DiskModel {
        DiskModel::new(&self.kind, self.order)
    }
}

fn byte_ps(mb_per_s: f64) -> i64 {
    (1e6 / mb_per_s).round() as i64
}

fn mechanical(root: &Section<'_>) -> Result<Mechanics, ParamError> {
    let layout = layout(&root.section("geometry")?)?;
    let turning = root.section("rotation")?;
    let rotation = Rotation::of_rpm(turning.number("rpm", 60.0..=100_000.0)?);
    turning.finish()?;
    let arm = root.section("arm")?;
    let seek = seek(&arm, layout.cylinders())?;
    let head_switch_ns = ns(arm.number("head_switch_ms", MS)?);
    let write_settle_ns = ns(arm.number("write_settle_ms", MS)?);
    arm.finish()?;
    let electronics = root.section("electronics")?;
    let controller_ns = ns(electronics.number("controller_ms", MS)?);
    let bus_byte_ps = byte_ps(electronics.number("bus_mb_per_s", MB_PER_S)?);
    let buffer_kb = electronics.integer("buffer_kb", 0..=1 << 20)?;
    let reads_ahead = electronics.flag("read_ahead")?;
    let writes_behind = electronics.flag("write_behind")?;
    if buffer_kb == 0 && (reads_ahead || writes_behind) {
        return Err(electronics.error("buffer_kb", "is 0; reading ahead and writing behind need a buffer"));
    }
    electronics.finish()?;
    Ok(Mechanics {
        media: Media { layout, rotation, seek, head_switch_ns, write_settle_ns },
        controller_ns,
        bus_byte_ps,
        buffer_sectors: u64::from(buffer_kb) * 1024 / SECTOR_BYTES,
        reads_ahead,
        writes_behind,
    })
}

fn layout(geometry: &Section<'_>) -> Result<Layout, ParamError> {
    let heads = geometry.integer("heads", 1..=256)?;
    let zones = geometry.list("zones")?;
    if zones.is_empty() || zones.len() > 256 {
        return Err(geometry.error("zones", "allowed: 1 to 256 zones"));
    }
    let zones: Vec<Zone> = zones.iter().map(|list| zone(geometry, list)).collect::<Result<_, _>>()?;
    let cylinders: u32 = zones.iter().map(|zone| zone.cylinders).sum();
    if cylinders > CYLINDERS_MAX {
        return Err(geometry.error("zones", format!("have {cylinders} cylinders; allowed: {CYLINDERS_MAX}")));
    }
    let smallest = zones.iter().map(|zone| zone.track_sectors * heads).min().unwrap_or_default();
    let spare_sectors = geometry.integer("spare_sectors_per_cylinder", 0..=smallest - 1)?;
    let mut unused: Vec<RangeInclusive<u32>> = Vec::new();
    let gaps = geometry.optional("unused_cylinders")?.and_then(|value| value.as_array().cloned());
    for gap in gaps.unwrap_or_default() {
        let from = unused.last().map_or(0, |last| last.end() + 1);
        unused.push(unused_range(geometry, &gap, from, cylinders - 1)?);
    }
    let taken: u32 = unused.iter().map(|gap| gap.end() - gap.start() + 1).sum();
    if taken >= cylinders {
        return Err(geometry.error("unused_cylinders", "leave no cylinder in use"));
    }
    geometry.finish()?;
    Ok(Layout::new(heads, &zones, spare_sectors, &unused))
}

/// `[cylinders, sectors of a track, track skew, cylinder skew]`.
fn zone(geometry: &Section<'_>, list: &toml::Value) -> Result<Zone, ParamError> {
    let form = "each zone is [cylinders, sectors of a track, track skew, cylinder skew]";
    let numbers = list.as_array().filter(|numbers| numbers.len() == 4);
    let numbers = numbers.ok_or_else(|| geometry.error("zones", form))?;
    let track_sectors = geometry.whole("zones", &numbers[1], 1..=TRACK_SECTORS_MAX)?;
    Ok(Zone {
        cylinders: geometry.whole("zones", &numbers[0], 1..=CYLINDERS_MAX)?,
        track_sectors,
        track_skew: geometry.whole("zones", &numbers[2], 0..=track_sectors - 1)?,
        cylinder_skew: geometry.whole("zones", &numbers[3], 0..=track_sectors - 1)?,
    })
}

fn unused_range(
    geometry: &Section<'_>,
    gap: &toml::Value,
    from: u32,
    last: u32,
) -> Result<RangeInclusive<u32>, ParamError> {
    let key = "unused_cylinders";
    let pair = gap.as_array().filter(|pair| pair.len() == 2);
    let pair = pair.ok_or_else(|| geometry.error(key, "each range is [first, last]"))?;
    if from > last {
        return Err(geometry.error(key, format!("go beyond the last cylinder, {last}")));
    }
    let start = geometry.whole(key, &pair[0], from..=last)?;
    Ok(start..=geometry.whole(key, &pair[1], start..=last)?)
}

fn seek(arm: &Section<'_>, cylinders: u32) -> Result<SeekCurve, ParamError> {
    let curve = match arm.word("curve", &["two-pieces", "three-points"])? {
        "two-pieces" => SeekCurve::TwoPieces {
            short_ms: arm.number("short_ms", MS)?,
            short_root_ms: arm.number("short_root_ms", MS)?,
            short_cylinders: arm.integer("short_cylinders", 1..=CYLINDERS_MAX)?,
            long_ms: arm.number("long_ms", MS)?,
            long_cylinder_ms: arm.number("long_cylinder_ms", MS)?,
        },
        _ => SeekCurve::through(
            arm.number("single_ms", MS)?,
            arm.number("average_ms", MS)?,
            arm.number("full_ms", MS)?,
            cylinders,
        ),
    };
    match curve.first_fall(cylinders) {
        None => Ok(curve),
        Some(d) => {
            let reason = format!("a seek over {d} cylinders would take less time than a shorter one");
            Err(arm.error("curve", reason))
        }
    }
}

fn flash(root: &Section<'_>) -> Result<Flash, ParamError> {
    let flash = root.section("flash")?;
    let us = |key| flash.number(key, 0.0..=1e6).map(|us| ns(us / 1000.0));
    let read = Flash {
        sectors: (flash.number("size_gb", 0.001..=1e6)? * 1e9 / SECTOR_BYTES as f64) as u64,
        read_ns: us("read_us")?,
        write_ns: us("write_us")?,
        flush_ns: us("flush_us")?,
        byte_ps: byte_ps(flash.number("mb_per_s", MB_PER_S)?),
        depth: flash.integer("depth", 1..=1 << 16)? as usize,
    };
    flash.finish()?;
    Ok(read)
}

fn constant(root: &Section<'_>) -> Result<Speed, ParamError> {
    let constant = root.section("constant")?;
    let speed = Speed {
        seek_ns: ns(constant.number("seek_ms", MS)?),
        request_ns: ns(constant.number("request_us", 0.0..=1e6)? / 1000.0),
        byte_ps: byte_ps(constant.number("mb_per_s", MB_PER_S)?),
        flush_ns: ns(constant.number("flush_ms", MS)?),
    };
    constant.finish()?;
    Ok(speed)
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
