//! The cost of cleaning on a volume, as data: Tables 2 and 4 of the Sprite LFS paper (section 5.2) for any volume, since mkfs
//! since the mount and in the last minute; and where the space of the log is.

use firnfs::Outcome;
use firnfs::lfs::view::SegmentRoom;
use firnfs::lfs::{Counters, KindBytes, Lfs, LogKind, TakenSum, WhyTaken, Withheld};
use firnfs_format::TimeNs;
use firnfs_volume::Stalls;
use serde::{Deserialize, Serialize};

/// Where the bytes of a volume are. The numbers from `live_bytes` to `history_bytes` add up to `size_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoomView {
    /// Size of the volume.
    pub size_bytes: u64,
    /// Live in the present.
    pub live_bytes: u64,
    /// Dead (including summaries and padding) in segments that could be cleaned now.
    pub reclaimable_bytes: u64,
    /// Neither live nor free for now: the rest of segments that a log or a reader uses, and segments found empty that wait for
    /// checkpoints.
    pub pinned_bytes: u64,
    /// Clean segments that users' writes may take.
    pub clean_bytes: u64,
    /// Clean segments that users' writes leave to checkpoints and the cleaner.
    pub reserve_bytes: u64,
    /// Outside segments: superblocks, checkpoints, and the rest after the last segment.
    pub fixed_bytes: u64,
    /// Held by states of the past alone.
    #[serde(default)]
    pub history_bytes: u64,
    /// States of the past that are kept.
    #[serde(default)]
    pub retained_states: u64,
    /// Those of them that have a name: what these hold does not give way to users.
    #[serde(default)]
    pub named_states: u64,
    /// What the size that df shows leaves out of the segments; null from a daemon of an older version that did not report it.
    #[serde(default)]
    pub withheld: Option<WithheldView>,
}

/// Bytes in segments that df does not show, however full the volume is. With the fixed bytes they are the difference between the
/// size of the volume and the size that df shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WithheldView {
    /// For checkpoints and the cleaner.
    pub reserve_bytes: u64,
    /// Left free so that cleaning pays.
    pub cleaning_bytes: u64,
    /// Summaries of the log.
    pub summary_bytes: u64,
    /// Indirect blocks of files, and room for their dead versions.
    pub metadata_bytes: u64,
}

impl From<Withheld> for WithheldView {
    fn from(withheld: Withheld) -> Self {
        let Withheld { reserve_bytes, cleaning_bytes, summary_bytes, metadata_bytes } = withheld;
        Self { reserve_bytes, cleaning_bytes, summary_bytes, metadata_bytes }
    }
}

impl RoomView {
    /// The view of a volume before any segment is counted.
    pub fn new(lfs: &Lfs) -> Self {
        let geometry = lfs.geometry();
        let size_bytes = lfs.superblock().size_bytes;
        let in_segments = geometry.segments * u64::from(geometry.segment_bytes);
        let fixed_bytes = size_bytes.saturating_sub(in_segments);
        Self { size_bytes, fixed_bytes, withheld: Some(lfs.withheld().into()), ..Self::default() }
    }

    /// Counts a segment.
    pub fn add(&mut self, room: &SegmentRoom) {
        self.live_bytes += room.live_bytes;
        self.reclaimable_bytes += room.dead_bytes;
        self.pinned_bytes += room.pinned_bytes;
        self.clean_bytes += room.clean_bytes;
    }

    /// Takes what only the past holds from what is live, once all segments are counted.
    ///
    /// # Errors
    /// `Need`.
    pub fn set_history(&mut self, lfs: &mut Lfs) -> Outcome<()> {
        let points = lfs.points()?;
        self.retained_states = points.len() as u64;
        self.named_states = points.iter().filter(|point| !point.is_automatic).count() as u64;
        self.history_bytes = lfs.past_bytes().min(self.live_bytes);
        self.live_bytes -= self.history_bytes;
        Ok(())
    }

    /// Subtracts the reserve, once all segments are counted. It is at most the clean space.
    pub fn set_reserve(&mut self, reserve_bytes: u64) {
        self.reserve_bytes = reserve_bytes.min(self.clean_bytes);
        self.clean_bytes -= self.reserve_bytes;
    }
}

