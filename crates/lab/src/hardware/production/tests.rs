//! The made-up users do what is said of them, and a run on the log counts what happened.

use super::event::{Act, HOUR_S};
use super::*;
use firnfs::lfs::LogKind;
use std::collections::{BTreeMap, BTreeSet};

const DISK_BYTES: u64 = 512 << 20;
const HOUR_NS: u64 = HOUR_S as u64 * 1_000_000_000;

/// What a load comes to without a file system.
#[derive(Default)]
struct Followed {
    /// Directories with their files' number.
    directories: BTreeMap<u32, u32>,
    /// Existing files: their directory, and which bytes they have, or which pages.
    files: BTreeMap<u32, (u32, u64, BTreeSet<u64>)>,
    made: u64,
    made_bytes: u64,
    written_bytes: u64,
}

impl Followed {
    fn follow(&mut self, act: Act) {
        match act {
            Act::MakeDirectory(directory) => assert!(self.directories.insert(directory, 0).is_none()),
            Act::RemoveDirectory(directory) => assert_eq!(self.directories.remove(&directory), Some(0)),
            Act::Make { directory, file, bytes } => {
                *self.directories.get_mut(&directory).expect("the directory exists") += 1;
                assert!(self.files.insert(file, (directory, bytes, BTreeSet::new())).is_none());
                self.made += 1;
                self.made_bytes += bytes;
                self.written_bytes += bytes;
            }
            Act::Save { file, bytes } => {
                self.files.get_mut(&file).expect("the file exists").1 = bytes;
                self.written_bytes += bytes;
            }
            Act::Write { file, at_bytes, bytes } => {
                let (_, known, pages) = self.files.get_mut(&file).expect("the file exists");
                if pages.insert(at_bytes) {
                    *known += bytes;
                    self.made_bytes += bytes;
                }
                self.written_bytes += bytes;
            }
            Act::Delete(file) => {
                let (directory, ..) = self.files.remove(&file).expect("the file exists");
                *self.directories.get_mut(&directory).expect("the directory exists") -= 1;
            }
        }
    }

    fn live_bytes(&self) -> u64 {
        self.files.values().map(|(_, bytes, _)| bytes).sum()
    }
}

#[test]
fn users_write_as_much_as_table_2_says_and_keep_the_disk_as_full() {
    for load in &LOADS {
        let mut followed = Followed { directories: BTreeMap::from([(0, 0)]), ..Followed::default() };
        let disk_bytes = DISK_BYTES as f64;
        // Until the disk has been written twice, and then three times more.
        let mut last_ns = 0;
        let mut begin = None;
        let mut live = (0.0, 0.0);
        for (n, event) in load.events(DISK_BYTES, 1).enumerate() {
            assert!(event.at_ns >= last_ns, "{}: time goes back", load.name);
            last_ns = event.at_ns;
            followed.follow(event.act);
            match begin {
                None if followed.written_bytes as f64 > 2.0 * disk_bytes => {
                    begin = Some((event.at_ns, followed.written_bytes));
                }
                None => {}
                Some(_) if n % 1000 == 0 => live = (live.0 + followed.live_bytes() as f64, live.1 + 1.0),
                Some(_) => {}
            }
            if followed.written_bytes as f64 > 5.0 * disk_bytes {
                break;
            }
        }
        let (begin_ns, begin_bytes) = begin.unwrap();
        let hours = (last_ns - begin_ns) as f64 / HOUR_NS as f64;
        let mb_per_hour = (followed.written_bytes - begin_bytes) as f64 / f64::from(1 << 20) / hours;
        assert!((mb_per_hour / load.mb_per_hour - 1.0).abs() < 0.15, "{}: {mb_per_hour} MB/hour", load.name);
        let mean_kb = followed.made_bytes as f64 / followed.made as f64 / 1024.0;
        assert!((mean_kb / load.file_kb - 1.0).abs() < 0.15, "{}: files of {mean_kb} KB", load.name);
        // Files live for a week, so that their number varies.
        let in_use = live.0 / live.1 / disk_bytes;
        assert!((in_use / load.in_use - 1.0).abs() < 0.2, "{}: {in_use} in use", load.name);
    }
}

#[test]
fn the_same_seed_makes_the_same_events_and_another_one_others() {
    for load in &LOADS {
        let events = |seed| load.events(DISK_BYTES, seed).take(2000).collect::<Vec<_>>();
        assert_eq!(events(1), events(1), "{}", load.name);
        assert_ne!(events(1), events(2), "{}", load.name);
    }
}

#[test]
fn a_run_counts_what_the_log_did_and_two_runs_are_the_same() {
    let load = &LOADS[0];
    let length = Length { warm_up: 1.5, counted: 0.5, ..load.length(true) };
    let used = run(load, &length, 1).unwrap();
    assert_eq!(used, run(load, &length, 1).unwrap());
    let kinds = [
        used.log.log_file_bytes,
        used.log.log_directory_bytes,
        used.log.log_attributes_bytes,
        used.log.log_indirect_bytes,
        used.log.log_inode_bytes,
        used.log.log_inode_map_bytes,
        used.log.log_usage_table_bytes,
        used.log.log_summary_bytes,
    ];
    assert_eq!(kinds.iter().sum::<u64>(), used.log.log_bytes);
    // What users wrote reached the log, except for what they wrote twice, or deleted, within 30 s.
    let reached = (used.log.log_file_bytes - used.log.cleaner_moved_bytes) as f64 / used.user_bytes as f64;
    assert!((0.9..1.1).contains(&reached), "{reached}");
    assert!(used.log.segments_cleaned > 0 && used.log.segments_cleaned_empty > 0, "{:?}", used.log);
    assert!(used.utilisation() < 1.0 && used.write_cost() > 1.0);
    for segments in [&used.segments, &used.segments_at_end] {
        assert_eq!(segments.len(), BINS);
        assert!((segments.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
    // The segments' utilisations and the live bytes by kind are two views of the same.
    let mean = |segments: &[f64]| {
        segments.iter().enumerate().map(|(n, share)| (n as f64 + 0.5) / BINS as f64 * share).sum::<f64>()
    };
    assert!((mean(&used.segments) - used.in_use).abs() < 0.05, "{} {}", mean(&used.segments), used.in_use);
    let content = used.live.of(LogKind::File) as f64 / used.live.sum() as f64;
    assert!(content > 0.8, "{content}");
}

#[test]
fn the_write_cost_is_that_of_the_papers_formula() {
    // Table 2 from its own columns: share of empty ones, utilisation of the others, cost.
    for (empty, utilisation, cost) in
        [(69, 0.133, 1.4), (52, 0.137, 1.6), (83, 0.122, 1.2), (78, 0.130, 1.3), (66, 0.535, 1.6)]
    {
        let log = firnfs::lfs::Counters {
            segments_cleaned_empty: empty,
            segments_cleaned: 100 - empty,
            cleaner_moved_bytes: ((100 - empty) as f64 * utilisation * 1e6) as u64,
            ..firnfs::lfs::Counters::default()
        };
        let used = Used { log, segment_bytes: 1_000_000, ..Used::default() };
        assert!((used.write_cost() - cost).abs() < 0.05, "{} instead of {cost}", used.write_cost());
    }
}
