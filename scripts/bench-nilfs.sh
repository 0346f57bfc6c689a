#!/usr/bin/env bash
# Snapshots of firnfs beside checkpoints of NILFS2, which distributions rarely build into their kernels: in a kernel that runs as a user's
# program (user-mode Linux), with both file systems on disks in memory. Prints a table.
#
#   scripts/bench-nilfs.sh [--rounds N] [--firn PROGRAM]
#
# A round changes 100 of 1,000 files of 4 KiB, makes a snapshot, lists all, reads all files of the snapshot cold, and deletes an older
# one; on both file systems, the order changes. That kernel has one processor and is slow at system calls and processes, so only the ratios say
# something, and `--version` says what part of them is a program's start. Cold: after both were unmounted and the guest has dropped its caches.
# --firn measures that program and builds none. Takes two minutes and 2 GB of memory.
set -euo pipefail

readonly COUNT=1000 IMAGE_MIB=512

## In the guest: this script is its first process.

# Prints lines "KEY VALUE".
guest() {
    local kind=firn turn
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t tmpfs run /run
    mountpoint -q /dev || mount -t devtmpfs dev /dev
    # The tools of NILFS2 lock its cleaner by a semaphore in there.
    mkdir -p /dev/shm
    mount -t tmpfs shm /dev/shm
    for module in nilfs2/nilfs2 fuse/fuse; do insmod "/usr/lib/uml/modules/$(uname -r)/kernel/fs/$module.ko"; done
    mkdir -p /run/firn /run/nilfs /run/past
    enter_firn
    enter_nilfs
    for kind in firn nilfs; do rewrite 1 10; done
    for ((round = 1; round <= rounds; round++)); do
        for turn in 0 1; do
            if (((round + turn) % 2)); then kind=firn; else kind=nilfs; fi
            rewrite $((round % 10 + 1)) $((round % 10 + 1))
            one_round
        done
    done
    leave_firn
    leave_nilfs
    echo "kernel $(uname -r)"
    echo "done $rounds"
}

# rewrite FIRST LAST: the files of some directories of $kind; what was written is durable.
rewrite() {
    local nth
    for ((nth = $1; nth <= $2; nth++)); do
        mkdir -p "/run/$kind/d$nth"
        head -c $((100 * 4096)) /dev/urandom | split -a 2 -d -b 4096 - "/run/$kind/d$nth/f"
    done
    flush
}

flush() { if [ "$kind" = firn ]; then "$firn_program" sync /run/firn; else sync -f /run/nilfs; fi; }

one_round() {
    timed start "$([ "$kind" = firn ] && echo "$firn_program" || echo lscp)" --version
    timed snapshot "make_$kind"
    timed list "list_$kind"
    leave_$kind
    echo 3 >/proc/sys/vm/drop_caches
    enter_$kind
    timed read "read_$kind"
    ((round == 1)) || timed delete "delete_$kind"
}

timed() {
    local key=$1 began=$EPOCHREALTIME ended
    shift
    "$@" >/dev/null || echo "failed $*"
    ended=$EPOCHREALTIME
    echo "$kind-$key $(((${ended/./} - ${began/./})))"
}

enter_firn() { "$firn_program" mount /dev/ubda /run/firn >/dev/null; }
enter_nilfs() { mount -t nilfs2 -o nodiscard /dev/ubdb /run/nilfs; }
leave_firn() { "$firn_program" umount /run/firn; }
leave_nilfs() { umount /run/nilfs; }
make_firn() { "$firn_program" snapshot /run/firn "s$round"; }
make_nilfs() { mkcp -s /dev/ubdb; }
list_firn() { "$firn_program" log /run/firn; }
list_nilfs() { lscp /dev/ubdb; }
read_firn() { cat "/run/firn/.firn/history/s$round"/d*/f*; }
read_nilfs() {
    mount -t nilfs2 -o "ro,nodiscard,cp=$(snapshot_of_nilfs -1)" /dev/ubdb /run/past
    cat /run/past/d*/f*
    umount /run/past
}
delete_firn() { "$firn_program" snapshot /run/firn --delete "s$((round - 1))"; }
delete_nilfs() {
    local number
    number=$(snapshot_of_nilfs 0)
    chcp cp /dev/ubdb "$number"
    rmcp /dev/ubdb "$number"
}

# snapshot_of_nilfs INDEX: the number of a snapshot; 0 is the oldest, -1 the newest.
snapshot_of_nilfs() {
    local numbers
    read -r -d '' -a numbers <<<"$(lscp -s /dev/ubdb | awk 'NR > 1 { print $1 }')" || true
    echo "${numbers[$1]}"
}

if [ $$ = 1 ]; then
    guest || echo "failed guest"
    echo o >/proc/sysrq-trigger
    sleep 10
fi

## Outside.

cd "$(dirname "$0")/.."
. scripts/lib.sh
rounds=9 firn=''
rounds_and_firn "$@"
need user-mode-linux linux.uml
need nilfs-tools mkfs.nilfs2
need kmod insmod
need fuse3 fusermount3
release_firn
memory_directory
trap 'rm -rf "$dir"' EXIT
for kind in firn nilfs; do dd if=/dev/zero of="$dir/$kind.img" bs=1M count=$IMAGE_MIB status=none; done
"$firn" mkfs "$dir/firn.img" --force --history off >/dev/null
PATH=$PATH:/usr/sbin:/sbin mkfs.nilfs2 -q -f -K "$dir/nilfs.img"
say "$rounds rounds in a kernel of its own"
# The guest's standard input must not be this script's. Names that the kernel does not know become variables of its first process.
linux.uml mem=768M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet con=null con0=null,fd:1 \
    "ubd0=$dir/firn.img" "ubd1=$dir/nilfs.img" "init=$PWD/scripts/bench-nilfs.sh" \
    "firn_program=$firn" "rounds=$rounds" </dev/null >"$dir/out" 2>&1 || true
grep -q "^done $rounds" "$dir/out" || die "the guest did not come to its end: $(tail -5 "$dir/out")"
! grep -q "^failed" "$dir/out" || die "in the guest: $(cat "$dir/out")"

# median KEY: median, smallest and largest, in milliseconds.
median() {
    tr -d '\r' <"$dir/out" | awk -v key="$1" '$1 == key { print $2 / 1000 }' | sort -g |
        awk '{ value[NR] = $1 } END { printf "%.0f (%.0f-%.0f)", value[int((NR + 1) / 2)], value[1], value[NR] }'
}

# row TEXT KEY
row() {
    local firn_median nilfs_median
    firn_median=$(median "firn-$2")
    nilfs_median=$(median "nilfs-$2")
    echo "| $1 | $firn_median | $nilfs_median | $(awk -v a="${firn_median%% *}" -v b="${nilfs_median%% *}" 'BEGIN { printf "%.2f", a / b }') |"
}

echo "$("$firn" --version), $(date +%F); user-mode Linux $(tr -d '\r' <"$dir/out" | sed -n 's/^kernel //p'), one processor, disks in memory; $rounds interleaved rounds, medians (smallest-largest)."
echo
echo "| | firnfs | NILFS2 | ratio of the medians |"
echo "|---|---|---|---|"
row "make a snapshot, durable, ms" snapshot
row "list, ms" list
row "read its $COUNT files, cold, ms" read
row "delete one, ms" delete
row "\`firn --version\`, \`lscp --version\`, ms" start
