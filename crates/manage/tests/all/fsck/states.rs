//! Each retained point checked as a volume of its own: what only such a check finds, and that it finds nothing else.

use crate::fsck::fixture::Fixture;
use crate::fsck::points::{BLOCKS, find, make_point, with_points};
use firnfs::check::{Finding, Report};
use firnfs::lfs::Lfs;
use firnfs::states::is_past;
use firnfs::store::{Intent, OpKind, Store};
use firnfs_format::InodeNo;
use firnfs_manage::check_all_points;
use firnfs_volume::Volume;

fn check_all(fixture: &Fixture) -> Report {
    check_all_points(&*fixture.device, &mut |_| {}).unwrap()
}

/// Codes and paths.
fn told(findings: &[Finding]) -> Vec<(&'static str, String)> {
    let path =
        |finding: &Finding| String::from_utf8_lossy(finding.path.as_deref().unwrap_or_default()).into_owned();
    findings.iter().map(|finding| (finding.describe().code, path(finding))).collect()
}

fn set_links(volume: &Volume<Lfs>, ino: InodeNo, nlink: u32) {
    let set = volume.run(|vfs, now| {
        let store = vfs.store_mut();
        let mut op = store.begin(now, OpKind::Names, &[Intent::Change { ino, grow_bytes: 0 }])?;
        store.inode_mut(&mut op, ino).nlink = nlink;
        store.end(op);
        Ok(())
    });
    set.unwrap();
}

#[test]
fn whole_states_are_clean_and_counted() {
    let fixture = with_points();
    let usual = fixture.check();
    let mut seen = Vec::new();
    let report = check_all_points(&*fixture.device, &mut |progress| seen.extend(progress.points)).unwrap();
    assert_eq!((told(&report.findings), report.totals.points), (vec![], 2));
    assert!(seen.contains(&(0, 2)) && seen.contains(&(1, 2)), "{seen:?}");
    assert_eq!(usual.totals.inodes, report.totals.inodes, "the totals are those of the volume");
    // Content that the present does not share is read once more, besides maps, records and directories.
    let read_bytes = (usual.totals.read_bytes, report.totals.read_bytes);
    assert!(read_bytes.1 > read_bytes.0 && read_bytes.1 < 3 * read_bytes.0, "{read_bytes:?}");
}

#[test]
fn a_wrong_count_of_the_past_is_found_by_this_check_alone() {
    let mut fixture = with_points();
    fixture.tree = fixture.with_volume(|volume| {
        let file = find(volume, BLOCKS);
        set_links(volume, file, 5);
        make_point(volume, "wrong");
        set_links(volume, file, 1);
        make_point(volume, "right");
        crate::fsck::fixture::walk(volume)
    });
    assert!(fixture.codes().is_empty(), "the present is sound");
    let report = check_all(&fixture);
    assert_eq!(told(&report.findings), [("link-count", "/.firn/history/wrong/dir/blocks".to_owned())]);
    assert!(is_past(report.findings[0].ino.unwrap()) && report.totals.points == 4);
    let repair = report.findings[0].describe().repair;
    assert!(repair.starts_with("none:"), "{repair}");
}

#[test]
fn a_damaged_block_that_states_share_with_the_present_is_told_of_the_oldest_of_them() {
    let fixture = with_points();
    let block = fixture.with_volume(|volume| {
        let ino = find(volume, "dir/sub/deep/deep file");
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
        blocks.iter().find(|placed| placed.key.level == 0).unwrap().ptr
    });
    fixture.damage(&block);
    let of_present = ("block-damaged", "/dir/sub/deep/deep file".to_owned());
    assert_eq!(told(&fixture.check().findings), std::slice::from_ref(&of_present));
    let report = check_all(&fixture);
    let of_first = ("block-damaged", "/.firn/history/first/dir/sub/deep/deep file".to_owned());
    assert_eq!(told(&report.findings), [of_present, of_first]);
    let lost: Vec<u64> = report.findings.iter().map(|finding| finding.lost_bytes).collect();
    assert!(lost[0] > 0 && lost[1] == 0, "a repair has nothing to do with the second");
}
