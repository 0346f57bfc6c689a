#!/usr/bin/env bash
# The probe of libblkid in contrib/libblkid: builds blkid(8) with the patch, and asks it about volumes and about other file systems.
#
#   scripts/libblkid.sh                 with the source package of util-linux in Debian 13
#   scripts/libblkid.sh SUITE...        with those of other releases of Debian, such as: trixie sid
#   scripts/libblkid.sh DIRECTORY...    with unpacked sources of util-linux, which stay as they are
#
# FIRN names the program (default: a debug build). Nothing is installed but what the build needs, and that by root alone; a minute each.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly PATCH=$PWD/contrib/libblkid/firnfs.patch
need patch patch
need gcc cc
need meson meson
need ninja-build ninja
need bison bison
need flex flex
need pkg-config pkg-config
need e2fsprogs mkfs.ext4
want xfsprogs mkfs.xfs
PATH=$PATH:/usr/sbin:/sbin

if [ -z "${FIRN:-}" ]; then
    need_rust
    say "building firn"
    cargo build --quiet --locked -p firnfs-cli
    FIRN=${CARGO_TARGET_DIR:-target}/debug/firn
fi
FIRN=$(realpath "$FIRN")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# source_of SUITE: the source package of a release of Debian, unpacked; prints where. The lists of apt outside stay as they are.
source_of() {
    local suite=$1 at=$work/apt-$1 mirror options
    command -v apt-get >/dev/null || die "apt-get is missing: give the directory of an unpacked util-linux"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | sort -u | head -n 1)
    [ -n "$mirror" ] || die "apt knows no mirror of Debian: give the directory of an unpacked util-linux"
    mkdir -p "$at/lists/partial" "$at/cache/archives/partial" "$at/parts" "$at/source"
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$suite" \
        /usr/share/keyrings/debian-archive-keyring.gpg >"$at/parts/source.sources"
    options="-q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$at/parts -o Dir::State::Lists=$at/lists -o Dir::Cache=$at/cache"
    options="$options -o APT::Sandbox::User=$(id -un)"
    # Debian's own patches concern other programs: the source as it was released is enough.
    (cd "$at/source" && apt-get $options update >&2 &&
        apt-get $options source --download-only --tar-only util-linux >&2) || die "there is no source of util-linux in $suite"
    tar -C "$at/source" -xf "$at"/source/*.orig.tar.*
    find "$at/source" -mindepth 1 -maxdepth 1 -type d
}

# blkid_of DIRECTORY: builds blkid with the patch, from a copy; prints its path.
blkid_of() {
    local tree
    tree=$(mktemp -d "$work/tree.XXXX")
    cp -a "$1/." "$tree"
    (cd "$tree" && patch --silent --strip=1 <"$PATCH" >&2) || die "the patch does not apply to $1"
    meson setup -Dauto_features=disabled -Dbuild-libblkid=enabled -Dwerror=false "$tree/build" "$tree" >"$work/log" 2>&1 &&
        ninja -C "$tree/build" blkid.static >>"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        die "blkid was not built from $1"
    }
    ! grep -A 5 'firnfs\.c.*warning' "$work/log" >&2 || die "the compiler warns of the probe"
    echo "$tree/build/blkid.static"
}

# told TAG FILE: what blkid says of a file; nothing if it says nothing.
told() {
    "$blkid" --probe --match-tag "$1" --output value "$2" || true
}

# is FILE TAG=VALUE...: blkid says just that.
is() {
    local file=$1 pair said
    shift
    for pair in "$@"; do
        said=$(told "${pair%%=*}" "$file")
        [ "$said" = "${pair#*=}" ] || die "$(basename "$file"): ${pair%%=*} is '$said', not '${pair#*=}'"
    done
}

# flip FILE AT BIT: one bit of a byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %x $((byte ^ (1 << $3))))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

uuid_of() {
    "$FIRN" dump "$1" --json | sed -n 's/.*"uuid": *"\([-0-9a-f]*\)".*/\1/p' | head -n 1
}

volumes_are_found() {
    local image=$work/volume.img kind label size longest
    longest=$(printf 'x%.0s' {1..62})é
    for kind in log ffs; do
        for label in '' plain 'with a blank' "$longest"; do
            for size in 4K 64K; do
                rm -f "$image"
                "$FIRN" mkfs "$image" --size 64M --type "$kind" --block-size "$size" --label "$label" >/dev/null
                is "$image" TYPE=firnfs USAGE=filesystem VERSION=1 "LABEL=$label" "UUID=$(uuid_of "$image")" \
                    "BLOCK_SIZE=$((${size%K} * 1024))" "FSSIZE=$((64 << 20))"
            done
        done
    done
    rm -f "$work/resized.img"
    "$FIRN" mkfs "$work/resized.img" --size 64M >/dev/null
    "$FIRN" resize "$work/resized.img" 48M >/dev/null
    is "$work/resized.img" TYPE=firnfs "FSSIZE=$((48 << 20))"
}

# No copy counts but the first: the others outlive a mkfs of another file system, which is what the device is then.
damage_is_not_found() {
    local image=$work/damaged.img kind at bit copies
    for kind in log ffs; do
        rm -f "$image"
        "$FIRN" mkfs "$image" --size 64M --type "$kind" --label damaged >/dev/null
        # In the log these are all other copies, in a Fast File System some.
        copies="$((1 << 20)) $(((64 << 20) - 4096)) $((4096 + 32768)) $((4096 + 65536))"
        for at in $copies; do
            dd if=/dev/urandom of="$image" bs=4096 seek=$((at / 4096)) count=1 conv=notrunc status=none
        done
        is "$image" TYPE=firnfs LABEL=damaged
        for at in $(seq 4096 4271) 4600; do
            bit=$((at % 8))
            flip "$image" "$at" "$bit"
            is "$image" TYPE= LABEL= UUID=
            flip "$image" "$at" "$bit"
        done
        is "$image" TYPE=firnfs LABEL=damaged
        truncate -s 6000 "$image"
        is "$image" TYPE=
    done
}

others_stay_what_they_are() {
    local image=$work/other.img system force
    for system in ext2 ext4 xfs; do
        command -v "mkfs.$system" >/dev/null || continue
        rm -f "$image"
        truncate -s 400M "$image"
        [ "$system" = xfs ] && force=-f || force=-F
        mkfs -t "$system" -L other "$image" >/dev/null 2>&1
        is "$image" "TYPE=$system" LABEL=other
        "$FIRN" mkfs "$image" --force --label mine >/dev/null
        is "$image" TYPE=firnfs LABEL=mine
        # Back: what is left of the volume is none.
        mkfs -t "$system" "$force" -L other "$image" >/dev/null 2>&1
        is "$image" "TYPE=$system" LABEL=other
    done
    rm -f "$image"
    head -c 1M /dev/zero >"$image"
    is "$image" TYPE=
}

sources=("$@")
[ ${#sources[@]} -gt 0 ] || sources=(trixie)
for source in "${sources[@]}"; do
    say "util-linux of $source"
    [ -d "$source" ] || source=$(source_of "$source")
    blkid=$(blkid_of "$source")
    volumes_are_found
    damage_is_not_found
    others_stay_what_they_are
    version=$("$blkid" --version | sed 's/.*util-linux \([^ ]*\).*/\1/')
    say "the patch applies to util-linux $version, which knows volumes by it, and takes nothing else for one"
done
