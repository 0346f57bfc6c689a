//! A disk's properties: its seek curve, its bandwidths, and the times of given requests, part by part. Pure models, no file
//! system. Caller: `firn sim disk`.

use super::choose::ChosenDisk;
use crate::error::LabError;
use crate::plot::{Curve, Drawing, Origin, Plot, Scale, Style};
use firnfs_sim::disk::mechanical::Mechanics;
use firnfs_sim::disk::model::DiskKind;
use firnfs_sim::disk::{Command, DiskModel, Lbn, SECTOR_BYTES, Service, Work};
use firnfs_sim::seeded;
use rand::RngExt;
use serde::Serialize;

/// Requests that a bandwidth is measured with.
const REQUESTS: u64 = 500;
/// Size of a disk that has any size, in bytes.
const ANY_SIZE_BYTES: u64 = 1 << 40;
/// A sequential request, where the host does not split them smaller.
const SEQUENTIAL_BYTES: u64 = 64 << 10;
/// A random request: a block.
const RANDOM_BYTES: u64 = 4096;
/// Distances of the printed curve; the last one is the whole stroke.
const DISTANCES: [u32; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, u32::MAX];

/// A value of the parameter file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Parameter {
    /// The key with its section.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where it comes from.
    pub source: String,
}

/// The seek curve of a disk with an arm.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Seeks {
    /// Cylinders, unused ones included.
    pub cylinders: u32,
    /// Mean over all pairs of different cylinders, in milliseconds.
    pub mean_ms: f64,
    /// Distance in cylinders and time in milliseconds.
    pub curve: Vec<(u32, f64)>,
}

/// One bandwidth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bandwidth {
    /// "read" or "write".
    pub work: &'static str,
    /// "sequential" or "random".
    pub pattern: &'static str,
    /// "outer", "inner" or "all".
    pub place: &'static str,
    /// Size of each request, in bytes.
    pub request_bytes: u64,
    /// Megabytes a second, of 1,000,000 bytes.
    pub mb_per_s: f64,
    /// Mean time of a request, in milliseconds.
    pub request_ms: f64,
}

/// A request whose time is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    work: Work,
    at_bytes: u64,
    len_bytes: u64,
}

/// Its time; the parts add up to `total_ms`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// "read", "write", "flush" or "discard".
    pub work: &'static str,
    /// Offset in bytes.
    pub at_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Controller's overhead, or a solid-state disk's latency.
    pub controller_ms: f64,
    /// Waiting for arm, buffer or other commands.
    pub wait_ms: f64,
    /// Moving the arm.
    pub seek_ms: f64,
    /// Waiting for the first sector.
    pub rotation_ms: f64,
    /// Sectors passing the head.
    pub media_ms: f64,
    /// The bus, where nothing overlaps it.
    pub bus_ms: f64,
    /// All of it.
    pub total_ms: f64,
    /// The disk's buffer served it.
    pub is_hit: bool,
}

/// See the module's head.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DiskView {
    /// Name or path by which it was chosen.
    pub name: String,
    /// Manufacturer and model.
    pub title: String,
    /// "mechanical", "flash" or "constant".
    pub kind: &'static str,
    /// Size in bytes; absent if the model has no size of its own.
    pub size_bytes: Option<u64>,
    /// The values of the file.
    pub parameters: Vec<Parameter>,
    /// Absent if there is no arm, or all seeks take the same time.
    pub seeks: Option<Seeks>,
    /// Its bandwidths, each request right after the one before.
    pub bandwidths: Vec<Bandwidth>,
    /// The times of the given requests, one right after the other on a disk at rest.
    pub costs: Vec<Cost>,
}

impl std::str::FromStr for Asked {
    type Err = String;

