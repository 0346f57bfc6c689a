//! POSIX behaviour on a real mount, over the memory store and over an image.

use crate::common::{ALL, Kind, Mount, can_mount, is_root, pattern, shell};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, StatxFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

fn read_write(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn holes_are_found_and_read_as_zeros() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let file = read_write(&mount.path("sparse"));
        let far = 3 << 40;
        file.write_all_at(b"start", 0).unwrap();
        file.write_all_at(b"end", far).unwrap();
        assert_eq!(file.metadata().unwrap().len(), far + 3);
        assert!(file.metadata().unwrap().blocks() < 1000, "{kind:?}");
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap();
        assert!((5..=65536).contains(&hole), "{kind:?}: {hole}");
        let data = rustix::fs::seek(&file, SeekFrom::Data(hole)).unwrap();
        assert!(data > hole && data <= far, "{kind:?}: {data}");
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(far + 3)), Err(Errno::NXIO));
        let mut middle = vec![1; 100_000];
        file.read_exact_at(&mut middle, 1 << 40).unwrap();
        assert!(middle.iter().all(|&b| b == 0));
    }
}

#[test]
fn fallocate_charges_punches_and_zeroes() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let file = read_write(&mount.path("f"));
        rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(file.metadata().unwrap().blocks() >= 2048, "{kind:?}: charged");
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        let bytes = pattern(1, 1 << 20);
        file.write_all_at(&bytes, 0).unwrap();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 100_000, 300_000).unwrap();
        rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 600_000, 10_000).unwrap();
        let mut expected = bytes;
        expected[100_000..400_000].fill(0);
        expected[600_000..610_000].fill(0);
        assert!(fs::read(mount.path("f")).unwrap() == expected, "{kind:?}");
        let refused = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(refused, Err(Errno::OPNOTSUPP));
        if kind.is_kept() {
            drop(file);
            mount.remount_image();
            assert!(fs::read(mount.path("f")).unwrap() == expected);
        }
    }
}

#[test]
fn renames_replace_refuse_and_exchange() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let (a, b) = (mount.path("a"), mount.path("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        let rename = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
        assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
        rename(RenameFlags::EXCHANGE).unwrap();
        assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
        assert_eq!(rename(RenameFlags::WHITEOUT), Err(Errno::INVAL));
        rename(RenameFlags::empty()).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"b");
        assert!(!a.exists());
        fs::create_dir(mount.path("d")).unwrap();
        fs::create_dir(mount.path("d/inner")).unwrap();
        let into_itself = fs::rename(mount.path("d"), mount.path("d/inner/d")).unwrap_err();
        assert_eq!(into_itself.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }
}

#[test]
fn extended_attributes_of_all_namespaces_are_kept() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let path = mount.path("f");
        fs::write(&path, "").unwrap();
        let large = pattern(3, 60_000);
        for (name, value) in
            [("user.a", &b"1"[..]), ("trusted.t", b""), ("security.s", b"xyz"), ("user.large", &large)]
        {
            rustix::fs::setxattr(&path, name, value, XattrFlags::CREATE).unwrap();
            assert_eq!(rustix::fs::setxattr(&path, name, value, XattrFlags::CREATE), Err(Errno::EXIST));
        }
        if kind.is_kept() {
            mount.remount_image();
        }
        let mut value = vec![0; 65536];
        let len = rustix::fs::getxattr(&path, "user.large", &mut value[..]).unwrap();
        assert!(value[..len] == large);
        assert_eq!(rustix::fs::getxattr(&path, "user.large", &mut value[..10]), Err(Errno::RANGE));
        let len = rustix::fs::listxattr(&path, &mut value[..]).unwrap();
        let names: BTreeSet<&[u8]> = value[..len].split(|b| *b == 0).filter(|n| !n.is_empty()).collect();
        assert_eq!(names, BTreeSet::from([&b"user.a"[..], b"trusted.t", b"security.s", b"user.large"]));
        rustix::fs::removexattr(&path, "user.large").unwrap();
        assert_eq!(rustix::fs::getxattr(&path, "user.large", &mut value[..]), Err(Errno::NODATA));
    }
}

