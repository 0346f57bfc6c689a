#!/usr/bin/env bash
# What it costs to be watched: random rewrites of 64 KiB with fsync, without and with `firn watch` on a terminal of its own. Prints a table.
#
#   scripts/bench-watch.sh [--quick] [--pairs N] [--firn PROGRAM]
#
# The image is in memory: no device sets the pace, so processors do, and what watching takes of them shows most. One writer writes all the
# time; `firn watch` is stopped (SIGSTOP) and goes on in turns of as many writes as take about 2 s. Two neighbouring turns are a pair, and
# the order alternates. The goal is 1% of the throughput at most. Processor times are those of all threads (schedstat). --quick takes a
# smaller volume and ten pairs; --firn measures that program and builds none.
# Takes half an hour, and 2.5 GB of memory. Run it on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly BLOCK_KIB=64 BLOCKS_OF_AN_FSYNC=16 INTERVALS=(1 0.1)
pairs='' is_quick='' firn=''
while [ $# -gt 0 ]; do
    case $1 in
        --quick) is_quick=yes ;;
        --pairs) pairs=${2:?} && shift ;;
        --firn) firn=${2:?} && shift ;;
        *) die "'$1' is not an option; see the head of the script" ;;
    esac
    shift
done
if [ "$is_quick" ]; then
    : "${pairs:=10}"
    image_mib=512 file_mib=320 scattering=6400
else
    : "${pairs:=200}"
    image_mib=2048 file_mib=1400 scattering=32000
fi
readonly TURN_S=2

need fuse3 fusermount3
need perl perl
need bsdutils script
release_firn
daemon='' watcher=''
memory_directory
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

# rewrites SEED COUNT [TURNS WATCHER TERMINAL INTERVAL]: of the file, at random places; the last ones are durable in the end. COUNT writes in each of
# TURNS turns, in which the watcher runs or is stopped. Prints for each pair of turns: INTERVAL; microseconds alone and watched; processor time of the
# daemon, alone and watched, and of the watcher while it runs, in nanoseconds.
rewrites() {
    perl -MIO::Handle -MTime::HiRes=time,sleep -e '
        STDOUT->autoflush(1);
        my ($path, $blocks, $bytes, $each, $daemon, $seed, $count, $turns, $watcher, $terminal, $interval) = @ARGV;
        my @pair;
        srand $seed;
        open my $file, "+<", $path or die "$path: $!\n";
        my $block = join "", map { chr int rand 256 } 1 .. $bytes;
        my $used = sub {
            my $sum = 0;
            for my $stat (glob "/proc/$_[0]/task/*/schedstat") {
                open my $text, "<", $stat or next;
                $sum += (split " ", <$text>)[0];
            }
            return $sum;
        };
        my $n = 0;
        for my $turn (0 .. ($turns || 1) - 1) {
            # alone, watched, watched, alone, ...
            my $is_watched = ($turn + 1 & 2) / 2;
            # script stops when what runs on its terminal does.
            kill $is_watched ? "CONT" : "STOP", $watcher, $terminal or die "firn watch has ended\n" if $watcher;
            sleep 0.1 if $watcher;
            my @before = map { $used->($_) } $daemon, $watcher || 0;
            my $began = time;
            for (1 .. $count) {
                substr $block, 0, 8, pack "NN", $seed, ++$n;
                sysseek $file, int(rand $blocks) * $bytes, 0 or die "seek: $!\n";
                syswrite($file, $block) == $bytes or die "write: $!\n";
                $n % $each or $file->sync or die "fsync: $!\n";
            }
            $file->sync or die "fsync: $!\n";
            my $us = int(1e6 * (time - $began));
            my @after = map { $used->($_) } $daemon, $watcher || 0;
            $pair[$is_watched] = [$us, map { $after[$_] - $before[$_] } 0, 1];
            my ($alone, $watched) = @pair;
            print join(" ", $interval, $alone->[0], $watched->[0], $alone->[1], @$watched[1, 2]), "\n" if $watcher && $turn % 2;
        }
    ' "$dir/mnt/file" $((file_mib * 1024 / BLOCK_KIB)) $((BLOCK_KIB * 1024)) "$BLOCKS_OF_AN_FSYNC" "$daemon" "$@"
}