    /// `r:OFFSET:LENGTH`, `w:OFFSET:LENGTH` in bytes, multiples of 512; `f` is a flush. Sizes may have K, M, G.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "requests are r:OFFSET:LENGTH, w:OFFSET:LENGTH or f, such as r:1M:64K".to_owned();
        let parts: Vec<&str> = text.trim().split(':').collect();
        let (work, at, len) = match parts.as_slice() {
            ["f"] => return Ok(Self { work: Work::Flush, at_bytes: 0, len_bytes: 0 }),
            ["r", at, len] => (Work::Read, at, len),
            ["w", at, len] => (Work::Write, at, len),
            _ => return Err(form()),
        };
        let at_bytes = bytes(at).ok_or_else(form)?;
        let len_bytes = bytes(len).filter(|len| *len > 0).ok_or_else(form)?;
        Ok(Self { work, at_bytes, len_bytes })
    }
}

fn bytes(text: &str) -> Option<u64> {
    let shift = match text.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &text[..text.len() - 1] } else { text };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| bytes.is_multiple_of(SECTOR_BYTES))
}

/// Describes a disk, and computes the times of requests on it.
///
/// # Errors
/// A request lies beyond the end of the disk.
pub fn look(disk: &ChosenDisk, asked: &[Asked]) -> Result<DiskView, LabError> {
    let params = &disk.params;
    let sources = params.sources.iter().filter(|value| value.key.contains('.'));
    Ok(DiskView {
        name: disk.name.clone(),
        title: params.title.clone(),
        kind: match params.kind {
            DiskKind::Constant(_) => "constant",
            DiskKind::Mechanical(_) => "mechanical",
            DiskKind::Flash(_) => "flash",
        },
        size_bytes: params.kind.size_bytes(),
        parameters: sources
            .map(|value| Parameter {
                key: value.key.clone(),
                value: value.value.clone(),
                source: value.source.clone(),
            })
            .collect(),
        seeks: match &params.kind {
            DiskKind::Mechanical(mechanics) => Some(seeks(mechanics)),
            DiskKind::Constant(_) | DiskKind::Flash(_) => None,
        },
        bandwidths: bandwidths(disk),
        costs: costs(disk, asked)?,
    })
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn seeks(mechanics: &Mechanics) -> Seeks {
    let cylinders = mechanics.media.layout.cylinders();
    let seek = &mechanics.media.seek;
    let mut distances: Vec<u32> = DISTANCES.map(|d| d.min(cylinders.saturating_sub(1)).max(1)).to_vec();
    distances.dedup();
    let curve = distances.into_iter().map(|d| (d, ms(seek.time_ns(d)))).collect();
    Seeks { cylinders, mean_ms: ms(seek.mean_ns(cylinders)), curve }
}

fn bandwidths(disk: &ChosenDisk) -> Vec<Bandwidth> {
    let size_bytes = disk.params.kind.size_bytes().unwrap_or(ANY_SIZE_BYTES);
    let sequential_bytes = disk.params.transfer_max_bytes.unwrap_or(SEQUENTIAL_BYTES);
    let run_bytes = sequential_bytes * REQUESTS;
    let inner = (size_bytes.saturating_sub(run_bytes)) / SECTOR_BYTES;
    let mut found = Vec::new();
    for (work, name) in [(Work::Read, "read"), (Work::Write, "write")] {
        for (place, from) in [("outer", 0), ("inner", inner)] {
            let sectors = sequential_bytes / SECTOR_BYTES;
            let places = (0..REQUESTS)
                .map(|n| from + n * sectors)
                .filter(|at| (at + sectors) * SECTOR_BYTES <= size_bytes);
            found.push(measure(disk, work, name, "sequential", place, sequential_bytes, places));
        }
        let mut rng = seeded(1, "places on a disk");
        let blocks = size_bytes / RANDOM_BYTES;
        let places = (0..REQUESTS).map(|_| rng.random_range(0..blocks) * (RANDOM_BYTES / SECTOR_BYTES));
        found.push(measure(disk, work, name, "random", "all", RANDOM_BYTES, places));
    }
    found
}

/// Requests one right after the other; the last one, a flush, counts as well.
fn measure(
    disk: &ChosenDisk,
    work: Work,
    name: &'static str,
    pattern: &'static str,
    place: &'static str,
    request_bytes: u64,
    places: impl Iterator<Item = u64>,
) -> Bandwidth {
    let mut model = disk.params.model();
    let (mut count, mut end_ns) = (0, 0);
    for lbn in places {
        let command = Command { work, lbn: Lbn(lbn), sectors: request_bytes / SECTOR_BYTES };
        end_ns = model.serve(&command, end_ns).end_ns();
        count += 1;
    }
    if work == Work::Write {
        end_ns = model.serve(&Command { work: Work::Flush, lbn: Lbn(0), sectors: 0 }, end_ns).end_ns();
    }
    let count = count.max(1) as f64;
    Bandwidth {
        work: name,
        pattern,
        place,
        request_bytes,
        mb_per_s: count * request_bytes as f64 * 1e3 / end_ns.max(1) as f64,
        request_ms: ms(end_ns) / count,
    }
}

fn costs(disk: &ChosenDisk, asked: &[Asked]) -> Result<Vec<Cost>, LabError> {
    let size_bytes = disk.params.kind.size_bytes().unwrap_or(ANY_SIZE_BYTES);
    let mut model = disk.params.model();
    let mut end_ns = 0;
    let one = |request: &Asked| {
        let end_bytes = request.at_bytes.checked_add(request.len_bytes);
        if end_bytes.is_none_or(|end| end > size_bytes) {
            let reason = format!("a request ends beyond the disk, which has {size_bytes} bytes");
            return Err(LabError::Setup(reason));
        }
        let service = serve(&mut model, request, end_ns);
        end_ns = service.end_ns();
        Ok(cost(request, &service))
    };
    asked.iter().map(one).collect()
}

fn serve(model: &mut DiskModel, request: &Asked, start_ns: i64) -> Service {
    let lbn = Lbn(request.at_bytes / SECTOR_BYTES);
    model.serve(&Command { work: request.work, lbn, sectors: request.len_bytes / SECTOR_BYTES }, start_ns)
}

fn cost(request: &Asked, service: &Service) -> Cost {
    Cost {
        work: match request.work {
            Work::Read => "read",
            Work::Write => "write",
            Work::Flush => "flush",
            Work::Discard => "discard",
        },
        at_bytes: request.at_bytes,
        len_bytes: request.len_bytes,
        controller_ms: ms(service.controller_ns),
        wait_ms: ms(service.wait_ns),
        seek_ms: ms(service.seek_ns),
        rotation_ms: ms(service.rotation_ns),
        media_ms: ms(service.media_ns),
        bus_ms: ms(service.bus_ns),
        total_ms: ms(service.took_ns()),
        is_hit: service.is_hit,
    }
}

/// The seek curve as SVG, and its numbers as CSV.
///
/// # Errors
/// The disk has no seek curve.
pub fn curve(disk: &ChosenDisk) -> Result<(String, String), LabError> {
    let DiskKind::Mechanical(mechanics) = &disk.params.kind else {
        return Err(LabError::Setup(format!("{} has no seek curve", disk.name)));
    };
    let cylinders = mechanics.media.layout.cylinders();
    let seek = &mechanics.media.seek;
    let step = (cylinders / 500).max(1) as usize;
    let points: Vec<(f64, f64)> =
        (1..cylinders).step_by(step).map(|d| (f64::from(d), ms(seek.time_ns(d)))).collect();
    let mean_ms = ms(seek.mean_ns(cylinders));
    let longest_ms = points.iter().map(|point| point.1).fold(mean_ms, f64::max);
    let turn_ms = ms(mechanics.media.rotation.turn_ns);
    let plot = Plot {
        file: "seek-curve".into(),
        title: format!("{}: time of a seek", disk.params.title).into(),
        conditions: format!("a turn takes {turn_ms:.2} ms").into(),
        x: "cylinders",
        y: "milliseconds",
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        x_max: f64::from(cylinders),
        y_max: longest_ms * 1.1,
        curves: vec![
            Curve::new("seek", Style(0), points).plain(),
            Curve::new(
                "mean over all pairs",
                Style(1),
                vec![(0.0, mean_ms), (f64::from(cylinders), mean_ms)],
            )
            .plain(),
        ],
    };
    let drawing = Drawing::Curves(plot);
    Ok((drawing.svg(&Origin::of(format!("firn sim disk {} --svg FILE", disk.name)))?, drawing.csv()))
}

#[cfg(test)]
#[path = "disk_view_tests.rs"]
mod tests;
