#!/usr/bin/env bash
# What it costs to be watched: random rewrites of 64 KiB with fsync, without and with `firn watch` on a terminal of its own. Prints a table.
#
#   scripts/bench-watch.sh [--quick] [--rounds N] [--firn PROGRAM]
#
# Pairs of the same writes, one watched and one not, in alternating order, at --interval 1 and 0.1. The goal is 1% of the throughput at most.
# Processor times are those of all threads (schedstat). --quick takes half of the writes, a smaller volume, and four rounds; --firn measures
# that program and builds none.
# Takes half an hour, and 2.5 GB under $TMPDIR. Run it on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly BLOCK_KIB=64 BLOCKS_OF_AN_FSYNC=16 INTERVALS=(1 0.1)
rounds='' is_quick='' firn=''
while [ $# -gt 0 ]; do
    case $1 in
        --quick) is_quick=yes ;;
        --rounds) rounds=${2:?} && shift ;;
        --firn) firn=${2:?} && shift ;;
        *) die "'$1' is not an option; see the head of the script" ;;
    esac
    shift
done
if [ "$is_quick" ]; then
    : "${rounds:=4}"
    image_mib=512 file_mib=320 writes=1600 scattering=6400
else
    : "${rounds:=40}"
    image_mib=2048 file_mib=1400 writes=3200 scattering=32000
fi

need fuse3 fusermount3
need perl perl
need bsdutils script
if [ ! "$firn" ]; then
    need_rust
    say "building firn"
    cargo build --release --locked -p firnfs-cli
    firn=${CARGO_TARGET_DIR:-$PWD/target}/release/firn
fi
firn=$(realpath "$firn")
daemon='' watcher=''
dir=$(mktemp -d)
cleanup() {
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    ! mountpoint -q "$dir/mnt" || fusermount3 -uz "$dir/mnt" || true
    rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)