/// Table 2: what was cleaned, and the cost. Shares are from 0 to 1, or null if there is nothing to take a share of.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CleanedView {
    /// Bytes written to the log, summaries and padding included.
    pub log_bytes: u64,
    /// The part of it that users caused: what they wrote, with its metadata and summaries.
    pub new_bytes: u64,
    /// The other part: what cleaning and coalescing moved, the metadata that leads to it, the tables of checkpoints written to gain
    /// room, and summaries. Versions that did not count it count only what was moved.
    #[serde(default)]
    pub upkeep_bytes: u64,
    /// Bytes of content that users wrote; null from a daemon of an older version that did not report it.
    #[serde(default)]
    pub user_bytes: Option<u64>,
    /// Bytes written to the log and read by the cleaner for each byte that users wrote. It includes all metadata, that of the
    /// cleaner too, and overwrites that memory absorbed.
    #[serde(default)]
    pub cost_per_user_byte: Option<f64>,
    /// Bytes written to the log for each byte that users wrote; reads do not count.
    #[serde(default)]
    pub write_amplification: Option<f64>,
    /// Segments that became clean: the sum of the next three.
    pub segments_cleaned: u64,
    /// Those of them that checkpoints found empty: all their blocks had died.
    pub segments_empty: u64,
    /// The others, cleaned after two seconds without requests.
    pub segments_background: u64,
    /// The others, cleaned while users were active, or waited for room.
    pub segments_on_demand: u64,
    /// Share of the last two that was cleaned in the background; null from a daemon of an older version that did not report it.
    #[serde(default)]
    pub background_share: Option<f64>,
    /// Share of the segments cleaned that was empty.
    pub empty_share: Option<f64>,
    /// Mean share of live bytes in the others.
    pub utilisation: Option<f64>,
    /// Segments of which the cleaner read only the summaries and what is live.
    #[serde(default)]
    pub segments_read_in_part: u64,
    /// Bytes that the cleaner read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Live bytes that it found and moved.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Bytes read for each byte moved.
    #[serde(default)]
    pub read_per_moved: Option<f64>,
    /// Write cost as in the paper's Table 2, where the others are read whole: bytes read and written for each byte of new data
    /// once as much is cleaned as is written. 1 is perfect.
    pub write_cost: Option<f64>,
    /// Bytes read by the cleaner plus all bytes written, for each byte of new data so far.
    pub measured_cost: Option<f64>,
    /// Bytes rewritten to put files in order.
    #[serde(default)]
    pub coalesced_bytes: u64,
    /// Files put in order.
    #[serde(default)]
    pub coalesced_files: u64,
}