# watch INTERVAL: on a terminal of 120 by 40 where nobody types, until unwatch.
watch() {
    rm -f "$dir/watcher"
    # A session of its own: a stopped process in ours would end the writer (SIGHUP).
    # shellcheck disable=SC2016  # the inner shell is to expand it
    TERM=xterm setsid script -qec "stty cols 120 rows 40; sh -c 'echo \$\$ >$dir/watcher; exec $firn watch $dir/mnt --interval $1'" /dev/null \
        <"$dir/keys" >"$dir/screen" 2>&1 &
    script=$!
    until [ -s "$dir/watcher" ]; do sleep 0.01; done
    watcher=$(cat "$dir/watcher")
    # Its first look has the whole map.
    sleep 1
    kill -0 "$watcher" 2>/dev/null || die "firn watch has ended: $(tail -c 300 "$dir/screen")"
}

unwatch() {
    # What is stopped does not end, and script may stop once more.
    kill "$watcher"
    for _ in {1..20}; do
        kill -CONT "$watcher" "$script" 2>/dev/null || true
        sleep 0.05
    done
    # It can miss the end of what it ran while it was stopped itself.
    kill "$script" 2>/dev/null || true
    wait "$script" || true
    watcher=''
}

# measure INTERVAL: adds what `rewrites` prints to the samples.
measure() {
    "$firn" sync "$dir/mnt"
    watch "$1"
    rewrites 1 "$writes" $((2 * pairs)) "$watcher" "$script" "$1" | tee -a "$dir/samples"
    unwatch
}

table() {
    echo "| firn watch --interval | MB/s alone | time, watched / alone | daemon's processor time, watched / alone | processor of firn watch | goal |"
    echo "|---|---|---|---|---|---|"
    # Mean and interval of 95% of the logarithms.
    awk -v bytes=$((writes * BLOCK_KIB * 1024)) '
        function mean(sum, count) { return exp(sum / count) }
        function half(sum, squares, count,    variance) {
            variance = (squares - sum * sum / count) / (count - 1)
            return 1.96 * sqrt((variance > 0 ? variance : 0) / count)
        }
        function shown(sum, squares, count,    width) {
            width = half(sum, squares, count)
            return sprintf("%.4f (%.4f-%.4f)", mean(sum, count), exp(sum / count - width), exp(sum / count + width))
        }
        { if (!($1 in count)) order[++intervals] = $1
          count[$1]++; alone[$1] += $2; watched[$1] += $3; own[$1] += $6
          time = log($3 / $2); cpu = log($5 / $4)
          times[$1] += time; times2[$1] += time * time; cpus[$1] += cpu; cpus2[$1] += cpu * cpu }
        END {
            for (n = 1; n <= intervals; n++) {
                at = order[n]
                low = exp(times[at] / count[at] - half(times[at], times2[at], count[at]))
                high = exp(times[at] / count[at] + half(times[at], times2[at], count[at]))
                verdict = high <= 1.01 ? "met" : low > 1.01 ? "**missed**" : "within the noise"
                printf "| %s s | %.0f | %s | %s | %.2f %% | <= 1.01: %s |\n", at, bytes * count[at] / alone[at],
                    shown(times[at], times2[at], count[at]), shown(cpus[at], cpus2[at], count[at]), own[at] / watched[at] / 10, verdict
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
# Dropping states is work that comes and goes.
"$firn" retain "$dir/mnt" --off >/dev/null
head -c $((file_mib << 20)) /dev/urandom >"$dir/mnt/file"
# From the first pair on, the log is as scattered as it stays.
rewrites 0 $scattering
began=$EPOCHREALTIME
rewrites 0 $((scattering / 4))
ended=$EPOCHREALTIME
writes=$((scattering / 4 * TURN_S * 1000000 / (${ended/./} - ${began/./})))
say "${#INTERVALS[@]} times $pairs pairs of $writes writes"
for interval in "${INTERVALS[@]}"; do
    measure "$interval" > >(counted "$pairs")
done
echo "$("$firn" --version), $(date -u +%F); $(nproc) processors, Linux $(uname -r), the image in memory; $pairs pairs a row, means with" \
    "intervals of 95%; load average before the run: $load."
echo
table
"$firn" umount "$dir/mnt"
wait "$daemon" || true
daemon=''
