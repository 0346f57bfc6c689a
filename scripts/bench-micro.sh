#!/usr/bin/env bash
# The micro benchmark, fair and in one command (root): an ext4 on a loop device with direct I/O and a firnfs image of the
# same size on the same disk, both written through once beforehand, and a memory volume mounted through the same FUSE. The image is mounted in turn
# through io_uring (this script switches the kernel's parameter on, and leaves that column out where the kernel has none), through /dev/fuse, and
# with the kernel's write-back cache. XFS and btrfs, where the kernel and their mkfs are here, get images as ext4's. Then the crash explorer's states a second.
#
#   scripts/bench-micro.sh [DIR] [-- ARGUMENTS FOR firn bench micro]
#
# DIR (default: target/bench) must have room for four images and 2 GiB more. Results: docs/bench/micro.md, micro.json
# and explorer.md. With arguments of its own the run is a part of that: without the rows of a million files and the explorer.
# SIZE_MIB (default 6144) is the size of each image; REPORT (default docs/bench/micro) is where the results go.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

place=target/bench
if [ $# -gt 0 ] && [ "$1" != -- ]; then
    place=$1
    shift
fi
[ "${1:-}" != -- ] || shift
size_mib=${SIZE_MIB:-6144}
report=${REPORT:-docs/bench/micro}
is_whole=
if [ $# = 0 ]; then
    is_whole=yes
    set -- --million
fi

[ "$(id -u)" = 0 ] || die "needs root: loop devices, mounts and cold caches; run: sudo scripts/bench-micro.sh"
need_rust
need e2fsprogs mkfs.ext4
need mount losetup
need fuse3 fusermount3

say "building firn"
cargo build --release --locked -p firnfs-cli
firn=$PWD/target/release/firn

mkdir -p "$place" docs/bench
place=$(cd "$place" && pwd)
rivals=(ext4)
for kind in xfs btrfs; do
    if command -v "mkfs.$kind" >/dev/null && grep -qw "$kind" /proc/filesystems; then
        rivals+=("$kind")
    else
        say "no $kind here: its column is left out"
    fi
done
loops=()
cleanup() {
    # The benchmark unmounts what it mounted, unless it was killed.
    for mount in "$place"/firn.img.m*; do
        ! mountpoint -q "$mount" || "$firn" umount "$mount"
    done
    for kind in "${rivals[@]}"; do
        ! mountpoint -q "$place/$kind" || umount "$place/$kind"
    done
    for device in "${loops[@]}"; do losetup --detach "$device"; done
    for kind in "${rivals[@]}"; do
        rm -f "$place/$kind.img"
        rmdir "$place/$kind" 2>/dev/null || true
    done
    rm -f "$place"/firn.img "$place"/firn-bench-*.img
    rmdir "$place"/firn.img.m* 2>/dev/null || true
}
trap cleanup EXIT
cleanup

# Zeros written through, not fallocate: an unwritten extent costs its first writer a journal entry of the disk's own
# file system, and that cost must not be part of either side's times.
for image in "${rivals[@]}" firn; do
    say "preallocating $image.img, $size_mib MiB"
    dd if=/dev/zero of="$place/$image.img" bs=1M count="$size_mib" oflag=direct conv=fsync status=none
done

against=()
for kind in "${rivals[@]}"; do
    say "making $kind on a loop device with direct I/O"
    case $kind in
        ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$place/$kind.img" ;;
        *) "mkfs.$kind" -q -f -K "$place/$kind.img" ;;
    esac
    device=$(losetup --find --show --direct-io=on "$place/$kind.img")
    loops+=("$device")
    mkdir -p "$place/$kind"
    mount "$device" "$place/$kind"
    against+=(--against "$kind=$place/$kind")
done

# The goals are those of io_uring; the columns say which transport their daemons report.
if "$firn" mount --enable-uring; then
    columns=(--name uring --mount-option=--transport=uring
        --variant dev=transport=dev --variant writeback=transport=uring,writeback)
else
    say "no FUSE over io_uring here: its column is left out"
    columns=(--name dev --mount-option=--transport=dev --variant writeback=transport=dev,writeback)
fi

say "running"
"$firn" bench micro "${against[@]}" --image "$place/firn.img" --size "${size_mib}M" "${columns[@]}" \
    --report "$report" "$@"
[ "$is_whole" ] || { say "written: $report.md and $report.json"; exit 0; }
say "states a second of the crash explorer"
cargo run --release --locked -q -p firnfs-torture --bin firn-torture -- bench >docs/bench/explorer.md
say "written: $report.md, $report.json and docs/bench/explorer.md"
