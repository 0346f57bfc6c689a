#!/bin/sh
# Installs a package of firn in a Debian system of its own, uses it there by mkfs(8), mount(8) and fsck(8), and purges it:
# scripts/package-chroot-test.sh PACKAGE [SUITE]. debootstrap makes the system (default: bookworm) in a temporary directory, unless ROOT names
# one that is there already. Needs root, FUSE, and a mirror of Debian for debootstrap; takes a few minutes.
#
# package-test.sh needs no mirror, but forces dependencies and runs the package's scripts outside. Here dpkg forces nothing, everything runs
# inside, and after the purge the system has the files that it had before.
set -eu
package=$(realpath "$1")
suite=${2:-bookworm}
work=$(mktemp -d)
root=${ROOT:-$work/root}
cleanup() {
    umount -l "$root/mnt" 2>/dev/null || true
    umount -l "$root/proc" 2>/dev/null || true
    # After a failure it is still installed.
    chroot "$root" dpkg --purge firnfs >/dev/null 2>&1 || true
    rm -f "$root/tmp/firnfs.deb" "$root/tmp/disk.img"
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
fail() {
    echo "failed: $*" >&2
    exit 1
}
if [ ! -d "$root" ]; then
    debootstrap --variant=minbase "$suite" "$root" >"$work/log" 2>&1 || { tail "$work/log"; fail debootstrap; }
fi
within() {
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
files() {
    # What dpkg and the test itself write is left out.
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./run -o -path ./var/lib/dpkg \
        -o -path ./var/log \) -prune -o -print | sort)
}

mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
[ -e "$root/dev/fuse" ] || mknod "$root/dev/fuse" c 10 229
files >"$work/before"
cp "$package" "$root/tmp/firnfs.deb"
within dpkg --install /tmp/firnfs.deb >"$work/messages" 2>&1 || { cat "$work/messages"; fail install; }

within truncate -s 64M /tmp/disk.img
within mkfs -t firnfs -L package /tmp/disk.img >/dev/null || fail mkfs
within fsck -t firnfs -a /tmp/disk.img >/dev/null || fail "fsck at boot"
within mount -t firnfs -o noatime /tmp/disk.img /mnt || fail mount
within sh -c "echo 'from the package' >/mnt/file"
within firn df /mnt >/dev/null || fail df
# It waits for the daemon's end; umount(8) does not.
within firn umount /mnt
within fsck -t firnfs /tmp/disk.img -- -f >/dev/null || fail "fsck finds errors"
within mount -t firnfs -o ro /tmp/disk.img /mnt || fail "mount again"
[ "$(within cat /mnt/file)" = 'from the package' ] || fail "the file is lost"
within firn umount /mnt

within dpkg --purge firnfs >"$work/messages" 2>&1 || { cat "$work/messages"; fail purge; }
files >"$work/after"
diff "$work/before" "$work/after" || fail "the purge does not leave what was there before"
echo "installed, used and purged in $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release"): $(basename "$package")"
