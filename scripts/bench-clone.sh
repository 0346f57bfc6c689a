#!/usr/bin/env bash
# How long `firn clone` takes beside `firn snapshot` and `firn --version`, on volumes of 1,000 and of 100,000 files, in release: medians of nine, in one
# run. Both are durable when the command returns. Takes two minutes and 2 GB under $TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need fuse3 fusermount3
cargo build --release --locked -p firnfs-cli
firn=$PWD/target/release/firn
dir=$(mktemp -d)
cleanup() {
    "$firn" umount "$dir/mnt" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT

# Milliseconds that a command takes: the median of nine runs; the run's number is in $run.
median_ms() {
    for run in 1 2 3 4 5 6 7 8 9; do
        local began=$EPOCHREALTIME
        eval "$1" >/dev/null
        echo $((${EPOCHREALTIME/./} - ${began/./}))
    done | sort -n | sed -n 5p | awk '{ printf "%.1f ms", $1 / 1000 }'
}

for files in 1000 100000; do
    "$firn" mkfs "$dir/img" --size 4G >/dev/null
    mkdir -p "$dir/mnt"
    "$firn" mount "$dir/img" "$dir/mnt"
    for ((at = 0; at < files; at += 1000)); do
        mkdir "$dir/mnt/$at"
        head -c 4000000 /dev/urandom | split -b 4000 -a 4 - "$dir/mnt/$at/f"
    done
    "$firn" snapshot "$dir/mnt" one >/dev/null
    echo "$files files: clone $(median_ms '"$firn" clone "$dir/mnt" one "$dir/clone$run"')," \
        "snapshot $(median_ms '"$firn" snapshot "$dir/mnt" "s$run"'), no work $(median_ms '"$firn" --version')"
    "$firn" umount "$dir/mnt"
    echo "  firn fsck of it with nine clones: $( { TIMEFORMAT=%R; time "$firn" fsck "$dir/img" >/dev/null; } 2>&1) s"
    rm -rf "$dir/img" "$dir"/clone*
done
