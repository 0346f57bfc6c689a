#!/usr/bin/env bash
# The promises that need a million files, in release: memory stays bounded, and a create costs what it did among few.
# Takes some minutes and about 4 GB of disk under $TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
say "memory with a million files on a volume of 1 TiB"
cargo test --release --locked -p firnfs-volume --test memory -- --ignored --nocapture
say "file system check of a million files"
cargo test --release --locked -p firnfs-volume --test check_scale -- --ignored --nocapture
say "cost of operations in a directory of a million entries"
cargo test --release --locked -p firnfs-volume --test promises -- --ignored --nocapture
say "a volume filled to 99%, overwritten at random four times over"
cargo test --release --locked -p firnfs-volume --test endurance -- --ignored --nocapture
