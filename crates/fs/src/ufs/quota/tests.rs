//! Limits, grace times and tables, without a store.

use super::table::{IDS_MAX, Limit, Limits, Table};
use super::*;

const DAY_S: i64 = 24 * 60 * 60;

fn at_s(seconds: i64) -> TimeNs {
    TimeNs(seconds * 1_000_000_000)
}

fn owner(uid: u32, gid: u32) -> Owner {
    Owner { uid, gid }
}

fn charge(uid: u32, bytes: u64, inodes: u64) -> Charge {
    Charge { owner: owner(uid, 100), bytes, allocated_bytes: bytes, inodes }
}

/// Quotas of one user with these limits, counted: he has one inode with so many bytes.
fn counted(limits: Limits, bytes: u64) -> Quotas {
    let mut tables = <[Table; 2]>::default();
    tables[0].set(7, limits).unwrap();
    let mut quotas = Quotas::new(tables);
    assert!(quotas.admit(at_s(0), &[charge(7, u64::MAX, 9)]).is_ok(), "nothing is refused before the count");
    assert_eq!(quotas.count(at_s(0), &[(owner(7, 100), bytes)], None), Some(Vec::new()));
    quotas
}

/// An operation that changes what the inode has.
fn change(quotas: &mut Quotas, now: TimeNs, from: u64, to: u64) {
    quotas.open.note(InodeNo(9), owner(7, 100));
    quotas.open.note_charges(|_| from);
    quotas.end(now, None, |_| to);
    quotas.open.clear();
}

fn limit(soft: u64, hard: u64) -> Limit {
    Limit { soft, hard, deadline: None }
}

#[test]
fn a_hard_limit_is_reached_but_never_exceeded() {
    let quotas = counted(Limits { bytes: limit(0, 100), inodes: limit(0, 2) }, 60);
    let admit = |bytes, inodes| quotas.admit(at_s(1), &[charge(7, bytes, inodes)]);
    assert!(admit(40, 1).is_ok());
    assert_eq!(admit(41, 0), Err(FsError::OverQuota));
    assert_eq!(admit(0, 2), Err(FsError::OverQuota));
    assert_eq!(
        quotas.admit(at_s(1), &[charge(7, 30, 0), charge(7, 30, 0)]),
        Err(FsError::OverQuota),
        "charges of one operation are added up"
    );
    assert!(quotas.admit(at_s(1), &[charge(8, 1000, 1000)]).is_ok(), "another user");
}

#[test]
fn a_soft_limit_may_be_exceeded_until_its_grace_time_is_over() {
    let mut quotas = counted(Limits { bytes: limit(50, 100), inodes: limit(0, 0) }, 40);
    let refused = |quotas: &Quotas, now| quotas.admit(now, &[charge(7, 1, 0)]).is_err();
    change(&mut quotas, at_s(DAY_S), 40, 50);
    assert_eq!(quotas.tables[0].limits[&7].bytes.deadline, None, "at the limit is not above it");
    change(&mut quotas, at_s(DAY_S), 50, 60);
    assert_eq!(quotas.tables[0].limits[&7].bytes.deadline, Some(at_s(8 * DAY_S)));
    assert!(quotas.is_unsaved);
    assert!(!refused(&quotas, at_s(8 * DAY_S - 1)));
    assert!(refused(&quotas, at_s(8 * DAY_S)));
    assert!(quotas.admit(at_s(9 * DAY_S), &[charge(7, 0, 1)]).is_ok(), "an empty file takes no space");
    change(&mut quotas, at_s(9 * DAY_S), 60, 55);
    assert!(refused(&quotas, at_s(9 * DAY_S)), "still above the soft limit");
    change(&mut quotas, at_s(9 * DAY_S), 55, 50);
    assert!(!refused(&quotas, at_s(9 * DAY_S)));
    change(&mut quotas, at_s(10 * DAY_S), 50, 51);
    assert_eq!(quotas.tables[0].limits[&7].bytes.deadline, Some(at_s(17 * DAY_S)), "another grace time");
}

#[test]
fn a_chown_moves_usage_and_is_refused_to_the_new_owner_alone() {
    let mut quotas = counted(Limits { bytes: limit(0, 100), inodes: limit(0, 0) }, 60);
    quotas.open.note(InodeNo(20), owner(8, 100));
    quotas.open.note_charges(|_| 41);
    quotas.open.note_transfer(InodeNo(20), owner(7, 100));
    assert_eq!(quotas.admit(at_s(1), &[]), Err(FsError::OverQuota));
    quotas.open.note_charges(|_| 40);
    assert!(quotas.admit(at_s(1), &[]).is_ok());
    quotas.usage[0].insert(8, Usage { bytes: 40, inodes: 1 });
    quotas.end(at_s(1), None, |_| 40);
    assert_eq!(quotas.usage(Class::User, 7), Usage { bytes: 100, inodes: 2 });
    assert_eq!(quotas.usage(Class::User, 8), Usage::default());
    assert_eq!(quotas.usage(Class::Group, 100), Usage { bytes: 60, inodes: 1 }, "the group stays");
}

