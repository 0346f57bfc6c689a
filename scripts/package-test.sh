#!/bin/sh
# Installs a package of firn below a directory, uses it, and purges it: scripts/package-test.sh PACKAGE. Needs root and FUSE; takes
# seconds. Nothing outside that directory changes.
set -eu
package=$(realpath "$1")
root=$(mktemp -d)
cleanup() {
    umount -l "$root/mnt" 2>/dev/null || true
    rm -rf "$root"
}
trap cleanup EXIT
fail() {
    echo "failed: $*" >&2
    exit 1
}
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/mnt"
: >"$root/var/lib/dpkg/status"
# The scripts of the package run outside; DPKG_ROOT tells them so. The system below the directory has no libc6.
dpkg="dpkg --root=$root --force-script-chrootless --force-depends --log=$root/dpkg.log"

$dpkg --install "$package" >/dev/null 2>"$root/messages" || { cat "$root/messages"; fail install; }
PATH=$root/usr/bin:$root/usr/sbin:$PATH
[ -z "$(file -b "$root/usr/bin/firn" | grep 'not stripped' || true)" ] || fail "the program is not stripped"
mkfs.firnfs -L package "$root/disk.img" --size 64M >/dev/null
fsck.firnfs -a "$root/disk.img" >/dev/null || fail "fsck at boot"
mount.firnfs "$root/disk.img" "$root/mnt" -n -o noatime,x-systemd.automount -t firnfs
echo 'from the package' >"$root/mnt/file"
firn umount "$root/mnt"
fsck.firnfs -f "$root/disk.img" >/dev/null || fail "fsck finds errors"
mount.firnfs "$root/disk.img" "$root/mnt" -o ro
[ "$(cat "$root/mnt/file")" = 'from the package' ] || fail "the file is lost"
mount.fuse.firnfs "$root/disk.img" "$root/mnt" -o remount,rw 2>/dev/null && fail "a device that is open for reading became writable"
mount.fuse.firnfs "$root/disk.img" "$root/mnt" -o remount,cache=64M || fail "remount"
firn umount "$root/mnt"
[ "$(readlink "$root/usr/sbin/mount.fuseblk.firnfs")" = ../bin/firn ] || fail "no helper to remount devices"
[ "$(readlink "$root/usr/sbin/umount.fuse.firnfs")" = ../bin/firn ] || fail "no helper to unmount images"

for page in "$root"/usr/share/man/man1/firn.1.gz "$root"/usr/share/man/man8/mount.firnfs.8.gz; do
    gzip -t "$page" || fail "$page"
done
grep -q '^Files: crates/zstd-sys-' "$root/usr/share/doc/firnfs/copyright" ||
    fail "the copyright file does not name the crates in the program"
bash -n "$root/usr/share/bash-completion/completions/firn"
if command -v systemd-analyze >/dev/null && [ -d "$root/usr/lib/systemd/system" ]; then
    # It looks for programs in the real /usr.
    complaints=$(systemd-analyze verify "$root/usr/lib/systemd/system/firn@.service" 2>&1 |
        grep -v -e 'is not executable' -e 'man:firn' -e 'man.*firn-mount' || true)
    case $complaints in *firn@*) fail "$complaints" ;; esac
fi

$dpkg --purge firnfs >/dev/null 2>"$root/messages" || { cat "$root/messages"; fail purge; }
left=$(find "$root/usr" "$root/etc" -not -type d 2>/dev/null | head)
[ -z "$left" ] || fail "left after the purge: $left"
[ ! -d "$root/etc/firnfs" ] || fail "left after the purge: /etc/firnfs"
echo "installed, used and purged: $(basename "$package")"
