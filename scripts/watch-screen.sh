#!/usr/bin/env bash
# Makes docs/watch.svg, the picture of `firn watch` in the README: a small volume, four fifths full, whose files are rewritten at random,
# so that the cleaner works; what the terminal shows is drawn with its colours. Needs what mounting needs, and tmux.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
need fuse3 fusermount3
need tmux tmux
cargo build --quiet --release --locked -p firnfs-cli
root=$PWD
PATH=${CARGO_TARGET_DIR:-$root/target}/release:$PATH

work=$(mktemp -d)
session=firn-watch-$$
cleanup() {
    cd /
    tmux kill-session -t "$session" 2>/dev/null || true
    ! mountpoint -q "$work/mnt" || firn umount "$work/mnt"
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work"
mkdir mnt
firn mkfs disk.img --size 640M --label demo >/dev/null
firn mount disk.img mnt
for n in $(seq 220); do head -c 2M /dev/urandom >"mnt/file$n"; done
firn sync mnt
tmux new-session -d -x 100 -y 34 -s "$session" "env COLORTERM=truecolor firn watch mnt --color always --policy greedy; sleep 60"
# Nine of ten writes go to a tenth of the files.
RANDOM=7
end=$((SECONDS + 45))
while ((SECONDS < end)); do
    for _ in $(seq 10); do
        n=$((RANDOM % 10 ? RANDOM % 22 + 1 : RANDOM % 220 + 1))
        dd if=/dev/urandom of="mnt/file$n" bs=64K count=2 seek=$((RANDOM % 30)) conv=notrunc status=none
    done
done
tmux capture-pane -e -p -t "$session" >screen.txt

# Paths of the machine that drew the picture mean nothing to readers of the picture.
sed -i "s|$work/||g" screen.txt
awk '
    # The colours 0 to 15, then a cube of 6 x 6 x 6, then 24 greys, as terminals number them.
    function level(n) { return n ? 55 + n * 40 : 0 }
    function colour(n) {
        if (n < 16) return "#" named[n + 1]
        if (n < 232) { n -= 16; return sprintf("#%02x%02x%02x", level(int(n / 36)), level(int(n / 6) % 6), level(n % 6)) }
        return sprintf("#%02x%02x%02x", 8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10)
    }
    function set(codes,   part, count, i) {
        count = split(codes == "" ? "0" : codes, part, ";")
        for (i = 1; i <= count; i++) {
            if (part[i] == 0) { ink = plain; paper = ""; bold = 0; swap = 0 }
            else if (part[i] == 1) bold = 1
            else if (part[i] == 7) swap = 1
            else if (part[i] == 27) swap = 0
            else if (part[i] == 22) bold = 0
            else if (part[i] >= 30 && part[i] <= 37) ink = colour(part[i] - 30)
            else if (part[i] >= 90 && part[i] <= 97) ink = colour(part[i] - 82)
            else if (part[i] >= 40 && part[i] <= 47) paper = colour(part[i] - 40)
            else if (part[i] >= 100 && part[i] <= 107) paper = colour(part[i] - 92)
            else if (part[i] == 39) ink = plain
            else if (part[i] == 49) paper = ""
            else if (part[i] == 38 || part[i] == 48) {
                value = part[i + 1] == 5 ? colour(part[i + 2]) : sprintf("#%02x%02x%02x", part[i + 2], part[i + 3], part[i + 4])
                if (part[i] == 38) ink = value; else paper = value
                i += part[i + 1] == 5 ? 2 : 4
            }
        }
    }
    function draw(piece,   x, shown, behind) {
        if (piece == "") return
        x = left + column * wide
        shown = swap ? (paper == "" ? back : paper) : ink
        behind = swap ? ink : paper
        if (behind != "") out = out sprintf("<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x, y - 13, columns(piece) * wide, line, behind)
        column += columns(piece)
        gsub(/&/, "\\&amp;", piece); gsub(/</, "\\&lt;", piece); gsub(/>/, "\\&gt;", piece)
        out = out sprintf("<text x=\"%.1f\" y=\"%d\" fill=\"%s\"%s xml:space=\"preserve\">%s</text>\n", x, y, shown, bold ? " font-weight=\"bold\"" : "", piece)
    }
    # Characters: bytes that do not go on with one.
    function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }
    BEGIN {
        split("20262d ff6b6b 7bd88f ffd866 6cb6ff d787ff 5fd7d7 d7dee6 6b7683 ff8787 9be8a8 ffe08a 8fc8ff e3a8ff 87ffff ffffff", named, " ")
        plain = "#d7dee6"; back = "#10161d"; ink = plain; line = 17; wide = 7.83; left = 16; top = 28
    }
    {
        y = top + (NR - 1) * line; column = 0; rest = $0
        while (match(rest, /\033\[[0-9;]*m/)) {
            draw(substr(rest, 1, RSTART - 1))
            set(substr(rest, RSTART + 2, RLENGTH - 3))
            rest = substr(rest, RSTART + RLENGTH)
        }
        draw(rest)
    }
    END {
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"ui-monospace, monospace\" font-size=\"13\">\n", 2 * left + 100 * wide, top + NR * line
        printf "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"%s\"/>\n%s</svg>\n", back, out
    }' screen.txt >"$root/docs/watch.svg"
