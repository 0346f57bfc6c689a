#!/usr/bin/env bash
# POSIX conformance on a real mount: pjdfstest (398 cases) and fsx (100,000 random operations on each of 3 seeds, shared
# mappings included), on a volume in memory, on an image, and on a Fast File System. Needs root and /dev/fuse.
#
#   scripts/conformance.sh              both tools on all volumes
#   scripts/conformance.sh memory       only the volume in memory
#   scripts/conformance.sh image        only the image
#   scripts/conformance.sh ffs          only the Fast File System
#
# Each volume is served twice: through /dev/fuse, and over io_uring where the kernel has that (it is switched on for the run). TRANSPORT=dev
# or TRANSPORT=uring is that one alone.
#
# The tools are installed once, into target/conformance. No case may fail. What pjdfstest skips, and why:
#   link::link_count_max     it asks pathconf(3) for LINK_MAX, and the C library knows no limit for FUSE file systems
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly TOOLS=$PWD/target/conformance
readonly PJDFSTEST_VERSION=0.2.2 FSX_VERSION=0.3.2
readonly FSX_OPERATIONS=${FSX_OPERATIONS:-100000} FSX_SEEDS="1 2 3"
readonly EXPECTED_SKIPS="link::link_count_max"

[ "$(id -u)" = 0 ] || die "pjdfstest switches users, which needs root"
[ -e /dev/fuse ] || die "/dev/fuse is missing; run 'modprobe fuse', or pass the device to the container"
need fuse3 fusermount3
need_rust

install_tool() {
    local name=$1 version=$2
    if [ "$("$TOOLS/bin/$name" --version 2>/dev/null | awk '{print $NF}')" != "$version" ]; then
        say "installing $name $version"
        cargo install --quiet --locked "$name" --version "$version" --root "$TOOLS"
    fi
}

say "building firn"
# As the tests build it, which are run before this: with assertions and checks of overflow, and the tools take most of the time anyway.
cargo build --quiet --locked --bin firn
firn=$PWD/target/debug/firn
install_tool pjdfstest "$PJDFSTEST_VERSION"
install_tool fsx "$FSX_VERSION"

work=$(mktemp -d)
chmod 755 "$work"
mnt=$work/mnt
mkdir "$mnt" "$work/other"
# 'mount -o remount' (the EROFS cases) runs the helper of type fuse.firnfs, which mount.fuse3 looks for in a fixed PATH.
readonly HELPER=/usr/local/bin/firnfs
[ -e "$HELPER" ] || { ln -s "$firn" "$HELPER" && made_helper=yes; }
# Switched on: "Y" or "N" before; empty without FUSE over io_uring.
readonly PARAMETER=/sys/module/fuse/parameters/enable_uring
uring_before=$(cat "$PARAMETER" 2>/dev/null || true)
[ -z "$uring_before" ] || echo Y >"$PARAMETER" 2>/dev/null || uring_before=
transports=${TRANSPORT:-dev uring}
if [ -z "$uring_before" ]; then
    [ "${TRANSPORT:-}" != uring ] || die "this kernel has no FUSE over io_uring, or does not let it be switched on"
    say "NOT TESTED: io_uring, which this kernel does not have, or does not let be switched on"
    transports=dev
fi
cleanup() {
    [ -z "$uring_before" ] || echo "$uring_before" >"$PARAMETER"
    cd /
    for dir in "$mnt" "$work/other"; do
        mountpoint -q "$dir" && umount -l "$dir"
    done
    rm -rf "$work"
    [ -z "${made_helper:-}" ] || rm -f "$HELPER"
}
trap cleanup EXIT
mount -t tmpfs none "$work/other"

cat >"$work/pjdfstest.toml" <<EOF
[features]
file_flags = []
secondary_fs = "$work/other"
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = true
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
EOF

cat >"$work/fsx.toml" <<EOF
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
EOF

