//! Content that cannot be read, where the repair is not to fill it with zeros.

use crate::fsck::fixture::{BLOCK, Fixture, clock, pattern};
use firnfs::FsError;
use firnfs::check::Finding;
use firnfs::store::Fork;
use firnfs_format::InodeNo;
use firnfs_manage::{Outcome, Repaired, repair};

fn repair_but_content(fixture: &Fixture) -> Repaired {
    let mut decide = |finding: &Finding| finding.lost_bytes == 0;
    repair(&fixture.device, &clock(), &mut decide, &mut |_| {}).unwrap()
}

/// Reads a block of a path.
fn read(fixture: &Fixture, path: &str, block: usize) -> Result<Vec<u8>, FsError> {
    let ino = fixture.ino(path);
    fixture.with_volume(|volume| {
        let mut content = vec![0; BLOCK];
        volume.read(ino, (block * BLOCK) as u64, &mut content).map(|_| content)
    })
}

fn codes_of(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.describe().code).collect()
}

#[test]
fn a_finding_says_how_many_bytes_of_which_file_it_costs() {
    let fixture = Fixture::new();
    let damaged = [("dir/blocks", 0, 3), ("dir/sub/large", 1, 1), ("dir/sub/large", 0, 2), ("wide", 0, 0)];
    let ptrs = damaged.map(|(path, level, index)| fixture.block(path, Fork::Data, level, index));
    ptrs.iter().for_each(|ptr| fixture.damage(ptr));
    let lost = |path: &str| {
        let report = fixture.check();
        let of_path = report.findings.iter().filter(|f| f.path.as_deref() == Some(path.as_bytes()));
        of_path.map(|finding| finding.lost_bytes).sum::<u64>()
    };
    assert_eq!(lost("/dir/blocks"), BLOCK as u64);
    // All blocks after the first 268, of a file of 400 blocks and 77 bytes, and one more.
    assert_eq!(lost("/dir/sub/large"), (133 * BLOCK + 77) as u64);
    assert_eq!(lost("/wide"), 0, "a directory is repaired");
}

#[test]
fn a_block_that_is_left_goes_on_to_fail_and_everything_else_is_repaired() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/blocks", Fork::Data, 0, 3));
    fixture.edit_inode("small", |inode| inode.nlink = 7);
    let repaired = repair_but_content(&fixture);
    let outcomes: Vec<_> = repaired.actions.iter().map(|action| &action.outcome).collect();
    assert_eq!(outcomes, [&Outcome::Declined, &Outcome::Repaired]);
    assert_eq!(codes_of(&repaired.after.findings), ["block-damaged"]);
    assert!(matches!(read(&fixture, "dir/blocks", 3), Err(FsError::Corrupt { .. })));
    assert_eq!(read(&fixture, "dir/blocks", 4).unwrap(), pattern(1, 8 * BLOCK)[4 * BLOCK..5 * BLOCK]);

    let ino = fixture.ino("dir/blocks");
    fixture.with_volume(|volume| volume.write_all(ino, 3 * BLOCK as u64, &[7; BLOCK], false)).unwrap();
    assert!(fixture.check().is_clean(), "a block written anew is whole");
}

#[test]
fn a_volume_with_nothing_but_lost_content_is_not_written_to() {
    let fixture = Fixture::new();
    let ptrs = [("dir/blocks", 0, 3), ("dir/sub/large", 1, 1)];
    let ptrs = ptrs.map(|(path, level, index)| fixture.block(path, Fork::Data, level, index));
    ptrs.iter().for_each(|ptr| fixture.damage(ptr));
    let whole = || fixture.read(0, crate::fsck::fixture::SIZE_BYTES as usize);
    let before = whole();
    assert_eq!(repair_but_content(&fixture).actions.len(), 2);
    assert!(whole() == before);
}

#[test]
fn blocks_below_an_unreadable_one_stay_on_the_accounts_until_they_are_given_up() {
    let fixture = Fixture::new();
    let ptr = fixture.block("dir/sub/large", Fork::Data, 1, 1);
    let live_bytes = fixture.checkpoint().live_bytes;
    let charged = |fixture: &Fixture| {
        fixture.with_volume(|v| {
            v.run(|vfs, _| vfs.getattr(fixture.ino("dir/sub/large"))).unwrap().allocated_bytes
        })
    };
    let before = charged(&fixture);
    fixture.damage(&ptr);
    fixture.edit_inode("small", |inode| inode.nlink = 7);
    let repaired = repair_but_content(&fixture);
    assert_eq!(codes_of(&repaired.after.findings), ["block-damaged"]);
    assert!(matches!(read(&fixture, "dir/sub/large", 300), Err(FsError::Corrupt { .. })));
    assert_eq!(charged(&fixture), before);
    assert!(fixture.checkpoint().live_bytes.abs_diff(live_bytes) < 64 << 10, "nothing was given up");

    // The device can read it again: nothing was lost.
    fixture.damage(&ptr);
    assert!(fixture.check().is_clean(), "{:#?}", fixture.check().findings);
    let large = pattern(2, 400 * BLOCK + 77);
    assert_eq!(read(&fixture, "dir/sub/large", 300).unwrap(), large[300 * BLOCK..301 * BLOCK]);
}

#[test]
fn a_file_with_lost_content_can_be_removed_and_the_next_repair_gives_its_space_back() {
    let fixture = Fixture::new();
    let live_bytes = fixture.checkpoint().live_bytes;
    fixture.damage(&fixture.block("dir/sub/large", Fork::Data, 1, 1));
    repair_but_content(&fixture);
    fixture.with_volume(|volume| {
        let dir = fixture.ino("dir/sub");
        volume.run(|vfs, now| vfs.unlink(now, dir, b"large")).unwrap();
    });
    let repaired = repair_but_content(&fixture);
    assert!(repaired.after.is_clean(), "{:#?}", repaired.after.findings);
    // The repair leaves an orphan, which the next mount frees.
    fixture.with_volume(|volume| assert!(volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT)).is_ok()));
    let report = fixture.check();
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert!(live_bytes - fixture.checkpoint().live_bytes > 390 * BLOCK as u64, "its space is free");
}

#[test]
fn content_that_is_left_beside_wrong_accounts_goes_on_to_fail() {
    let fixture = Fixture::new();
    fixture.damage(&fixture.block("dir/sub/large", Fork::Data, 1, 1));
    fixture.damage(&fixture.checkpoint().usage.ptr);
    let repaired = repair_but_content(&fixture);
    assert_eq!(codes_of(&repaired.after.findings), ["block-damaged"], "{:#?}", repaired.actions);
    assert!(matches!(read(&fixture, "dir/sub/large", 300), Err(FsError::Corrupt { .. })));
    assert_eq!(read(&fixture, "dir/sub/large", 3).unwrap(), pattern(2, 4 * BLOCK)[3 * BLOCK..]);
}