#[test]
fn acls_grant_are_inherited_and_follow_chmod() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = "
            chmod 755 . && mkdir d && setfacl -m u:daemon:rwx,d:u:daemon:rw,d:g::r,d:o::- d
            umask 077; touch d/inherits; mkdir d/below
            getfacl -cn d/inherits | grep -qx 'user:1:rw-' && getfacl -cn d/below | grep -qx 'default:user:1:rw-'
            stat -c %a d/inherits
            setpriv --reuid=1 --regid=1 --clear-groups touch d/by-daemon
            echo secret > private; chmod 600 private
            ! setpriv --reuid=1 --regid=1 --clear-groups cat private 2>/dev/null
            setfacl -m u:daemon:r private
            setpriv --reuid=1 --regid=1 --clear-groups cat private
            chmod g-r private
            ! setpriv --reuid=1 --regid=1 --clear-groups cat private 2>/dev/null";
        assert_eq!(shell(&mount.mnt, script), "660\nsecret\n", "{kind:?}");
    }
}

#[test]
fn special_files_of_all_kinds_work() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = "mknod null c 1 3; echo gone > null; mknod disk b 259 70000; mkfifo fifo
            stat -c '%F %t:%T' null disk
            (echo through > fifo &) ; cat fifo; ln -s some/where link; readlink link";
        let expected = "character special file 1:3\nblock special file 103:11170\nthrough\nsome/where\n";
        assert_eq!(shell(&mount.mnt, script), expected);
        let socket = std::os::unix::net::UnixListener::bind(mount.path("socket")).unwrap();
        drop(std::os::unix::net::UnixStream::connect(mount.path("socket")).unwrap());
        drop(socket);
        if kind.is_kept() {
            mount.remount_image();
            assert_eq!(shell(&mount.mnt, "stat -c '%F %t:%T' disk"), "block special file 103:11170\n");
        }
    }
}

#[test]
fn a_listing_is_complete_while_entries_come_and_go() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let directory = mount.path("d");
        fs::create_dir(&directory).unwrap();
        for n in 0..3000 {
            fs::write(directory.join(format!("stays{n:05}")), "").unwrap();
            fs::write(directory.join(format!("goes{n:05}")), "").unwrap();
        }
        let mut seen = BTreeSet::new();
        for (count, entry) in fs::read_dir(&directory).unwrap().enumerate() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(seen.insert(name.clone()), "{name} came twice");
            if let Some(number) = name.strip_prefix("goes") {
                fs::remove_file(directory.join(&name)).unwrap();
                fs::write(directory.join(format!("new{number}")), "").unwrap();
            }
            assert!(count < 20_000, "the listing does not end");
        }
        assert_eq!(seen.iter().filter(|name| name.starts_with("stays")).count(), 3000, "{kind:?}");
        assert_eq!(seen.iter().filter(|name| name.starts_with("goes")).count(), 3000, "{kind:?}");
        let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 6000);
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn an_unlinked_file_lives_until_closed_and_then_its_space_is_free() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let free = || rustix::fs::statvfs(&mount.mnt).unwrap().f_bfree;
        let before = free();
        let mut file = read_write(&mount.path("f"));
        let bytes = pattern(9, 20 << 20);
        file.write_all(&bytes[..10 << 20]).unwrap();
        fs::remove_file(mount.path("f")).unwrap();
        file.write_all(&bytes[10 << 20..]).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.rewind().unwrap();
        let mut back = Vec::new();
        file.read_to_end(&mut back).unwrap();
        assert!(back == bytes);
        assert!(free() + 4000 < before, "{kind:?}: still charged");
        drop(file);
        crate::common::eventually("the space is free again", || free() + 64 > before);
    }
}

