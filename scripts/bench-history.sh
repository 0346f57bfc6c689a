#!/usr/bin/env bash
# How fast history is, in one command: restore, log, diff, send, snapshot and clone, each beside something that does the same: cp on the same mount,
# subvolumes and send of btrfs, reflinks of XFS. Prints a table; a whole run also puts it into docs/bench/history.md.
#
#   scripts/bench-history.sh [--quick] [--rounds N] [FIGURE...]
#
# FIGURE: clone restore log diff send; by default all of them. --quick takes sizes of a fiftieth or so and prints only.
# btrfs and XFS need root, as cold caches do. Without it they are left out, and "cold" becomes "remounted".
# Takes half an hour, 2 GB of memory and 14 GB under $TMPDIR. Run it on a quiet machine; only the ratios hold on another one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly REPORT=docs/bench/history.md
rounds=5 is_quick='' figures=()
while [ $# -gt 0 ]; do
    case $1 in
        --quick) is_quick=yes ;;
        --rounds) rounds=${2:?} && shift ;;
        clone | restore | log | diff | send) figures+=("$1") ;;
        *) die "'$1' is neither an option nor a figure; see the head of the script" ;;
    esac
    shift
done
is_whole=''
if [ ${#figures[@]} = 0 ]; then
    figures=(clone restore log diff send)
    [ "$is_quick" ] || is_whole=yes
fi
if [ "$is_quick" ]; then
    image_mib=1024 clone_sizes=(1000 5000) restore_files=1000 log_versions=100 log_states=200 diff_files=20000 send_mib=64
else
    image_mib=6144 clone_sizes=(1000 100000) restore_files=10000 log_versions=1000 log_states=10000 diff_files=1000000 send_mib=1024
fi

need fuse3 fusermount3
firn=''
release_firn
daemon=''
dir=$(mktemp -d)
cleanup() {
    local kind
    # An interrupt can come while it is about to mount.
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    # Lazily: what an interrupt has left behind may still use them.
    for kind in firn btrfs xfs; do
        ! mountpoint -q "$dir/$kind" || umount --lazy "$dir/$kind" || fusermount3 -uz "$dir/$kind" || true
    done
    rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)

## The file systems: an image of each, of the same size on the same file system.

is_root='' cold=remounted rivals=()
if [ "$(id -u)" = 0 ]; then
    is_root=yes cold=cold
    want btrfs-progs mkfs.btrfs btrfs
    want xfsprogs mkfs.xfs
    for kind in btrfs xfs; do
        if command -v "mkfs.$kind" >/dev/null && grep -qw "$kind" /proc/filesystems; then
            rivals+=("$kind")
        else
            say "no $kind here: its rows are left out"
        fi
    done
else
    say "not root: no btrfs, no XFS, and 'cold' only means mounted again"
fi

has() { [[ " ${rivals[*]} " = *" $1 "* ]]; }

# fresh KIND [OPTION...]: an empty file system, mounted at $dir/KIND. Its image was written through, so that none of them pays for allocation, and nothing
# is discarded, so that it stays so.
fresh() {
    local image=$dir/$1.img
    leave "$1"
    mkdir -p "$dir/$1"
    [ -e "$image" ] || dd if=/dev/zero of="$image" bs=1M count="$image_mib" oflag=direct conv=fsync status=none
    case $1 in
        firn) "$firn" mkfs "$image" --force "${@:2}" >/dev/null ;;
        btrfs) mkfs.btrfs -q -f -K "$image" 2>/dev/null ;;
        xfs) mkfs.xfs -q -f -K "$image" ;;
    esac
    enter "$1"
}

enter() {
    local image=$dir/$1.img device
    if [ "$1" = firn ]; then
        # In the foreground, so that its process is known.
        "$firn" mount --foreground "$image" "$dir/firn" >"$dir/daemon.log" 2>&1 &
        daemon=$!
        until mountpoint -q "$dir/firn"; do
            kill -0 $daemon 2>/dev/null || die "cannot mount $image: $(cat "$dir/daemon.log")"
            sleep 0.01
        done
        return
    fi
    device=$(losetup --find --show --direct-io=on "$image")
    mount -o nodiscard "$device" "$dir/$1"
    # The device goes with the mount.
    losetup --detach "$device"
}

leave() {
    mountpoint -q "$dir/$1" || return 0
    if [ "$1" = firn ]; then
        "$firn" umount "$dir/firn"
        wait "$daemon" || true
        daemon=''
    else
        umount "$dir/$1"
    fi
}

