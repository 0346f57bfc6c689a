//! Every claim of the report is judged by what was measured: for doctored measurements it holds, and for others it does not. The claims
//! come from the figures themselves, so a new claim that no measurement can make fail, or hold, fails this test.

use super::runs::{Job, Outcome, Runs};
use super::tree::{Mean, Together};
use super::*;
use crate::age::layout::{Class, FreeSpace, Layout, Score, Splits};
use crate::coalescing::{self, Reading, Scene};
use crate::hardware::bandwidth::Point;
use crate::hardware::comparison::Rates;
use crate::hardware::fragmented::{Aged, DATES, SIZES_KIB, Test};
use crate::hardware::large_file;
use crate::hardware::lifetime::{History, Hot, Life, SIZES_KIB as SIZES_KIB_OF_AGING, SMALL_KIB, Speed};
use crate::hardware::papers::load::Served;
use crate::hardware::production::{BINS, Used};
use crate::hardware::rig::Phase;
use crate::hardware::small_files::{self, Rate};
use crate::trace::{DiskSeen, Histogram, Replayed};
use firnfs::lfs::{Counters, KindBytes, LogKind};
use firnfs_device::Counts;
use firnfs_sim::{DiskWork, seeded};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Enough that the narrowest tolerance is met several times.
const TRIALS: usize = 8000;
/// Values of a made-up histogram.
const VALUES: usize = 60;

/// Makes measurements up: each value is anything from a thousandth to ten thousand, all magnitudes alike, or 0; in some trials all
/// values are nearly the same.
struct Doctor<R> {
    rng: R,
    same: Option<f64>,
}

impl<R: rand::Rng> Doctor<R> {
    /// Begins a trial.
    fn begin(&mut self) {
        self.same = None;
        self.same = self.rng.random_bool(0.1).then(|| self.value());
    }

    fn value(&mut self) -> f64 {
        match self.same {
            Some(same) => same * self.rng.random_range(0.98..1.02),
            None if self.rng.random_bool(0.05) => 0.0,
            None => 10f64.powf(self.rng.random_range(-3.0..4.0)),
        }
    }

    fn count(&mut self) -> u64 {
        self.value() as u64
    }

    fn rate(&mut self) -> Rate {
        Rate {
            files_per_s: self.value(),
            cpu_share: self.value(),
            disk_share: self.value(),
            read_bytes_per_file: self.value(),
            written_bytes_per_file: self.value(),
        }
    }

    fn speed(&mut self) -> large_file::Speed {
        large_file::Speed {
            kb_per_s: self.value(),
            cpu_share: self.value(),
            disk_share: self.value(),
            moved: self.value(),
        }
    }

    fn point(&mut self, kib: u64) -> Point {
        Point {
            bytes: kib << 10,
            lfs_write_mb_per_s: self.value(),
            lfs_write_ms: self.value(),
            lfs_fsync_ms: self.value(),
            lfs_write_cpu_share: self.value(),
            lfs_read_mb_per_s: self.value(),
            lfs_read_cpu_share: self.value(),
            lfs_read_disk_share: self.value(),
            raw_write_mb_per_s: self.value(),
            clustered_write_mb_per_s: self.value(),
            raw_read_mb_per_s: self.value(),
        }
    }

    fn work(&mut self) -> DiskWork {
        let (reads, read_bytes, writes, write_bytes) =
            (self.count(), self.count() << 10, self.count(), self.count() << 10);
        let asked = Counts { reads, read_bytes, writes, write_bytes, ..Counts::default() };
        DiskWork { asked, seeks: self.count(), commands: self.count(), ..DiskWork::default() }
    }

    fn served(&mut self) -> Served {
        let log = Counters {
            log_bytes: self.count() << 20,
            segments_cleaned: self.count(),
            cleaner_moved_bytes: self.count() << 20,
            cleaner_read_bytes: self.count() << 20,
            ..Counters::default()
        };
        let phase = Phase {
            seconds: self.value(),
            cpu_share: self.value(),
            disk_share: self.value(),
            disk: self.work(),
        };
        Served { per_s: self.value(), transactions: self.count(), log, phase }
    }

    fn reading(&mut self) -> Reading {
        Reading { ms: self.value(), seeks: self.count(), requests: self.count(), bytes: self.count() }
    }

    /// Values of which any share, from none to all, is at least `from`.
    fn histogram(&mut self, from: f64) -> Histogram {
        let (share, mut values) = (self.rng.random::<f64>(), Histogram::default());
        for _ in 0..VALUES {
            let is_large = self.rng.random_bool(share);
            values.add(if is_large { from * self.rng.random_range(1.0..64.0) } else { from / 2.0 });
        }
        values
    }