impl CleanedView {
    fn of(counters: &Counters, segment_bytes: u64) -> Self {
        let by_cleaner = counters.segments_cleaned;
        let segments_cleaned = by_cleaner + counters.segments_cleaned_empty;
        let new_bytes = counters.new_bytes();
        let empty_share = share(counters.segments_cleaned_empty, segments_cleaned);
        let background = by_cleaner.saturating_sub(counters.segments_cleaned_on_demand);
        let utilisation = share(counters.cleaner_moved_bytes, by_cleaner * segment_bytes);
        Self {
            log_bytes: counters.log_bytes,
            new_bytes,
            upkeep_bytes: counters.log_bytes - new_bytes,
            user_bytes: Some(counters.user_bytes),
            cost_per_user_byte: share(
                counters.log_bytes.saturating_add(counters.cleaner_read_bytes),
                counters.user_bytes,
            ),
            write_amplification: share(counters.log_bytes, counters.user_bytes),
            segments_cleaned,
            segments_empty: counters.segments_cleaned_empty,
            segments_background: background,
            segments_on_demand: counters.segments_cleaned_on_demand,
            background_share: share(background, by_cleaner),
            empty_share,
            utilisation,
            segments_read_in_part: counters.segments_read_in_part,
            read_bytes: counters.cleaner_read_bytes,
            moved_bytes: counters.cleaner_moved_bytes,
            read_per_moved: share(counters.cleaner_read_bytes, counters.cleaner_moved_bytes),
            write_cost: empty_share.and_then(|empty| write_cost(empty, utilisation.unwrap_or(0.0))),
            measured_cost: share(counters.log_bytes.saturating_add(counters.cleaner_read_bytes), new_bytes),
            coalesced_bytes: counters.coalesced_bytes,
            coalesced_files: counters.coalesced_files,
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Sprite LFS, formula 1 of section 3.4, with empty segments that need not be read. Of N segments a share `empty` costs
/// nothing; the others are read whole, their live share is rewritten, and the rest is written with new data. `None` if there is
/// no rest.
fn write_cost(empty: f64, utilisation: f64) -> Option<f64> {
    let full = 1.0 - empty;
    let gained = 1.0 - full * utilisation;
    (gained > 0.0).then(|| 1.0 + full * (1.0 + utilisation) / gained)
}

/// Table 4: one kind of blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KindView {
    /// `file`, `directory`, `attributes`, `indirect`, `inode`, `inode_map`, `usage_table`; `summary` (including padding), of
    /// which nothing is ever live; `not_told_apart`: written by versions that did not count by kind.
    pub kind: String,
    /// Live bytes; null on a volume of a version that did not record them.
    pub live_bytes: Option<u64>,
    /// Bytes written to the log since mkfs.
    pub log_bytes: u64,
    /// Bytes written to the log since the mount; null if it is not mounted for writing.
    pub log_bytes_since_mount: Option<u64>,
}

/// How long operations waited for room since the mount.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct StallsView {
    /// Operations that waited.
    pub count: u64,
    /// Their total waiting time, in milliseconds.
    pub total_ms: f64,
    /// The longest wait, in milliseconds.
    pub longest_ms: f64,
    /// The wait, in milliseconds, that half of them did not exceed, at most a quarter too large; null if none waited, and from a
    /// daemon of an older version.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// The same of 99 in 100.
    #[serde(default)]
    pub p99_ms: Option<f64>,
}

impl From<Stalls> for StallsView {
    fn from(stalls: Stalls) -> Self {
        let millis = |ns: u64| ns as f64 / 1e6;
        Self {
            count: stalls.count,
            total_ms: millis(stalls.total_ns),
            longest_ms: millis(stalls.longest_ns),
            p50_ms: stalls.p50_ns.map(millis),
            p99_ms: stalls.p99_ns.map(millis),
        }
    }
}

/// The last minute.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecentView {
    /// How long it really is, in milliseconds: less on a young mount, more after a rest.
    pub window_ms: u64,
    /// What was cleaned in it, and the cost.
    pub cleaned: CleanedView,
}

/// The victims that the cleaner took for one reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReasonView {
    /// `policy`: the policy chose them while users were active; `idle`: it chose them in idle time; `emptiest`: room was short,
    /// or the policy's choice would have gained nothing; `leaving`: they lay at the end of a volume that was to become smaller;
    /// `asked`: a cleaner outside the file system chose them.
    pub reason: String,
    /// How many.
    pub segments: u64,
    /// Their live bytes when they were chosen.
    pub live_bytes: u64,
    /// Mean share of live bytes, from 0 to 1; null if there are none.
    pub utilisation: Option<f64>,
}

/// Everything about cleaning.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CleaningView {
    /// Since mkfs; without what crashed mounts had counted since their last checkpoint.
    pub since_mkfs: CleanedView,
    /// Since the mount; null if it is not mounted for writing.
    pub since_mount: Option<CleanedView>,
    /// The last minute; null if it is not mounted for writing, and from a daemon of an older version.
    #[serde(default)]
    pub recent: Option<RecentView>,
    /// The victims since the mount, by reason; null if it is not mounted for writing, and from a daemon of an older version.
    #[serde(default)]
    pub victims_by_reason: Option<Vec<ReasonView>>,
    /// Live bytes, and bytes written to the log, by kind of block.
    pub kinds: Vec<KindView>,
    /// The stalls since the mount; null if it is not mounted for writing.
    pub stalls: Option<StallsView>,
}