#[test]
fn a_chgrp_does_not_end_the_users_grace_time() {
    let mut quotas = counted(Limits { bytes: limit(50, 100), inodes: limit(0, 0) }, 60);
    let before = quotas.tables[0].limits[&7].bytes.deadline;
    assert!(before.is_some());
    quotas.open.note(InodeNo(9), owner(7, 100));
    quotas.open.note_charges(|_| 60);
    quotas.open.note_transfer(InodeNo(9), owner(7, 101));
    quotas.end(at_s(5), None, |_| 60);
    assert_eq!(quotas.tables[0].limits[&7].bytes.deadline, before);
}

#[test]
fn a_count_in_steps_sees_what_changes_meanwhile_once() {
    let mut quotas = Quotas::new(<[Table; 2]>::default());
    assert_eq!(quotas.count(at_s(0), &[(owner(7, 1), 10)], Some(InodeNo(50))), None);
    // One below the place where the count goes on, and one beyond it.
    for (ino, to) in [(InodeNo(9), 15), (InodeNo(60), 99)] {
        quotas.open.note(ino, owner(7, 1));
        quotas.open.note_charges(|_| 10);
        quotas.end(at_s(0), None, |_| to);
        quotas.open.clear();
    }
    assert_eq!(quotas.count(at_s(0), &[(owner(7, 1), 99)], None), Some(Vec::new()));
    assert_eq!(quotas.usage(Class::User, 7), Usage { bytes: 114, inodes: 2 });
    quotas.doctor(Class::User, 7, Usage { bytes: 1, inodes: 2 });
    quotas.start_count();
    let sums = [(owner(7, 1), 15), (owner(7, 1), 99)];
    let counted = Usage { bytes: 114, inodes: 2 };
    let kept = Usage { bytes: 1, inodes: 2 };
    let difference = Difference { class: Class::User, id: 7, kept, counted };
    assert_eq!(quotas.count(at_s(0), &sums, None), Some(vec![difference]));
    assert_eq!(quotas.usage(Class::User, 7), counted);
}

#[test]
fn tables_read_back_and_reject_whatever_else_they_are_given() {
    let mut table = Table { is_on: true, grace_s: [5, 6], ..Table::default() };
    let with_deadline = Limit { soft: 1, hard: 2, deadline: Some(TimeNs(-3)) };
    for id in 1..=IDS_MAX as u32 {
        table.set(id * 3, Limits { bytes: with_deadline, inodes: limit(4, 0) }).unwrap();
    }
    assert_eq!(table.set(1, Limits { bytes: limit(1, 1), ..Default::default() }), Err(FsError::NoSpace));
    let bytes = table.encode();
    assert!(bytes.len() <= crate::ufs::xattr::VALUE_MAX_BYTES);
    assert_eq!(Table::decode(Class::User, &bytes).unwrap(), table);
    table.set(3, Limits::default()).unwrap();
    assert_eq!(table.limits.len(), IDS_MAX - 1, "no limit, no entry");
    for damaged in [&bytes[..11], &bytes[..bytes.len() - 1], &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert!(matches!(Table::decode(Class::Group, damaged), Err(FsError::Corrupt { .. })));
    }
    let mut twice = bytes[..12 + 52].to_vec();
    twice.extend_from_slice(&bytes[12..12 + 52]);
    assert!(Table::decode(Class::User, &twice).is_err());
}

#[test]
fn a_check_finds_a_damaged_table_and_a_repair_drops_it_alone() {
    use crate::ufs::xattr;
    let encoded = |damage: u8| {
        let mut bytes = Table::default().encode();
        bytes[0] += damage;
        bytes
    };
    for damage in [0, 1] {
        let mut set = Vec::new();
        xattr::put(&mut set, b"user.kept", b"value").unwrap();
        xattr::put(&mut set, table::attribute(Class::User), &encoded(0)).unwrap();
        xattr::put(&mut set, table::attribute(Class::Group), &encoded(damage)).unwrap();
        assert_eq!(xattr::verify(&set).is_ok(), damage == 0);
        let sound = xattr::sound(&set);
        assert!(xattr::verify(&sound).is_ok());
        let kept = xattr::entries(&sound).count();
        assert_eq!(kept, if damage == 0 { 3 } else { 2 }, "the damaged table is gone, and nothing else");
    }
}