leave_all() {
    local kind
    for kind in firn "${rivals[@]}"; do leave "$kind"; done
}

# cool KIND: nothing of it is in memory.
cool() {
    leave "$1"
    if [ "$is_root" ]; then
        sync
        echo 3 >/proc/sys/vm/drop_caches
    fi
    enter "$1"
}

# durable KIND COMMAND...: the command, and then everything on that file system survives a power cut.
durable() {
    local kind=$1
    shift
    "$@"
    if [ "$kind" = firn ]; then "$firn" sync "$dir/firn"; else sync -f "$dir/$kind"; fi
}

# bytes_read KIND: what has been read from its device so far.
bytes_read() {
    local device
    if [ "$1" = firn ]; then
        awk '/^read_bytes/ { print $2 }' "/proc/$daemon/io"
    else
        device=$(findmnt -n -o SOURCE "$dir/$1")
        awk '{ printf "%d\n", $3 * 512 }' "/sys/block/${device#/dev/}/stat"
    fi
}

# files DIR COUNT LEAST MOST: files of LEAST to MOST KiB with random content, 100 of a size in each directory.
files() {
    local at kib
    say "making $(grouped "$2") files of $3 to $4 KiB"
    for ((at = 0; at < $2; at += 100)); do
        mkdir -p "$1/$at"
        kib=$(($3 + at / 100 % ($4 - $3 + 1)))
        head -c $((100 * kib * 1024)) /dev/urandom | split -b $((kib * 1024)) - "$1/$at/f"
        echo
    done | counted $((($2 + 99) / 100))
}

## Samples and rows. A sample is what one round measured; a row of the table names samples, and is filled in at the end.

sample() { printf '%s\t%s\t%s\n' "$1" "$round" "$2" >>"$dir/samples"; }

# timed KEY COMMAND...: a sample, in milliseconds.
timed() {
    local key=$1 began=$EPOCHREALTIME ended
    shift
    "$@" >"$dir/out" 2>"$dir/err" || die "'$*' failed: $(cat "$dir/err")"
    ended=$EPOCHREALTIME
    sample "$key" "$((${ended/./} - ${began/./}))e-3"
}

# row TEXT|CACHES|TIME IS|UNIT|KEY|BESIDE|ITS KEY|GOAL: what KEY is, beside another one. GOAL is the most that the ratio may be, or with a unit the value.
row() { printf '%s\n' "$1" >>"$dir/rows"; }