#[test]
fn a_file_opened_with_o_tmpfile_has_no_name_until_it_is_given_one() {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let unnamed = |flags| open(&mount.mnt, OFlags::TMPFILE | OFlags::RDWR | flags, Mode::from(0o640));
        let give_name = |file: &fs::File, name: &str| {
            let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            linkat(CWD, by_number, CWD, mount.path(name), AtFlags::SYMLINK_FOLLOW)
        };
        let mut file = fs::File::from(unnamed(OFlags::empty()).unwrap());
        file.write_all(b"written before it had a name").unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(fs::read_dir(&mount.mnt).unwrap().count(), 0);
        give_name(&file, "f").unwrap();
        drop(file);
        assert_eq!(fs::read(mount.path("f")).unwrap(), b"written before it had a name");
        assert_eq!(fs::metadata(mount.path("f")).unwrap().nlink(), 1);

        let hidden = fs::File::from(unnamed(OFlags::EXCL).unwrap());
        assert_eq!(give_name(&hidden, "g").unwrap_err(), rustix::io::Errno::NOENT);
        let free = || rustix::fs::statvfs(&mount.mnt).unwrap().f_ffree;
        let before = free();
        drop(hidden);
        crate::common::eventually("the inode is free again", || free() > before);
    }
}

#[test]
fn with_strictatime_each_read_changes_the_access_time_even_from_the_page_cache() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Memory, "64M", &["-o", "strictatime"]);
    fs::write(mount.path("f"), pattern(1, 8192)).unwrap();
    let read_at = || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(fs::read(mount.path("f")).unwrap(), pattern(1, 8192));
        fs::metadata(mount.path("f")).unwrap().accessed().unwrap()
    };
    let (first, second, third) = (read_at(), read_at(), read_at());
    assert!(first < second && second < third, "{first:?} {second:?} {third:?}");
}

#[test]
fn times_before_1970_and_after_2038_keep_their_nanoseconds() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let path = mount.path("f");
        fs::write(&path, "").unwrap();
        for (secs, nanos) in [(-1, 999_999_999), (-5_000_000_000, 1), (8_000_000_000, 123_456_789), (0, 0)] {
            let time = Timespec { tv_sec: secs, tv_nsec: nanos };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
            if kind.is_kept() {
                mount.remount_image();
            }
            let meta = fs::metadata(&path).unwrap();
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (secs, nanos), "{kind:?}");
            assert_eq!((meta.atime(), meta.atime_nsec()), (secs, nanos), "{kind:?}");
        }
        let statx = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::BTIME).unwrap();
        assert_ne!(statx.stx_mask & StatxFlags::BTIME.bits(), 0);
        assert!(statx.stx_btime.tv_sec > 1_600_000_000, "the time of birth is that of the file");
    }
}

#[test]
fn a_write_by_another_user_clears_set_id_bits_at_once() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = "chmod 755 .
            as() { setpriv --reuid=1 --regid=1 --clear-groups \"$@\"; }
            for how in append truncate fallocate; do
                cp /bin/true $how; chmod 6777 $how
                exec 3< $how   # the kernel keeps the inode cached
                case $how in
                    append) as sh -c 'echo x >> append' ;;
                    truncate) as truncate -s 100 truncate ;;
                    fallocate) as fallocate -l 1000000 fallocate ;;
                esac
                stat -c %a $how; exec 3<&-
            done
            cp /bin/true chown; chmod 6755 chown; chown 1:1 chown; stat -c %a chown
            cp /bin/true root; chmod 6777 root; echo x >> root; stat -c %a root";
        assert_eq!(shell(&mount.mnt, script), "777\n777\n777\n755\n6777\n", "{kind:?}");
    }
}

#[test]
fn a_set_group_id_bit_that_means_locking_stays_for_members_of_the_group_only() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let script = "chmod 755 .
        for how in append truncate fallocate; do
            for groups in --clear-groups --groups=7; do
                rm -f f; cp /bin/true f; chown 0:7 f; chmod 2666 f
                as() { setpriv --reuid=1 --regid=1 $groups \"$@\"; }
                case $how in
                    append) as sh -c 'echo x >> f' ;;
                    truncate) as truncate -s 100 f ;;
                    fallocate) as fallocate -l 1000000 f ;;
                esac
                stat -c %a f
            done
        done";
    assert_eq!(shell(&mount.mnt, script), "666\n2666\n".repeat(3));
}

