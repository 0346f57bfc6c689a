#!/usr/bin/env bash
# The promises that need a million files or hours, in release: memory stays bounded, operations cost as much among a million names as among ten
# thousand, a full volume still works. Run it on a quiet machine: one part compares times.
# Takes some minutes, 5 GB of memory and about 4 GB of disk under $TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
say "operations among a million names, beside the same among ten thousand"
cargo test --release --locked -p firnfs-manage --test all promises:: -- --ignored --nocapture
say "memory with a million files on a volume of 1 TiB"
cargo test --release --locked -p firnfs-manage --test memory -- --ignored --nocapture
say "memory of the daemon with a million files that the kernel knows"
cargo test --release --locked -p firnfs-cli --test mount -- --ignored --nocapture a_million_files_that_the_kernel_knows
say "file system check of a million files"
cargo test --release --locked -p firnfs-manage --test check_scale -- --ignored --nocapture
say "the longest wait of a write in an hour of a full hard disk's time, without pauses, on volumes of two sizes"
cargo test --release --locked -p firnfs-manage --test all stalls:: -- --ignored --nocapture
say "a volume filled to 99%, overwritten at random four times over"
cargo test --release --locked -p firnfs-manage --test all endurance:: -- --ignored --nocapture
