#!/usr/bin/env bash
# firnfs at work, in one command: builds `firn`, makes a volume on an image file, mounts it, copies a real source tree into
# it, searches and compiles it there, unmounts, mounts again, verifies every byte, and shows the state of the log.
#
#   scripts/demo.sh            as root, or as a user with fusermount3
#
# Everything happens under target/demo and is removed at the end, except for the image: look into it with `firn dump`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need fuse3 fusermount3
[ -c /dev/fuse ] || die "/dev/fuse is missing; load it with: sudo modprobe fuse"

place=$PWD/target/demo
image=$place/disk.img
mnt=$place/mnt
firn=$PWD/target/release/firn

say "building firn"
cargo build --release --locked -p firnfs-cli

cleanup() {
    mountpoint -q "$mnt" && "$firn" umount "$mnt"
    return 0
}
trap cleanup EXIT
cleanup
rm -rf "$place"
mkdir -p "$mnt"

# show COMMAND...: prints a firn command as a user would type it, then runs it.
show() {
    printf '\n$ firn %s\n' "${*//$place\//}" >&2
    "$firn" "$@"
}

show mkfs "$image" --size 4G
show mount "$image" "$mnt"

# This project's own source, and the source of every crate that it is built from: some thousand real files.
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
list=$place/files.txt
{
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files | sed "s|^|$PWD/|"
    else
        find "$PWD" -path "$PWD/target" -prune -o -type f -print
    fi
    find "$registry" -type f 2>/dev/null || true
} >"$list.all"
# A file may be tracked and yet deleted from the work tree.
while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "${file#/}"; done <"$list.all" >"$list"
total=$(wc -l <"$list")
[ "$total" -gt 0 ] || die "found no source to copy"

say "copying $total source files into the volume"
tar -C / -cf - --files-from="$list" 2>/dev/null | tar -C "$mnt" -xvf - | counted "$total"

say "searching them there: lines that say 'unsafe'"
grep -r --include='*.rs' -c unsafe "$mnt" 2>/dev/null | awk -F: '{ n += $NF } END { print n " lines in " NR " files" }'

say "compiling there: firnfs-format, with its build directory on the volume"
(cd "$mnt/$PWD" && CARGO_TARGET_DIR="$mnt/build" cargo build --offline -p firnfs-format)

say "making checksums: of the originals, and of everything on the volume"
(cd / && xargs -d '\n' sha256sum <"$list") >"$place/originals.sha256"
(cd "$mnt" && find . -type f -print0 | xargs -0 sha256sum) >"$place/volume.sha256"

show sync "$mnt"
show umount "$mnt"
show mount "$image" "$mnt"

for manifest in originals volume; do
    say "after mounting again: verifying against the checksums of the $manifest"
    (cd "$mnt" && sha256sum --check --strict "$place/$manifest.sha256") | tee "$place/$manifest.log" |
        counted "$(wc -l <"$place/$manifest.sha256")"
    ! grep -v ': OK$' "$place/$manifest.log" || die "not every byte survived"
done

show stat "$mnt"
show df "$mnt"
show umount "$mnt"
show dump "$image"
show dump "$image" --segment 1 | head -n 20
say "done: $(wc -l <"$place/volume.sha256") files verified. The volume is in ${image#"$PWD"/}"
