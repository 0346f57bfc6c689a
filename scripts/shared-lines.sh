#!/usr/bin/env bash
# How much of the code that a mounted volume runs is shared between the log and the Fast File System: lines of Rust that are
# neither blank nor comments, without tests. Prints the share for each of the two.
set -euo pipefail
cd "$(dirname "$0")/.."

# Lines of code of the given files and folders, tests left out.
lines() {
    find "$@" -name '*.rs' ! -name '*tests.rs' ! -path '*/tests/*' -print0 | sort -z |
        xargs -0 -n1 awk '/^#\[cfg\(test\)\]/ { exit } !/^[[:space:]]*(\/\/|$)/' | wc -l
}

fs=crates/fs/src
shared=$(lines $fs/vfs $fs/ufs $fs/store $fs/engine.rs $fs/fetch.rs $fs/error.rs $fs/inode.rs $fs/dirent.rs $fs/bmap.rs \
    $fs/digest.rs $fs/cache/clock.rs crates/volume/src crates/device/src crates/fuse/src crates/cli/src/mounting \
    crates/format/src/units.rs crates/format/src/error.rs crates/format/src/layout.rs)
ffs=$(lines $fs/ffs crates/format/src/ffs crates/manage/src/ffs_volume.rs)
log=$(lines $fs/lfs $fs/clean $fs/lookahead.rs $fs/cache/blocks.rs crates/format/src/{checkpoint,inode,pointer,summary,superblock,table}.rs \
    crates/manage/src/open.rs)
printf 'shared: %d lines; ffs: %d more (%d%% shared); log: %d more (%d%% shared)\n' \
    "$shared" "$ffs" $((100 * shared / (shared + ffs))) "$log" $((100 * shared / (shared + log)))