# each_round FUNCTION...: runs each in each round; the first one changes from round to round.
each_round() {
    local at
    say "$rounds rounds: $*"
    for ((round = 1; round <= rounds; round++)); do
        for ((at = 0; at < $#; at++)); do
            "${@:$(((round + at) % $# + 1)):1}"
        done
        echo
    done > >(counted "$rounds")
}

## Snapshot and clone of trees of two sizes. Neither should look at the tree.

measure_clone() {
    local count
    for count in "${clone_sizes[@]}"; do measure_clone_of "$count"; done
}

measure_clone_of() {
    local count=$1 title work=(clone snapshot no_work)
    title="$(grouped "$1") files"
    files "$dir/tree" "$count" 4 4
    fresh firn
    cp -r "$dir/tree" "$dir/firn/tree"
    "$firn" snapshot "$dir/firn" one >/dev/null
    row "snapshot, $title|warm|durable|ms|snapshot-$count|\`firn --version\`|version-$count|50 ms"
    row "clone, $title|warm|durable|ms|clone-$count|\`firn --version\`|version-$count|50 ms"
    if has btrfs; then
        fresh btrfs
        btrfs -q subvolume create "$dir/btrfs/vol"
        durable btrfs cp -r "$dir/tree" "$dir/btrfs/vol/tree"
        work+=(clone_on_btrfs)
        row "clone, $title|warm|durable|ms|clone-$count|btrfs \`subvolume snapshot\`|btrfs-$count|"
    fi
    if has xfs; then
        fresh xfs
        durable xfs cp -r "$dir/tree" "$dir/xfs/tree"
        work+=(clone_on_xfs)
        row "clone, $title|warm|durable|ms|clone-$count|XFS \`cp -a --reflink\`|xfs-$count|"
    fi
    each_round "${work[@]}"
    leave_all
    round=1 timed "fsck-$count" "$firn" fsck "$dir/firn.img"
    row "\`firn fsck\` with $rounds clones, $title|warm||ms|fsck-$count|||"
    rm -rf "$dir/tree" "$dir"/clone*
}

clone() { timed "clone-$count" "$firn" clone "$dir/firn" one "$dir/clone$round"; }

snapshot() { timed "snapshot-$count" "$firn" snapshot "$dir/firn" "s$round"; }

no_work() { timed "version-$count" "$firn" --version; }

clone_on_btrfs() { timed "btrfs-$count" btrfs subvolume snapshot "$dir/btrfs/vol" "$dir/btrfs/s$round"; }

clone_on_xfs() { timed "xfs-$count" durable xfs cp -a --reflink=always "$dir/xfs/tree" "$dir/xfs/clone$round"; }

## A deleted tree comes back: as a directory, file by file, and copied from its twin that is still there.

measure_restore() {
    local title work=(restore_tree restore_deleted copy_twin)
    title="$(grouped "$restore_files") files of 1-8 KiB"
    files "$dir/tree" "$restore_files" 1 8
    # Without automatic states: one of them could have the copy, and `--deleted` would bring that back, too.
    fresh firn --history off
    cp -r "$dir/tree" "$dir/firn/tree"
    cp -r "$dir/tree" "$dir/firn/twin"
    "$firn" snapshot "$dir/firn" full >/dev/null
    rm -r "$dir/firn/tree"
    row "restore a directory of $title|$cold|durable|ms|restore-tree|\`cp -a\` on the same mount|restore-copy|1.5"
    row "restore its files by \`--deleted '*'\`|$cold|durable|ms|restore-deleted|\`cp -a\` on the same mount|restore-copy|1.5"
    if has btrfs; then
        fresh btrfs
        btrfs -q subvolume create "$dir/btrfs/vol"
        cp -r "$dir/tree" "$dir/btrfs/vol/tree"
        btrfs -q subvolume snapshot -r "$dir/btrfs/vol" "$dir/btrfs/full"
        rm -r "$dir/btrfs/vol/tree"
        work+=(restore_on_btrfs)
        row "restore a directory of $title|$cold|durable|ms|restore-tree|btrfs \`cp -a\` from a snapshot|restore-btrfs|"
    fi
    each_round "${work[@]}"
    leave_all
    rm -rf "$dir/tree"
}

restore_tree() { restored firn "$dir/firn/tree" restore-tree "$firn" restore "$dir/firn/tree"; }

restore_deleted() { restored firn "$dir/firn/tree" restore-deleted "$firn" restore "$dir/firn" --deleted '*'; }

copy_twin() { restored firn "$dir/firn/copy" restore-copy cp -a "$dir/firn/twin" "$dir/firn/copy"; }

restore_on_btrfs() {
    restored btrfs "$dir/btrfs/vol/tree" restore-btrfs cp -a "$dir/btrfs/full/tree" "$dir/btrfs/vol/tree"
}

# restored KIND TREE KEY COMMAND...: the command brings the tree back, which is compared and deleted again.
restored() {
    local kind=$1 tree=$2 key=$3
    shift 3
    cool "$kind"
    timed "$key" durable "$kind" "$@"
    diff -r "$dir/tree" "$tree" >&2
    durable "$kind" rm -r "$tree"
}

## The versions of a file, and many states. A volume that keeps fewer than were asked for is measured with these.

measure_log() {
    local text states
    # Without automatic states: they come and go as time passes.
    fresh firn --history off
    make_states "$log_versions"
    text="\`firn log FILE\`, $(asked "$states" "$log_versions") versions"
    row "$text|$cold||ms|log-file-cold|\`stat\` in each state|stat-cold|200 ms"
    row "$text|warm||ms|log-file-warm|\`stat\` in each state|stat-warm|"
    each_round log_file stat_each
    make_states "$log_states"
    text="\`firn log MOUNT\`, $(asked "$states" "$log_states") states"
    row "$text|$cold||ms|log-cold|\`ls\` of the states|ls-cold|1000 ms"
    row "$text|warm||ms|log-warm|\`ls\` of the states|ls-warm|"
    each_round log_volume ls_states
    leave_all
}

log_file() { cold_and_warm log-file "$firn" log "$dir/firn/file"; }

stat_each() { cold_and_warm stat stat_in_each_state; }

log_volume() { cold_and_warm log "$firn" log "$dir/firn"; }

ls_states() { cold_and_warm ls ls "$dir/firn/.firn/history"; }

stat_in_each_state() { stat -c '%n %s %y' "$dir"/firn/.firn/history/*/file; }

cold_and_warm() {
    local key=$1
    shift
    cool firn
    timed "$key-cold" "$@"
    timed "$key-warm" "$@"
}

# make_states COUNT: until there are so many; sets how many there are.
make_states() {
    count_states
    say "states of a file that grows: from $(grouped "$states") to $(grouped "$1")"
    while ((states < $1)); do
        echo "$states" >>"$dir/firn/file"
        "$firn" snapshot "$dir/firn" "s$states" >/dev/null 2>"$dir/err" || break
        states=$((states + 1))
        echo
    done > >(counted $(($1 - states)))
    count_states
    ((states == $1)) || say "the volume keeps no more than $states: $(cat "$dir/err")"
}

count_states() { states=$("$firn" log "$dir/firn" --null | tr -cd '\0' | wc -c); }

# asked STATES WANTED
asked() {
    if (($1 == $2)); then grouped "$1"; else echo "**$1** (asked for $(grouped "$2"); the volume keeps no more)"; fi
}

## Two states of many files, of which 1,000 changed.

measure_diff() {
    local title caches work=(diff_on_firn)
    title="diff of $(grouped "$diff_files") files, 1,000 changed"
    say "making $(grouped "$diff_files") empty files"
    many_files | counted 1000
    fresh firn
    leave firn
    say "copying them"
    "$firn" mkfs "$dir/firn.img" --force --from-dir "$dir/tree" >/dev/null
    enter firn
    "$firn" snapshot "$dir/firn" old >/dev/null
    change_files "$dir/firn"
    "$firn" snapshot "$dir/firn" new >/dev/null
    if has btrfs; then
        states_on_btrfs change_files
        work+=(diff_on_btrfs)
    fi
    rm -rf "$dir/tree"
    for caches in "$cold" warm; do
        row "$title|$caches||ms|diff-${caches/remounted/cold}|\`firn --version\`|version|500 ms"
        ! has btrfs ||
            row "$title|$caches||ms|diff-$caches|btrfs \`send --no-data -p\`|diff-btrfs-$caches|"
    done
    each_round "${work[@]}"
    leave_all
}

# states_on_btrfs CHANGE: the same tree on btrfs, in two snapshots with that change between them.
states_on_btrfs() {
    fresh btrfs
    btrfs -q subvolume create "$dir/btrfs/vol"
    cp -r "$dir/tree" "$dir/btrfs/vol/tree"
    btrfs -q subvolume snapshot -r "$dir/btrfs/vol" "$dir/btrfs/old"
    "$1" "$dir/btrfs/vol/tree"
    btrfs -q subvolume snapshot -r "$dir/btrfs/vol" "$dir/btrfs/new"
}

# The same number in each of 1,000 directories. Prints a line for each directory.
many_files() {
    local at
    for ((at = 0; at < 1000; at++)); do
        mkdir -p "$dir/tree/$at"
        (cd "$dir/tree/$at" && seq -f 'f%.0f' 1 $((diff_files / 1000)) | xargs touch)
        echo
    done
}

change_files() {
    local at
    for ((at = 0; at < 1000; at++)); do
        echo "$at" >"$1/$at/f7"
    done
}

diff_on_firn() {
    local found
    cool firn
    timed diff-cold "$firn" diff "$dir/firn@old" "$dir/firn@new"
    found=$(wc -l <"$dir/out")
    [ "$found" = 1000 ] || die "firn diff printed $found changes and not 1000"
    timed diff-warm "$firn" diff "$dir/firn@old" "$dir/firn@new"
    timed version "$firn" --version
}

diff_on_btrfs() {
    cool btrfs
    timed diff-btrfs-cold btrfs -q send --no-data -p "$dir/btrfs/old" "$dir/btrfs/new"
    timed diff-btrfs-warm btrfs -q send --no-data -p "$dir/btrfs/old" "$dir/btrfs/new"
}

## What changed between two states, as a stream. One file of a hundred was written anew.

measure_send() {
    local count=$((send_mib * 16)) title work=(send_on_firn)
    local directories=$(((count + 99) / 100))
    local changed=$((directories * 65536))
    title="send 1% of $(grouped "$send_mib") MiB in files of 64 KiB"
    files "$dir/tree" "$count" 64 64
    fresh firn
    cp -r "$dir/tree" "$dir/firn/tree"
    "$firn" snapshot "$dir/firn" old >/dev/null
    rewrite "$dir/firn/tree"
    "$firn" snapshot "$dir/firn" new >/dev/null
    row "$title: bytes read / changed|$cold||x|send-firn-read|||1.2 x"
    row "$title: bytes sent / changed|$cold||x|send-firn-stream|||"
    if has btrfs; then
        states_on_btrfs rewrite
        work+=(send_on_btrfs)
        row "$title: bytes read / changed|$cold||x|send-firn-read|btrfs \`send -p\`|send-btrfs-read|"
        row "$title: bytes sent / changed|$cold||x|send-firn-stream|btrfs \`send -p\`|send-btrfs-stream|"
        row "$title|$cold|buffered|ms|send-firn|btrfs \`send -p\`|send-btrfs|"
    fi
    rm -rf "$dir/tree"
    each_round "${work[@]}"
    leave_all
}

rewrite() {
    local directory
    for directory in "$1"/*; do
        head -c 65536 /dev/urandom >"$directory/fab"
    done
}

send_on_firn() { sent firn "$firn" send "$dir/firn@old..new"; }

send_on_btrfs() { sent btrfs btrfs -q send -p "$dir/btrfs/old" "$dir/btrfs/new"; }

# sent KIND COMMAND...: reads from its device and the size of the stream, in units of what changed.
sent() {
    local kind=$1 before after
    shift
    cool "$kind"
    before=$(bytes_read "$kind")
    timed "send-$kind" "$@"
    after=$(bytes_read "$kind")
    sample "send-$kind-read" "$(ratio $((after - before)) "$changed")"
    sample "send-$kind-stream" "$(ratio "$(stat -c %s "$dir/out")" "$changed")"
}

## The table.

# grouped NUMBER: with a comma between thousands.
grouped() { sed -e ':a' -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/;ta' <<<"$1"; }

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.4f", a / b }'; }

table() {
    echo "| figure | caches | time is | firnfs | beside it | | ratio | goal |"
    echo "|---|---|---|---|---|---|---|---|"
    awk -F '|' -v samples="$dir/samples" '
        function median(text,    list, count, i, j, held) {
            count = split(text, list, " ")
            for (i = 2; i <= count; i++) {
                held = list[i]
                for (j = i - 1; j > 0 && list[j] + 0 > held + 0; j--) list[j + 1] = list[j]
                list[j + 1] = held
            }
            least = list[1]; most = list[count]
            return count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2
        }
        function digits(value) { return sprintf(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value) }
        function shown(text, unit,    middle) {
            middle = median(text)
            return digits(middle) (unit == "ms" ? " ms" : "") " (" digits(least + 0) "-" digits(most + 0) ")"
        }
        BEGIN {
            while ((getline line < samples) > 0) {
                split(line, field, "\t")
                value[field[1], field[2]] = field[3] + 0
                all[field[1]] = all[field[1]] " " field[3] + 0
                if (field[2] > rounds) rounds = field[2]
            }
        }
        {
            ratios = ""
            for (i = 1; $7 != "" && i <= rounds; i++)
                if (($5, i) in value && ($7, i) in value) ratios = ratios " " value[$5, i] / value[$7, i]
            reached = $8 ~ / / ? median(all[$5]) : median(ratios)
            verdict = $8 == "" ? "" : "<= " $8 (reached > $8 + 0 ? ": **missed**" : ": met")
            printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, shown(all[$5], $4), $6, \
                $7 == "" ? "" : shown(all[$7], $4), $7 == "" ? "" : shown(ratios, ""), verdict
        }' "$dir/rows"
}

machine() {
    echo "$("$firn" --version), $(date -u +%F); $(nproc) processors ($(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo))," \
        "Linux $(uname -r), $(df --output=fstype "$dir" | tail -1) beneath the images; $rounds interleaved rounds;" \
        "load average before the run: $load."
}

for figure in "${figures[@]}"; do "measure_$figure"; done
machine >"$dir/table"
echo >>"$dir/table"
table >>"$dir/table"
cat "$dir/table"
[ "$is_whole" ] || exit 0
# The text around the table stays.
awk -v table="$dir/table" '
    /^<!-- end of the table -->/ { is_inside = 0 }
    !is_inside { print }
    /^<!-- table of/ { is_inside = 1; while ((getline line < table) > 0) print line }' "$REPORT" >"$dir/report"
cp "$dir/report" "$REPORT"
say "written: $REPORT"
