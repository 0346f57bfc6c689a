//! `firn fsck --salvage OUT`: reconstructs a volume from its log, in a new image.

use super::view::{CheckView, FsckView, PastView, RepairView};
use super::{CORRECTED, FsckArgs, UNCORRECTED, impossible, lost, open, show};
use crate::failure::{Done, Failure};
use crate::history::states_of_volume;
use crate::interrupt::HalfMade;
use crate::mkfs::{fill_random, narrow, open_failed};
use crate::progress::Bar;
use crate::volume::{AnyVolume, open_any_read_only};
use firnfs::FsError;
use firnfs::check::Finding;
use firnfs::check::salvage::Assumed;
use firnfs::lfs::Lfs;
use firnfs::store::Store;
use firnfs_device::{Access, Clock, Device, FileDevice, FileOptions, ReadOnlyDevice, SystemClock};
use firnfs_format::{Epoch, TimeNs};
use firnfs_manage::{put_together, write_salvaged};
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;

/// Runs it.
///
/// # Errors
/// There is no log, `out` exists, or reading or writing fails.
pub fn run(args: &FsckArgs, out: &Path) -> Done<FsckView> {
    if out.exists() {
        return Err(Failure::usage(format!("{} exists", out.display())).advise("name a new image"));
    }
    let half_made = HalfMade::watch()?;
    let source = ReadOnlyDevice::new(open(&args.image, Access::ReadOnly)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let assumed = assumed(args, &*clock)?;
    let bar = Bar::of_bytes();
    let together = put_together(&source, &assumed, &mut |progress| show(&bar, progress));
    let cannot = |e| Failure::failed(format!("cannot salvage {}: {e}", args.image.display()));
    let together = together.map_err(cannot)?;
    let size_bytes = together.superblock.size_bytes;
    let device = half_made.make(out, || {
        FileDevice::create(out, size_bytes, &FileOptions::default()).map_err(|e| open_failed(&e))
    })?;
    let device: Arc<dyn Device> = Arc::new(device);
    let mut decide = |finding: &Finding| args.zero_lost || finding.lost_bytes == 0;
    let watch = &mut |progress| show(&bar, progress);
    let written = write_salvaged(&source, together, &device, &clock, &mut decide, watch);
    drop(bar);
    // Half a volume is of no use, and the next attempt wants a new file.
    let repaired = written.map_err(|e| impossible(out, &e))?;
    half_made.keep();
    let left = if repaired.after.is_clean() { 0 } else { UNCORRECTED };
    let past = past_of(&args.image);
    Ok(FsckView {
        image: out.to_owned(),
        checks: vec![CheckView::new(&repaired.after, None)],
        repairs: repaired.actions.iter().map(|action| RepairView::new(action, args)).collect(),
        lost: lost::of_repair(&repaired),
        past,
        exit: CORRECTED | left,
    })
}

/// The states of the damaged volume that can still be read, if a superblock and a checkpoint tell of them.
fn past_of(image: &Path) -> Option<PastView> {
    let AnyVolume::Log(volume) = open_any_read_only(image).ok()? else { return None };
    let points = states_of_volume(&volume).ok()?.points;
    let (bar, all) = (Bar::of_steps(), points.len() as u64);
    let whole = (0..).zip(points).filter(|(done, point)| {
        bar.show(*done, all, "states of the past");
        has_names(&volume, Epoch(point.epoch)).is_ok()
    });
    let states: Vec<String> = whole.map(|(_, point)| point.name).collect();
    (!states.is_empty()).then(|| PastView { image: image.to_owned(), states })
}

/// Lists the root directory of a state.
fn has_names(volume: &Volume<Lfs>, state: Epoch) -> Result<(), FsError> {
    volume.run_quietly(|vfs, now| {
        let root = vfs.store_mut().look_into(state)?;
        vfs.readdir(now, root, 0, &mut |_| true)
    })
}

fn assumed(args: &FsckArgs, clock: &dyn Clock) -> Done<Assumed> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| random[at + i]));
    let narrowed = |size: Option<u64>, option| size.map(|bytes| narrow(bytes, option)).transpose();
    Ok(Assumed {
        block_bytes: narrowed(args.block_size, "--block-size")?,
        segment_bytes: narrowed(args.segment_size, "--segment-size")?,
        hash_key: [word(0), word(8)],
        now: TimeNs(clock.now_ns()),
    })
}
