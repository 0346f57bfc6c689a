#!/usr/bin/env bash
# Makes docs/screen.svg, the picture in the README: runs a short session on a real volume and draws what was printed.
# Run it again whenever the output of a command changes. Needs what mounting needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need fuse3 fusermount3
cargo build --quiet --release --locked -p firnfs-cli
root=$PWD
PATH=${CARGO_TARGET_DIR:-$root/target}/release:$PATH

work=$(mktemp -d)
cleanup() {
    cd /
    ! mountpoint -q "$work/mnt" || firn umount "$work/mnt"
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work"
mkdir mnt
git clone --quiet "$root" "$work/firnfs"

session() {
    local command
    while IFS= read -r command; do
        printf '$ %s\n' "$command"
        bash -c "$command" 2>&1 || true
    done
}

session >screen.txt <<'END'
firn mkfs disk.img --size 256M --label demo
firn mount disk.img mnt
cp -r firnfs mnt/ && git -C mnt/firnfs status --short | wc -l
rm -rf mnt/firnfs/crates/fs && git -C mnt/firnfs checkout --quiet . && diff -r -x .git firnfs mnt/firnfs && echo same
firn sync mnt; firn stat mnt
firn df mnt
firn umount mnt
firn fsck disk.img
firn dump disk.img
END

# Paths of the machine that drew the picture mean nothing to readers of the picture.
sed -i "s|$work/||g" screen.txt
awk '
    BEGIN { size = 13; line = 18; left = 16; top = 30 }
    {
        # Some awks count bytes: of what is wider than the picture only command lines are cut, which have nothing but ASCII.
        if (/^\$ / && length($0) > 118) $0 = substr($0, 1, 117) "…"
        gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); gsub(/>/, "\\&gt;")
        text[NR] = $0
    }
    END {
        height = top + NR * line + 8
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"980\" height=\"%d\" font-family=\"ui-monospace, monospace\" font-size=\"%d\">\n", height, size
        printf "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#10161d\"/>\n"
        for (i = 1; i <= NR; i++) {
            fill = text[i] ~ /^\$ / ? "#8fd3ff" : "#d7dee6"
            printf "<text x=\"%d\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\">%s</text>\n", left, top + (i - 1) * line, fill, text[i]
        }
        print "</svg>"
    }' screen.txt >"$root/docs/screen.svg"
cat screen.txt
