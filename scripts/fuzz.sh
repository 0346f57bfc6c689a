#!/usr/bin/env bash
# The fuzzers for a while: every decoder, the kernel's requests, the control socket's lines, whole images.
#
#   scripts/fuzz.sh                       30 s for each target, two at a time: five and a half minutes
#   scripts/fuzz.sh 3600                  an hour for each, with a seed of its own every time
#   scripts/fuzz.sh 3600 image            of some targets ('cargo run -p firnfs-fuzz -- list' shows all)
#
# Each input with a finding is kept under crates/fuzz/corpus and printed with the command that runs it again; it stays there once it
# is fixed, and every later run begins with it. Exit status 1 if anything was found.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_rust
seconds=${1:-30}
[ $# -gt 0 ] && shift
# Short runs use the same inputs every time; long ones use new inputs.
seed=1
[ "$seconds" -gt 60 ] && seed=$(date +%s)
say "fuzzing, $seconds s for each target, seed $seed"
# Not by its package: the crates keep the features that they have in a build of everything.
exec cargo run --quiet --locked --bin firn-fuzz -- run --seconds "$seconds" --seed "$seed" "$@"