    fn replayed(&mut self) -> Replayed {
        let mut delay_ms = self.histogram(0.5);
        let undelayed = (self.rng.random::<f64>() * 4.0 * VALUES as f64) as usize;
        (0..undelayed).for_each(|_| delay_ms.add(0.0));
        let mut dirty_mib = self.histogram(1.0);
        dirty_mib.add(self.value());
        let disk = DiskSeen {
            idle_s: self.histogram(4.0),
            delay_ms,
            dirty_mib,
            user_requests: self.count(),
            cleaner_met: self.count(),
            user_read_bytes: self.count() << 20,
            user_written_bytes: self.count() << 20,
            ..DiskSeen::default()
        };
        Replayed {
            records: (self.value() * 1e6) as u64,
            disk,
            segments_cleaned: self.count(),
            cleaned_on_demand: self.count(),
            utilisation: self.value(),
            ..Replayed::default()
        }
    }

    /// There are hundreds of these: only what figures show of them.
    fn replayed_otherwise(&mut self) -> Replayed {
        let mut delay_ms = Histogram::default();
        delay_ms.add(self.value());
        let disk = DiskSeen {
            delay_ms,
            user_requests: self.count(),
            cleaner_met: self.count(),
            ..DiskSeen::default()
        };
        Replayed {
            disk,
            segments_cleaned: self.count(),
            cleaned_on_demand: self.count(),
            write_amplification: self.value(),
            ..Replayed::default()
        }
    }

    fn used(&mut self) -> Used {
        let shares = |doctor: &mut Self| {
            let weights: Vec<f64> = (0..BINS).map(|_| doctor.value()).collect();
            let sum = weights.iter().sum::<f64>().max(1e-9);
            weights.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
        };
        let mut live = KindBytes::default();
        for kind in LogKind::ALL {
            live.add(kind, self.count() as u32);
        }
        // The disk's segments have 1 MiB; cleaned ones are full to any share.
        let (cleaned, full) = (self.count(), self.rng.random::<f64>());
        let log = Counters {
            segments_cleaned: cleaned,
            segments_cleaned_empty: self.count(),
            cleaner_moved_bytes: ((cleaned << 20) as f64 * full) as u64,
            log_file_bytes: self.count(),
            log_indirect_bytes: self.count(),
            log_inode_bytes: self.count(),
            log_inode_map_bytes: self.count(),
            log_usage_table_bytes: self.count(),
            log_summary_bytes: self.count(),
            ..Counters::default()
        };
        let (segments, segments_at_end) = (shares(self), shares(self));
        Used { segment_bytes: 1 << 20, log, live, segments, segments_at_end, ..Used::default() }
    }

    /// Files of each size are about as fast as on an empty file system in any share of the tests, else slow.
    fn aged(&mut self) -> Aged {
        let shares: [f64; SIZES_KIB.len()] = std::array::from_fn(|_| self.rng.random::<f64>().sqrt().sqrt());
        let slowest = self.rng.random_range(0.5..0.85);
        let mut speed = |share: f64| {
            let is_fast = self.rng.random_bool(share);
            if is_fast { self.rng.random_range(0.9..1.1) } else { self.rng.random_range(slowest..0.85) }
        };
        let tests =
            std::array::from_fn(|_| shares.map(|share| Test { create: speed(share), read: speed(share) }));
        let mut score = || Score { blocks: 100, optimal: self.rng.random_range(0..=100) };
        Aged {
            full: [0.8; DATES],
            tests,
            scores: vec![(16 << 10, score()), (256 << 10, score())],
            by_position: std::array::from_fn(|_| (self.rng.random::<f64>(), self.rng.random::<f64>())),
        }
    }

    /// Any score, most of them high; in some trials all are alike.
    fn score(&mut self) -> Score {
        let share = match self.same {
            Some(same) => (same / 1e4).min(1.0),
            None => 1.0 - self.rng.random::<f64>().powi(3),
        };
        let blocks = 100_000;
        Score { blocks, optimal: (share * blocks as f64) as u64 }
    }

    fn layout(&mut self) -> Layout {
        let mut class = || Class { files: 10, bytes: 1 << 20, score: self.score() };
        let by_size = [16u64 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20].map(|bytes| (bytes, class()));
        let all = class();
        let split = |doctor: &mut Self| doctor.rng.random_range(0..=2000);
        let by_distance = [(1, split(self)), (7, split(self)), (20, split(self))].into();
        Layout {
            files: 10_000,
            all,
            by_size: by_size.into(),
            splits: Some(Splits { by_distance }),
            ..Layout::default()
        }
    }

    /// Speeds of about 1 MB a second: ratios of them are near 1.
    fn speeds(&mut self) -> Vec<Speed> {
        let spread = self.rng.random_range(0.001..2.0);
        let all: BTreeSet<u64> = SIZES_KIB_OF_AGING.iter().chain(&SMALL_KIB).copied().collect();
        let value = |doctor: &mut Self| 10f64.powf(doctor.rng.random_range(-spread..spread) / 4.0);
        let one = |kib| Speed { kib, write: value(self), read: value(self), score: self.score() };
        all.into_iter().map(one).collect()
    }