#[test]
fn direct_io_sees_what_buffered_io_wrote_and_the_reverse() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let path = mount.path("f");
        let bytes = pattern(4, 1 << 20);
        fs::write(&path, &bytes).unwrap();
        // dd aligns its buffers as O_DIRECT requires.
        shell(&mount.mnt, "dd if=f of=copy bs=64K iflag=direct oflag=direct status=none && cmp f copy");
        shell(&mount.mnt, "dd if=/dev/zero of=f bs=4K seek=3 count=2 conv=notrunc oflag=direct status=none");
        let mut expected = bytes;
        expected[3 * 4096..5 * 4096].fill(0);
        assert!(fs::read(&path).unwrap() == expected, "{kind:?}");
    }
}

#[test]
fn a_full_volume_says_so_keeps_what_it_has_and_deletes() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::with(kind, "64M", &[]);
        fs::write(mount.path("kept"), pattern(1, 1 << 20)).unwrap();
        let mut filler = File::create(mount.path("filler")).unwrap();
        let block = pattern(2, 1 << 20);
        let error = (0..200).find_map(|_| filler.write_all(&block).err()).expect("the volume never fills");
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{kind:?}");
        drop(filler);
        if kind == Kind::Image {
            let told = crate::common::firn_ok(&["df", mount.mnt.to_str().unwrap()]);
            let way_out = format!("'firn resize {} +SIZE'", mount.mnt.display());
            assert!(told.split_whitespace().collect::<Vec<_>>().join(" ").contains(&way_out), "{told}");
        }
        assert!(fs::read(mount.path("kept")).unwrap() == pattern(1, 1 << 20));
        fs::remove_file(mount.path("filler")).unwrap();
        crate::common::eventually("there is room again", || fs::write(mount.path("again"), &block).is_ok());
    }
}

#[test]
fn names_are_bytes_and_255_of_them() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let longest = mount.path(&"x".repeat(255));
    fs::write(&longest, "1").unwrap();
    let longer = fs::write(mount.path(&"x".repeat(256)), "").unwrap_err();
    assert_eq!(longer.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    let raw = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe \n\x01");
    fs::write(mount.mnt.join(raw), "2").unwrap();
    mount.remount_image();
    assert_eq!(fs::read(mount.mnt.join(raw)).unwrap(), b"2");
    assert_eq!(fs::read(&longest).unwrap(), b"1");
}

#[test]
fn copy_file_range_copies_within_and_between_files() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let bytes = pattern(7, 5 << 20);
        fs::write(mount.path("a"), &bytes).unwrap();
        let (a, b) = (read_write(&mount.path("a")), read_write(&mount.path("b")));
        let (mut from, mut to, mut left) = (1000, 77, 4 << 20);
        while left > 0 {
            let n = rustix::fs::copy_file_range(&a, Some(&mut from), &b, Some(&mut to), left).unwrap();
            assert!(n > 0);
            left -= n;
        }
        let copied = fs::read(mount.path("b")).unwrap();
        assert!(copied[77..] == bytes[1000..1000 + (4 << 20)] && copied[..77] == [0; 77], "{kind:?}");
    }
}

#[test]
fn appends_of_several_processes_never_overwrite_each_other() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let script = "for p in 1 2 3 4; do
                (i=0; while [ $i -lt 300 ]; do echo \"process $p line $i end\" >> log; i=$((i + 1)); done) &
            done; wait; wc -l < log; sort -u log | grep -c '^process [1-4] line [0-9]* end$'";
        assert_eq!(shell(&mount.mnt, script), "1200\n1200\n", "{kind:?}");
    }
}

#[test]
fn a_file_mode_at_creation_obeys_the_umask_and_o_excl_refuses() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    assert_eq!(shell(&mount.mnt, "umask 027; touch f; mkdir d; stat -c %a f d"), "640\n750\n");
    let again = OpenOptions::new().write(true).create_new(true).open(mount.path("f")).unwrap_err();
    assert_eq!(again.raw_os_error(), Some(Errno::EXIST.raw_os_error()));
    let open = OpenOptions::new().write(true).mode(0o600).create(true).truncate(true).open(mount.path("f"));
    assert_eq!(open.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o640);
}