# pjdfstest [PATTERN]: all cases, or those that match; prints the summary and what was skipped.
pjdfstest() {
    local out=$work/pjdfstest.out
    (cd "$work" && "$TOOLS/bin/pjdfstest" -c "$work/pjdfstest.toml" -p "$mnt" "$@") >"$out" 2>&1 || {
        grep -A3 FAILED "$out" >&2 || tail -20 "$out" >&2
        die "pjdfstest failed"
    }
    tail -1 "$out" >&2
    grep -q '^Summary: 0 failed' "$out" || die "pjdfstest did not report success"
    awk '$2 == "skipped" {print $1}' "$out" | sort | paste -sd' '
}

# In one process some case leaves a deleted file open, after which no file system can be remounted read-only (ext4
# neither): the cases that remount run in a process of their own.
run_pjdfstest() {
    local skipped
    sed -i 's/^allow_remount.*/allow_remount = false/' "$work/pjdfstest.toml"
    skipped=$(pjdfstest | tr ' ' '\n' | grep -v '::erofs_' | paste -sd' ')
    [ "$skipped" = "$EXPECTED_SKIPS" ] || die "pjdfstest skipped '$skipped', expected '$EXPECTED_SKIPS'"
    sed -i 's/^allow_remount.*/allow_remount = true/' "$work/pjdfstest.toml"
    skipped=$(pjdfstest ::erofs_)
    [ -z "$skipped" ] || die "pjdfstest skipped '$skipped'"
}

run_fsx() {
    local seed pids=()
    mkdir "$mnt/fsx"
    for seed in $FSX_SEEDS; do
        (cd "$mnt/fsx" && "$TOOLS/bin/fsx" -f "$work/fsx.toml" -N "$FSX_OPERATIONS" -S "$seed" -P "$work" "seed$seed") \
            >"$work/fsx.$seed.out" 2>&1 &
        pids+=($!)
    done
    seed=0
    for pid in "${pids[@]}"; do
        seed=$((seed + 1))
        wait "$pid" || {
            tail -30 "$work/fsx.$seed.out" >&2
            die "fsx failed with seed $seed"
        }
        grep -q 'All operations completed' "$work/fsx.$seed.out" || die "fsx with seed $seed did not complete"
    done
    echo "fsx: $FSX_OPERATIONS operations on each of the seeds $FSX_SEEDS"
}

run_on() {
    local volume=$1 transport=$2
    shift 2
    say "pjdfstest on a volume in $volume, transport $transport"
    "$firn" mount "$@" "$mnt" --transport "$transport"
    # The mount itself says which one it got.
    local served=/dev/fuse
    [ "$transport" = dev ] || served=io_uring
    "$firn" stat "$mnt" | grep -q "served through $served" || die "not served through $served"
    run_pjdfstest
    say "fsx on a volume in $volume, transport $transport"
    run_fsx
    "$firn" umount "$mnt"
}

volumes=("$@")
[ ${#volumes[@]} -gt 0 ] || volumes=(memory image ffs)
# run_image VOLUME TRANSPORT: on a new image; what the tools leave there is still whole after a remount.
run_image() {
    local volume=$1 transport=$2 kind=log
    [ "$volume" = image ] || kind=ffs
    rm -f "$work/disk.img"
    "$firn" mkfs "$work/disk.img" --size 2G --type "$kind"
    run_on "$volume" "$transport" "$work/disk.img"
    say "remount"
    "$firn" mount "$work/disk.img" "$mnt" --transport "$transport"
    find "$mnt" -type f -exec cat {} + >/dev/null
    "$firn" umount "$mnt"
    "$firn" fsck "$work/disk.img"
}

for volume in "${volumes[@]}"; do
    for transport in $transports; do
        case $volume in
        memory) run_on memory "$transport" --memory 2G ;;
        image | ffs) run_image "$volume" "$transport" ;;
        *) die "there is no volume '$volume'; see the head of this script" ;;
        esac
    done
done
say "conformance: passed on ${volumes[*]}, transports $transports"
