//! Bytes read and time taken by cleaning, with victims read whole and with only live blocks read, side by side.
//! `victims IMAGE [ROUNDS]`: IMAGE is made, 320 MiB, and removed; it should lie on the device in question.
//!
//! For each share of live data, and for files of two sizes, a volume of segments of 1 MiB is filled, most files are deleted, the
//! volume is mounted again, and the cleaner empties 96 segments. Both ways of reading start from the same bytes and alternate
//! from round to round; the figures are medians. The times include everything: reads, the moves, the writes, the checkpoints.

use firnfs::clean::Medium;
use firnfs::engine::{Engine, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{FileDevice, FileOptions};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_volume::Volume;
use rand::RngExt;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const SIZE_BYTES: u64 = 320 << 20;
/// Bytes written before most of them are deleted.
const CONTENT_BYTES: u64 = 160 << 20;
const SEGMENTS: u64 = 96;
const LIVE_PERCENTS: [u32; 4] = [10, 25, 50, 75];
const FILES_BYTES: [usize; 2] = [64 << 10, 4 << 10];
const START_NS: i64 = 1_700_000_000_000_000_000;

type Done<T> = Result<T, Box<dyn Error>>;

/// One run of the cleaner.
struct Ran {
    ms: f64,
    segments: u64,
    in_part: u64,
    read_bytes: u64,
    moved_bytes: u64,
}

fn main() -> Done<()> {
    let mut args = std::env::args().skip(1);
    let image = args.next().ok_or("usage: victims IMAGE [ROUNDS]")?;
    let rounds: usize = args.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let image = Path::new(&image);
    println!("| live | files of | read | read in part | MiB read | MiB moved | read per byte moved | ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for live_percent in LIVE_PERCENTS {
        for file_bytes in FILES_BYTES {
            let mut ways = [("whole", Medium::HEAD, Vec::new()), ("live", Medium::HEADLESS, Vec::new())];
            for round in 0..rounds {
                let first = round % ways.len();
                ways.rotate_left(first);
                for (_, medium, ran) in &mut ways {
                    ran.push(run(image, *medium, live_percent, file_bytes)?);
                }
                ways.rotate_right(first);
            }
            for (name, _, ran) in &mut ways {
                ran.sort_by(|a, b| a.ms.total_cmp(&b.ms));
                let Some(Ran { ms, segments, in_part, read_bytes, moved_bytes }) = ran.get(ran.len() / 2)
                else {
                    continue;
                };
                let [read, moved] = [*read_bytes, *moved_bytes].map(|bytes| bytes as f64 / (1 << 20) as f64);
                println!(
                    "| {live_percent}% | {} KiB | {name} | {in_part} of {segments} | {read:.1} | {moved:.1} | {:.2} | {ms:.0} |",
                    file_bytes >> 10,
                    read / moved
                );
            }
        }
    }
    Ok(())
}

fn run(image: &Path, medium: Medium, live_percent: u32, file_bytes: usize) -> Done<Ran> {
    let device = Arc::new(FileDevice::create(image, SIZE_BYTES, &FileOptions::default())?);
    let made = make(&device, live_percent, file_bytes).and_then(|()| clean(&device, medium));
    drop(device);
    std::fs::remove_file(image)?;
    made
}

fn mounted(device: &Arc<FileDevice>, medium: Medium) -> Done<Volume<Lfs>> {
    let options = Options { medium, cache_file_data: false, ..Options::default() };
    Ok(open(device.clone(), options, AtimeMode::Noatime, Arc::new(VirtualClock::at(START_NS)))?)
}

/// Fills a volume and deletes the files that are not to stay live.
fn make(device: &Arc<FileDevice>, live_percent: u32, file_bytes: usize) -> Done<()> {
    let mkfs = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 512,
        label: "victims".to_owned(),
        uuid: [5; 16],
        hash_key: [1, 2],
        now: TimeNs(START_NS),
        root_owner: (0, 0),
    };
    format(&**device, &mkfs)?;
    let volume = mounted(device, Medium::HEAD)?;
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let names: Vec<String> = (0..CONTENT_BYTES / file_bytes as u64).map(|n| format!("file {n}")).collect();
    for (n, name) in (0u8..251).cycle().zip(&names) {
        let made =
            volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false))?;
        volume.write_all(made.ino, 0, &vec![n; file_bytes], false)?;
    }
    volume.sync(Scope::All)?;
    let mut random = seeded(1, "victims");
    for name in &names {
        if random.random_range(0..100) >= live_percent {
            volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes()))?;
        }
    }
    volume.close()?;
    Ok(())
}

fn clean(device: &Arc<FileDevice>, medium: Medium) -> Done<Ran> {
    let volume = mounted(device, medium)?;
    let counters = || volume.run_quietly(|vfs, _| Ok(*vfs.store().counters()));
    let before = counters()?;
    let began = Instant::now();
    let counted = loop {
        let step = volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true))?;
        volume.pump();
        let counted = counters()?.since(&before);
        if step == Step::Stuck || counted.segments_cleaned >= SEGMENTS {
            break counted;
        }
    };
    Ok(Ran {
        ms: began.elapsed().as_secs_f64() * 1000.0,
        segments: counted.segments_cleaned,
        in_part: counted.segments_read_in_part,
        read_bytes: counted.cleaner_read_bytes,
        moved_bytes: counted.cleaner_moved_bytes,
    })
}
