//! Single changes between two states that are sent.

use super::*;

/// A source with these changes between two states, and a replica that receives both.
fn assert_change_is_sent(first: impl Fn(&Volume<Lfs>), second: impl Fn(&Volume<Lfs>)) {
    let (mut source, replica) = (Source::new(0), new_device(2));
    first(&source.volume);
    source.point();
    second(&source.volume);
    source.point();
    receive_into(&replica, &source.stream(None, 0, 0), "p0").unwrap();
    assert_is(&replica, &source.points[0].1);
    receive_into(&replica, &source.stream(Some(0), 1, 0), "p1").unwrap();
    assert_is(&replica, &source.points[1].1);
}

fn punch(volume: &Volume<Lfs>, file: InodeNo, at: usize, blocks: usize) {
    let (at, len) = ((at * BLOCK) as u64, (blocks * BLOCK) as u64);
    volume.run(|vfs, now| vfs.fallocate(now, file, Allocate::PunchHole, at, len, false)).unwrap();
}

fn only_file(volume: &Volume<Lfs>) -> InodeNo {
    children(volume, InodeNo::ROOT)[0].1
}

#[test]
fn a_hole_is_sent_where_the_older_record_had_content() {
    let small = |volume: &Volume<Lfs>| {
        volume.write_all(make_file(volume, InodeNo::ROOT, b"f"), 0, &[7; 100], false).unwrap();
    };
    let punched = |volume: &Volume<Lfs>| {
        let file = only_file(volume);
        volume.write_all(file, 5 * BLOCK as u64, &[8; BLOCK], false).unwrap();
        punch(volume, file, 0, 2);
    };
    assert_change_is_sent(small, punched);
}

#[test]
fn a_hole_is_sent_where_the_older_state_had_content_although_the_rest_is_new() {
    let whole = |volume: &Volume<Lfs>| {
        volume.write_all(make_file(volume, InodeNo::ROOT, b"f"), 0, &[7; 40 * BLOCK], false).unwrap();
    };
    for hole in [0, 3, 30, 39] {
        let punched = |volume: &Volume<Lfs>| {
            let file = only_file(volume);
            volume.write_all(file, 0, &[8; 40 * BLOCK], false).unwrap();
            punch(volume, file, hole, 1);
        };
        assert_change_is_sent(whole, punched);
    }
}

#[test]
fn attributes_that_a_changed_file_has_lost_are_lost_in_the_replica() {
    for value in [&[1; 20][..], &[1; 3000]] {
        let set = |volume: &Volume<Lfs>, file, name: &[u8], value: &[u8]| {
            volume.run(|vfs, now| vfs.setxattr(now, file, name, value, XattrMode::Any)).unwrap();
        };
        let with_attributes = |volume: &Volume<Lfs>| {
            let file = make_file(volume, InodeNo::ROOT, b"f");
            volume.write_all(file, 0, &[7; 3 * BLOCK], false).unwrap();
            for name in [&b"user.goes"[..], b"user.stays", b"user.changes"] {
                set(volume, file, name, value);
            }
        };
        let changed = |volume: &Volume<Lfs>| {
            let file = only_file(volume);
            volume.write_all(file, 0, &[8; 3 * BLOCK], false).unwrap();
            volume.run(|vfs, now| vfs.removexattr(now, file, b"user.goes")).unwrap();
            set(volume, file, b"user.changes", b"2");
        };
        assert_change_is_sent(with_attributes, changed);
    }
}

/// The older state knows the number, but nothing there has a name.
#[test]
fn a_file_that_gets_its_first_name_between_the_states_is_made_in_the_replica() {
    let nameless = Cell::new(InodeNo::ROOT);
    let without_name = |volume: &Volume<Lfs>| {
        let made = volume.run(|vfs, now| vfs.make_unnamed(now, ROOT, InodeNo::ROOT, 0o644));
        nameless.set(made.unwrap().ino);
        volume.write_all(nameless.get(), 0, &[7; 3 * BLOCK], false).unwrap();
    };
    let linked = |volume: &Volume<Lfs>| {
        volume.run(|vfs, now| vfs.link(now, nameless.get(), InodeNo::ROOT, b"f", false)).unwrap();
    };
    assert_change_is_sent(without_name, linked);
}

/// The older state has another file under the number, with the same name and size. It was made at another time.
#[test]
fn a_file_that_got_the_number_of_a_deleted_one_is_another_file_in_the_replica() {
    let file = |volume: &Volume<Lfs>, time: i64| {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
        let make = |vfs: &mut Vfs<Lfs>, _| vfs.make(TimeNs(time), ROOT, InodeNo::ROOT, b"f", node, false);
        let made = volume.run(make).unwrap().ino;
        volume.write_all(made, 0, &[time as u8; 3 * BLOCK], false).unwrap();
        made
    };
    let first = Cell::new(InodeNo::ROOT);
    let made = |volume: &Volume<Lfs>| first.set(file(volume, 7));
    let made_anew = |volume: &Volume<Lfs>| {
        volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"f")).unwrap();
        volume.sync(Scope::All).unwrap();
        assert_eq!(file(volume, 8), first.get(), "the number is used again");
    };
    assert_change_is_sent(made, made_anew);
}