    fn history(&mut self) -> History {
        History {
            scores: (0..8).map(|_| self.score()).collect(),
            layout: self.layout(),
            full: 0.65,
            speeds: self.speeds(),
            ..History::default()
        }
    }

    fn life(&mut self) -> Life {
        let mut free = FreeSpace { partial_bytes: self.rng.random_range(0..60), ..FreeSpace::default() };
        free.add(1000);
        let rate = |doctor: &mut Self| doctor.rng.random_range(0.4..1.0);
        let hot = Hot {
            score: self.score(),
            split: self.rng.random_range(0..1000),
            read: rate(self),
            write: rate(self),
            ..Hot::default()
        };
        Life {
            scores: (0..8).map(|_| self.score()).collect(),
            layout: self.layout(),
            pairs: (self.score(), self.score()),
            free,
            empty: self.speeds(),
            aged: self.speeds(),
            hot,
            ..Life::default()
        }
    }

    fn outcome(&mut self, job: Job) -> Outcome {
        match job {
            Job::Small(..) => Outcome::Small(small_files::Rates {
                create: self.rate(),
                read: self.rate(),
                delete: self.rate(),
            }),
            Job::Faster(..) | Job::Uncleaned(..) | Job::Before(..) => Outcome::Rate(self.value()),
            Job::Large(..) => Outcome::Large(large_file::Figure {
                write: self.speed(),
                read: self.speed(),
                write_random: self.speed(),
                read_random: self.speed(),
                reread: self.speed(),
                segments_cleaned: self.count(),
            }),
            Job::Point(_, kib) => Outcome::Point(self.point(kib)),
            Job::Sized(..) => Outcome::Sized(Rates {
                create: self.value(),
                read: self.value(),
                overwrite: self.value(),
                delete: self.value(),
            }),
            Job::Reread(_) => Outcome::Reread(coalescing::Row {
                scene: Scene::File { bytes: 64 << 20, piece_bytes: 8 << 10, share_percent: 100 },
                first: self.reading(),
                scattered: self.reading(),
                coalesced: self.reading(),
                idle_busy_ms: self.value(),
                idle_read_bytes: self.count(),
                idle_write_bytes: self.count(),
                moved_bytes: self.count(),
                moved_again_bytes: self.count(),
            }),
            Job::Andrew(_) => Outcome::Andrew(Box::new(std::array::from_fn(|_| Mean {
                seconds: self.value(),
                reads: self.value(),
                writes: self.value(),
                write_bytes: self.value(),
            }))),
            Job::AndrewTogether(..) => Outcome::AndrewTogether(Together {
                seconds: self.value(),
                whole_seconds: self.value(),
                cpu_share: self.value(),
                reads: self.value(),
                writes: self.value(),
                seeks: self.value(),
            }),
            Job::TwoFiles(..) => Outcome::Work(self.work()),
            Job::Recovery(..) => Outcome::Seconds(self.value(), self.value()),
            Job::Load(..) => Outcome::Served(Box::new(self.served())),
            Job::Production(_) => Outcome::Production(Box::new(self.used())),
            Job::Trace(..) => Outcome::Trace(Box::new(self.replayed())),
            Job::Beyond(..) => Outcome::Trace(Box::new(self.replayed_otherwise())),
            Job::Aged(_) => Outcome::Aged(Box::new(self.aged())),
            Job::History => Outcome::History(Arc::new(self.history())),
            Job::Life(_) => Outcome::Life(Box::new(self.life())),
        }
    }
}

/// One trial.
pub(super) fn made_up(plan: &Plan) -> Runs {
    let mut doctor = Doctor { rng: seeded(1, "doctored"), same: None };
    Runs::made_up(plan.jobs.iter().map(|&job| (job, doctor.outcome(job))))
}

#[test]
fn every_claim_holds_for_some_measurements_and_fails_for_others() {
    let plan = Plan::all(Size::PAPER);
    let mut doctor = Doctor { rng: seeded(1, "doctored"), same: None };
    // By figure, place and words: how often it held, and how often it did not.
    let mut verdicts: BTreeMap<(&str, String), (usize, usize)> = BTreeMap::new();
    for _ in 0..TRIALS {
        doctor.begin();
        let runs = Runs::made_up(plan.jobs.iter().map(|&job| (job, doctor.outcome(job))));
        for unit in &plan.units {
            for claim in (unit.make)(&runs, &plan.size).unwrap().claims {
                let (held, failed) =
                    verdicts.entry((unit.id, format!("{}: {}", claim.place, claim.what))).or_default();
                *(if claim.holds() { held } else { failed }) += 1;
            }
        }
    }
    println!("{} claims", verdicts.len());
    let stiff: Vec<_> = verdicts.iter().filter(|(_, (held, failed))| *held == 0 || *failed == 0).collect();
    assert!(stiff.is_empty(), "no measurement changes the outcome of {stiff:#?}");
}
