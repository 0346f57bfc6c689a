#!/usr/bin/env bash
# What history costs on a volume that is nearly full and is written at random as fast as it can: the cleaner works all the time, states are
# made every 5 s and give way soon. Prints a table.
#
#   scripts/bench-full.sh [--rounds N] [--firn PROGRAM]
#
# Two volumes of 2 GiB in memory with a file of 1400 MiB each (80% full): one keeps states as `firn mkfs` makes it, one none. A round
# rewrites 20,000 blocks of 64 KiB on both, in alternating order, with an fsync after each 16. The images are in memory, so that processors set
# the pace: a device that is slower leaves more of them to the cleaner. --firn measures that program and builds none.
# Takes 10 minutes, and 5 GB of memory. Run it on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

rounds=9 firn=''
rounds_and_firn "$@"
need fuse3 fusermount3
need perl perl
release_firn
memory_directory
cleanup() {
    local kind
    for kind in history none; do
        ! mountpoint -q "$dir/$kind" || "$firn" umount --lazy "$dir/$kind" || true
    done
    rm -rf --one-file-system "$dir"
}
trap cleanup EXIT

# rewrites KIND SEED COUNT
rewrites() {
    perl -MIO::Handle -e '
        my ($path, $seed, $count) = @ARGV;
        srand $seed;
        open my $file, "+<", $path or die "$path: $!\n";
        my $block = join "", map { chr int rand 256 } 1 .. 65536;
        for my $n (1 .. $count) {
            substr $block, 0, 8, pack "NN", $seed, $n;
            sysseek $file, int(rand 22400) * 65536, 0 or die "seek: $!\n";
            syswrite($file, $block) == 65536 or die "write: $!\n";
            $n % 16 or $file->sync or die "fsync: $!\n";
        }
    ' "$dir/$1/file" "$2" "$3"
}

measure() {
    local began=$EPOCHREALTIME ended
    rewrites "$1" "$2" 20000
    ended=$EPOCHREALTIME
    echo "$2 $1 $((${ended/./} - ${began/./}))" >>"$dir/samples"
}

for kind in history none; do
    mkdir "$dir/$kind"
    "$firn" mkfs "$dir/$kind.img" --size 2G >/dev/null
    "$firn" mount "$dir/$kind.img" "$dir/$kind"
    [ $kind = history ] || "$firn" retain "$dir/$kind" --off >/dev/null
    head -c 1400M /dev/urandom >"$dir/$kind/file"
    rewrites $kind 0 30000
done
say "$rounds rounds"
for ((round = 1; round <= rounds; round++)); do
    if ((round % 2)); then order=(history none); else order=(none history); fi
    for kind in "${order[@]}"; do measure "$kind" "$round"; done
    echo
done > >(counted "$rounds")
echo "$("$firn" --version), $(date -u +%F); $(nproc) processors, Linux $(uname -r), images in memory; $rounds interleaved rounds, medians (smallest-largest)."
echo
echo "| | MB/s with history | MB/s without | time with / without | write amplification with / without |"
echo "|---|---|---|---|---|"
amplification() { "$firn" stat "$dir/$1" --cleaning --json | grep -o '"write_amplification": *[0-9.]*' | head -1 | grep -o '[0-9.]*$'; }
awk -v with="$(amplification history)" -v without="$(amplification none)" '
    function sorted(list, count,    i, j, held) {
        for (i = 2; i <= count; i++) {
            held = list[i]
            for (j = i - 1; j > 0 && list[j] > held; j--) list[j + 1] = list[j]
            list[j + 1] = held
        }
    }
    function shown(list, count, form) {
        sorted(list, count)
        return sprintf(form " (" form "-" form ")", list[int((count + 1) / 2)], list[1], list[count])
    }
    { us[$1, $2] = $3; if ($1 > rounds) rounds = $1 }
    END {
        bytes = 20000 * 65536
        for (r = 1; r <= rounds; r++) {
            a[r] = bytes / us[r, "history"]; b[r] = bytes / us[r, "none"]; c[r] = us[r, "history"] / us[r, "none"]
        }
        printf "| random 64 KiB, 80%% full, fsync after 1 MiB | %s | %s | %s | %.2f / %.2f |\n", shown(a, rounds, "%.0f"),
            shown(b, rounds, "%.0f"), shown(c, rounds, "%.2f"), with, without
    }' "$dir/samples"