# processor_ns PID: what all threads of a process have used of the processors.
processor_ns() { awk '{ sum += $1 } END { printf "%.0f\n", sum }' /proc/"$1"/task/*/schedstat; }

# rewrites SEED COUNT: of the file, at random places; the last ones are durable in the end.
rewrites() {
    perl -MIO::Handle -e '
        my ($path, $seed, $count, $blocks, $bytes, $each) = @ARGV;
        srand $seed;
        open my $file, "+<", $path or die "$path: $!\n";
        my $block = join "", map { chr int rand 256 } 1 .. $bytes;
        for my $n (1 .. $count) {
            substr $block, 0, 8, pack "NN", $seed, $n;
            sysseek $file, int(rand $blocks) * $bytes, 0 or die "seek: $!\n";
            syswrite($file, $block) == $bytes or die "write: $!\n";
            $n % $each or $file->sync or die "fsync: $!\n";
        }
        $file->sync or die "fsync: $!\n";
    ' "$dir/mnt/file" "$1" "$2" $((file_mib * 1024 / BLOCK_KIB)) $((BLOCK_KIB * 1024)) "$BLOCKS_OF_AN_FSYNC"
}

# watch INTERVAL: on a terminal of 120 by 40 where nobody types, until unwatch.
watch() {
    rm -f "$dir/watcher"
    # shellcheck disable=SC2016  # the inner shell is to expand it
    TERM=xterm script -qec "stty cols 120 rows 40; sh -c 'echo \$\$ >$dir/watcher; exec $firn watch $dir/mnt --interval $1'" /dev/null \
        <"$dir/keys" >"$dir/screen" 2>&1 &
    script=$!
    until [ -s "$dir/watcher" ]; do sleep 0.01; done
    watcher=$(cat "$dir/watcher")
    # Its first look has the whole map.
    sleep 1
    kill -0 "$watcher" 2>/dev/null || die "firn watch has ended: $(tail -c 300 "$dir/screen")"
}

unwatch() {
    kill "$watcher"
    wait "$script" || true
    watcher=''
}

# measure INTERVAL ROUND [watched]: adds a line to the samples: interval, round, watched or alone, microseconds, processor time of the daemon and of the watcher
# in nanoseconds.
measure() {
    local began ended daemon_ns watcher_ns=0 before=0
    "$firn" sync "$dir/mnt"
    if [ "$3" = watched ]; then
        watch "$1"
        before=$(processor_ns "$watcher")
    else
        # The same rest as before a watched load: the cleaner may use it.
        sleep 1
    fi
    daemon_ns=$(processor_ns "$daemon")
    began=$EPOCHREALTIME
    rewrites "$2" "$writes"
    ended=$EPOCHREALTIME
    daemon_ns=$(($(processor_ns "$daemon") - daemon_ns))
    if [ "$3" = watched ]; then
        watcher_ns=$(($(processor_ns "$watcher") - before))
        unwatch
    fi
    echo "$1 $2 $3 $((${ended/./} - ${began/./})) $daemon_ns $watcher_ns" >>"$dir/samples"
}

pairs() {
    local interval round
    for interval in "${INTERVALS[@]}"; do
        for ((round = 1; round <= rounds; round++)); do
            if ((round % 2)); then
                measure "$interval" "$round" alone
                measure "$interval" "$round" watched
            else
                measure "$interval" "$round" watched
                measure "$interval" "$round" alone
            fi
            echo
        done
    done
}

table() {
    echo "| firn watch --interval | MB/s alone | time, watched / alone | daemon's processor time, watched / alone | processor of firn watch | goal |"
    echo "|---|---|---|---|---|---|"
    awk -v bytes=$((writes * BLOCK_KIB * 1024)) -v rounds="$rounds" '
        # The value below which that share of a list lies.
        function quantile(text, share,    list, count, i, j, held, at) {
            count = split(text, list, " ")
            for (i = 2; i <= count; i++) {
                held = list[i]
                for (j = i - 1; j > 0 && list[j] + 0 > held + 0; j--) list[j + 1] = list[j]
                list[j + 1] = held
            }
            at = 1 + (count - 1) * share
            i = int(at)
            return list[i] + (i < count ? (at - i) * (list[i + 1] - list[i]) : 0)
        }
        function shown(text, form) {
            return sprintf(form " (" form "-" form ")", quantile(text, 0.5), quantile(text, 0.25), quantile(text, 0.75))
        }
        { if (!($1 in known)) { known[$1] = 1; order[++intervals] = $1 }
          us[$1, $2, $3] = $4; daemon[$1, $2, $3] = $5; watcher[$1, $2] += $6 }
        END {
            for (n = 1; n <= intervals; n++) {
                at = order[n]; times = ratios = cpu = own = ""
                for (r = 1; r <= rounds; r++) {
                    times = times " " bytes / us[at, r, "alone"]
                    ratios = ratios " " us[at, r, "watched"] / us[at, r, "alone"]
                    cpu = cpu " " daemon[at, r, "watched"] / daemon[at, r, "alone"]
                    own = own " " watcher[at, r] / us[at, r, "watched"] / 10
                }
                verdict = quantile(ratios, 0.5) > 1.01 ? "**missed**" : "met"
                if (quantile(ratios, 0.25) <= 1.01 && quantile(ratios, 0.75) > 1.01) verdict = verdict ", within the noise"
                printf "| %s s | %s | %s | %s | %s %% | <= 1.01: %s |\n", at, shown(times, "%.0f"), shown(ratios, "%.3f"),
                    shown(cpu, "%.3f"), shown(own, "%.2f"), verdict
            }
        }' "$dir/samples"
}

say "a volume of $image_mib MiB with a file of $file_mib MiB"
mkdir "$dir/mnt"
mkfifo "$dir/keys"
exec 3<>"$dir/keys"
"$firn" mkfs "$dir/image" --size "${image_mib}M" >/dev/null
# In the foreground, so that its process is known.
"$firn" mount --foreground "$dir/image" "$dir/mnt" >"$dir/daemon.log" 2>&1 &
daemon=$!
until mountpoint -q "$dir/mnt"; do
    kill -0 $daemon 2>/dev/null || die "cannot mount: $(cat "$dir/daemon.log")"
    sleep 0.01
done
head -c $((file_mib << 20)) /dev/urandom >"$dir/mnt/file"
# From the first pair on, the log is as scattered as it stays.
rewrites 0 $scattering
say "${#INTERVALS[@]} times $rounds pairs of $writes writes"
# In this shell, so that it knows what to end.
pairs > >(counted $((${#INTERVALS[@]} * rounds)))
echo "$("$firn" --version), $(date -u +%F); $(nproc) processors, Linux $(uname -r), $(df --output=fstype "$dir" | tail -1) beneath the image;" \
    "$rounds pairs a row, medians with quartiles; load average before the run: $load."
echo
table
"$firn" umount "$dir/mnt"
wait "$daemon" || true
daemon=''