impl CleaningView {
    /// The view of an open volume.
    pub fn of(lfs: &Lfs, stalls: Stalls, now: TimeNs) -> Self {
        let segment_bytes = u64::from(lfs.geometry().segment_bytes);
        let is_written = !lfs.options().read_only;
        let recent = if is_written { lfs.counters_lately(now) } else { None };
        let mount = is_written.then(|| lfs.counters_since_mount());
        Self {
            since_mkfs: CleanedView::of(lfs.counters(), segment_bytes),
            since_mount: mount.map(|counters| CleanedView::of(&counters, segment_bytes)),
            recent: recent.map(|recent| RecentView {
                window_ms: recent.window_ms,
                cleaned: CleanedView::of(&recent.counters, segment_bytes),
            }),
            victims_by_reason: is_written
                .then(|| WhyTaken::ALL.map(|why| reason(lfs, why, segment_bytes)).to_vec()),
            kinds: kinds(lfs.counters(), mount.as_ref(), lfs.live_kinds()),
            stalls: is_written.then(|| stalls.into()),
        }
    }
}

fn reason(lfs: &Lfs, why: WhyTaken, segment_bytes: u64) -> ReasonView {
    let TakenSum { segments, live_bytes } = lfs.taken_for(why);
    let utilisation = share(live_bytes, segments * segment_bytes);
    ReasonView { reason: why.name().to_owned(), segments, live_bytes, utilisation }
}

fn kinds(mkfs: &Counters, mount: Option<&Counters>, live: Option<KindBytes>) -> Vec<KindView> {
    let row = |kind: &str, live_bytes, log_bytes: &dyn Fn(&Counters) -> u64| KindView {
        kind: kind.to_owned(),
        live_bytes,
        log_bytes: log_bytes(mkfs),
        log_bytes_since_mount: mount.map(log_bytes),
    };
    let mut rows: Vec<_> = LogKind::ALL
        .into_iter()
        .map(|kind| row(kind.name(), live.map(|live| live.of(kind)), &|c| c.log_kind_bytes(kind)))
        .collect();
    rows.push(row("summary", live.map(|_| 0), &|c| c.log_summary_bytes));
    let told: u64 = rows.iter().map(|row| row.log_bytes).sum();
    if mkfs.log_bytes > told {
        rows.push(KindView {
            kind: "not_told_apart".to_owned(),
            live_bytes: None,
            log_bytes: mkfs.log_bytes - told,
            log_bytes_since_mount: mount.map(|_| 0),
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The five rows of the paper's Table 2: share empty, utilisation of the rest, published write cost.
    #[test]
    fn the_write_costs_of_the_papers_table_2_come_out() {
        for (empty, utilisation, published) in [
            (0.69, 0.133, 1.4),
            (0.52, 0.137, 1.6),
            (0.83, 0.122, 1.2),
            (0.78, 0.130, 1.3),
            (0.66, 0.535, 1.6),
        ] {
            let cost = write_cost(empty, utilisation).unwrap();
            assert!((cost - published).abs() <= 0.051, "{cost} for {published}");
        }
        assert_eq!(write_cost(1.0, 0.0), Some(1.0));
        assert_eq!(write_cost(0.0, 1.0), None);
    }

    #[test]
    fn counts_of_a_version_that_did_not_tell_kinds_apart_are_not_lost() {
        let counters =
            Counters { log_bytes: 1000, log_file_bytes: 300, log_summary_bytes: 50, ..Counters::default() };
        let rows = kinds(&counters, None, None);
        assert_eq!(rows.iter().map(|row| row.log_bytes).sum::<u64>(), 1000);
        assert_eq!(rows.last().map(|row| (row.kind.as_str(), row.log_bytes)), Some(("not_told_apart", 650)));
        assert!(rows.iter().all(|row| row.live_bytes.is_none()));
    }

    #[test]
    fn a_reserve_larger_than_what_is_clean_takes_all_of_it() {
        let mut room = RoomView { clean_bytes: 100, ..RoomView::default() };
        room.set_reserve(300);
        assert_eq!((room.clean_bytes, room.reserve_bytes), (0, 100));
    }
}
