//! What keeping the past costs the cleaner, by the real log on a device in memory: bytes written to the log for each byte that users
//! write, at 70% live without a past, at 90% live without one, and at 70% live with 20% of the past.
//!
//!     cargo run --release -p firnfs-manage --example history_cost [SEGMENTS]
//!
//! All three write a checkpoint for every 64th of the volume that users write; with a past each of them is a point, and the oldest points go once they hold 20% of
//! what users can fill. Decision 0207 has the same from the simulator.

use firnfs::engine::{Engine, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_volume::Volume;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;
/// Points that users make while they write as much as the volume has.
const POINTS: u64 = 64;
/// Times that users write what they see, before and while it is measured.
const ROUNDS: (u64, u64) = (3, 3);

#[derive(Clone, Copy, Debug)]
enum Workload {
    Uniform,
    HotCold,
}

impl Workload {
    fn block(self, rng: &mut Pcg64, blocks: u64) -> u64 {
        match self {
            Self::Uniform => rng.random_range(0..blocks),
            // Nine of ten writes go to a tenth of the blocks.
            Self::HotCold if rng.random_range(0..10) > 0 => rng.random_range(0..blocks / 10),
            Self::HotCold => rng.random_range(blocks / 10..blocks),
        }
    }
}

struct Run {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    rng: Pcg64,
    file: InodeNo,
    blocks: u64,
    point_blocks: u64,
    past_bytes: u64,
    made: u64,
}

impl Run {
    fn new(segments: u64, live_percent: u64, past_percent: u64) -> Self {
        let size_bytes = (segments << 20) + (4 << 20);
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
        let options = MkfsOptions {
            size_bytes,
            block_bytes: BLOCK_BYTES as u32,
            segment_bytes: 1 << 20,
            physical_block_bytes: 4096,
            inline_max_bytes: 0,
            label: String::new(),
            uuid: [1; 16],
            hash_key: [1, 2],
            now: TimeNs(1),
            root_owner: (0, 0),
        };
        firnfs_manage::format(&*device, &options).expect("a volume of that size");
        let clock = Arc::new(VirtualClock::at(2));
        let volume = firnfs_manage::open(device, Options::default(), AtimeMode::Noatime, clock.clone());
        let volume = volume.expect("a new volume");
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        let file = volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"file", node, false));
        let total_bytes = volume.run(|vfs, _| Ok(vfs.statfs())).expect("open").total_bytes;
        let mut run = Self {
            file: file.expect("room").ino,
            blocks: total_bytes * live_percent / 100 / BLOCK_BYTES,
            point_blocks: size_bytes / BLOCK_BYTES / POINTS,
            past_bytes: total_bytes * past_percent / 100,
            rng: seeded(1, "history cost"),
            made: 0,
            volume,
            clock,
        };
        (0..run.blocks).for_each(|block| run.write(block));
        run
    }

    fn write(&mut self, block: u64) {
        let content = [self.rng.random::<u8>(); BLOCK_BYTES as usize];
        if let Err(e) = self.volume.write_all(self.file, block * BLOCK_BYTES, &content, false) {
            let (space, past, points, live) = self
                .volume
                .run(|vfs, _| {
                    Ok((
                        vfs.statfs(),
                        vfs.store().past_bytes(),
                        vfs.store().points_len(),
                        vfs.store().counters().log_bytes,
                    ))
                })
                .unwrap();
            panic!(
                "{e}: {space:?} past {past} limit {} points {points} log {live} made {}",
                self.past_bytes, self.made
            );
        }
        self.made += 1;
        // Some 40 MB a second: the volume is never idle.
        self.clock.advance_ms(i64::from(self.made.is_multiple_of(10)));
        if self.made.is_multiple_of(64) {
            self.step();
        }
        if self.made.is_multiple_of(self.point_blocks) {
            self.end_interval();
        }
    }

    fn step(&self) -> Step {
        let step =
            self.volume.run_quietly(|vfs, now| vfs.store_mut().step(now, false)).expect("a sound device");
        self.volume.pump();
        step
    }

    /// A checkpoint, which is a point if a past is kept; then what is due in the background.
    fn end_interval(&mut self) {
        let name = format!("point-{}", self.made);
        let keeps = self.past_bytes > 0;
        let done = self.volume.run(|vfs, now| {
            if keeps {
                vfs.store_mut().make_point(now, &name).map(drop)
            } else {
                vfs.store_mut().checkpoint_now(now)
            }
        });
        done.expect("room for a point");
        while matches!(self.step(), Step::Worked | Step::Waiting) {}
        let held = |vfs: &firnfs::vfs::Vfs<Lfs>| vfs.store().past_bytes();
        while self.volume.run(|vfs, _| Ok(held(vfs))).expect("open") > self.past_bytes {
            let oldest = self.volume.run(|vfs, _| Ok(vfs.store_mut().points()?[0].epoch)).expect("open");
            self.volume.run(|vfs, now| vfs.store_mut().drop_point(now, oldest)).expect("a point");
            while matches!(self.step(), Step::Worked | Step::Waiting) {}
        }
    }

    /// Log bytes for each byte that users write.
    fn amplification(mut self, workload: Workload) -> (f64, usize, f64) {
        let log_bytes =
            |run: &Self| run.volume.run(|vfs, _| Ok(vfs.store().counters().log_bytes)).expect("open");
        let mut before = 0;
        for round in 0..ROUNDS.0 + ROUNDS.1 {
            if round == ROUNDS.0 {
                before = log_bytes(&self);
            }
            for _ in 0..self.blocks {
                let block = workload.block(&mut self.rng, self.blocks);
                self.write(block);
            }
        }
        let written_bytes = ROUNDS.1 * self.blocks * BLOCK_BYTES;
        let amplification = (log_bytes(&self) - before) as f64 / written_bytes as f64;
        let (points, past_bytes) =
            self.volume.run(|vfs, _| Ok((vfs.store().points_len(), vfs.store().past_bytes()))).expect("open");
        let total_bytes = self.volume.run(|vfs, _| Ok(vfs.statfs())).expect("open").total_bytes;
        (amplification, points, past_bytes as f64 / total_bytes as f64)
    }
}

fn main() {
    let segments = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(512);
    println!("{segments} segments of 1 MiB; log bytes for each byte that users write (virtual time)");
    println!(
        "{:<10} {:>9} {:>9} {:>16} {:>8} {:>7} {:>9}",
        "workload", "70% live", "90% live", "70% + 20% past", "to 90%", "points", "past"
    );
    for workload in [Workload::Uniform, Workload::HotCold] {
        let (plain, ..) = if std::env::var_os("SKIP").is_some() {
            (1.0, 0, 0.0)
        } else {
            Run::new(segments, 70, 0).amplification(workload)
        };
        let (full, ..) = if std::env::var_os("SKIP").is_some() {
            (1.0, 0, 0.0)
        } else {
            Run::new(segments, 90, 0).amplification(workload)
        };
        let (past, points, share) = Run::new(segments, 70, 20).amplification(workload);
        println!(
            "{:<10} {plain:>9.2} {full:>9.2} {past:>16.2} {:>8.2} {points:>7} {:>8.1}%",
            format!("{workload:?}"),
            past / full,
            share * 100.0
        );
    }
}
