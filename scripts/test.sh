#!/usr/bin/env bash
# All tests of firnfs, which every change has to pass. At most 50 minutes on two cores from a bare clone; each step has a budget, and
# the end of the run says how long each one took.
#
#   scripts/test.sh            everything
#   scripts/test.sh STEP...    only these: format lint unit interleavings crash aging docs fuzz conformance
#
# As root it installs what is missing with apt; conformance (pjdfstest) needs root and /dev/fuse.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

step_format() {
    cargo fmt --all --check
}

step_lint() {
    cargo clippy --workspace --all-targets --locked -- -D warnings
}

# Unit, model, determinism, golden-image, licence and architecture tests, and the end-to-end tests on a real mount.
step_unit() {
    need fuse3 fusermount3
    need git git
    need rsync rsync
    need sqlite3 sqlite3
    need acl setfacl
    need attr setfattr
    want chromium chromium
    # Tests on mounts wait half of their time, so there is one more at a time than there are processors.
    local -x RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 1))}"
    # Mounts of tests that name no transport go through /dev/fuse; those that find most faults in a transport go over io_uring, too.
    TRANSPORT=dev cargo test --workspace --locked
    if [ "$(id -u)" = 0 ] && [ -e /sys/module/fuse/parameters/enable_uring ]; then
        TRANSPORT=uring cargo test --workspace --locked --test mount -- posix:: live::
    else
        say "NOT TESTED: mounts over io_uring, which need root and Linux 6.14"
    fi
}

# The driver's threads in many orders, chosen by a model checker. In a target directory of its own: the cfg rebuilds everything.
step_interleavings() {
    RUSTFLAGS="--cfg shuttle" cargo test --release --locked -p firnfs-manage --test interleavings --target-dir target/shuttle
}

# Power cuts: 50,000 distinct states of all kinds, each counted once. Without --states the same is a soak that has all sequences
# of two operations. Not by its package, and not in release: the fuzzers and conformance use the same libraries, which are optimized; to
# build others takes longer than they save.
step_crash() {
    cargo run --locked --bin firn-torture -- soak --states 50000
}

# A tenth of the history of File System Aging, in virtual time.
step_aging() {
    # All libraries, so that the crates have the features that they have in the other steps, and nothing is built again.
    cargo test --locked --workspace --lib a_tenth_of_the_history -- --ignored
}

step_docs() {
    # With private items: the heads of the files link to the parts they are made of.
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
        cargo doc --workspace --no-deps --document-private-items --locked
}

# Every fuzzer for 25 s; each finding is printed with the command that runs it again.
step_fuzz() {
    scripts/fuzz.sh 25
}

step_conformance() {
    [ "$(id -u)" = 0 ] || die "conformance needs root; leave it out with: scripts/test.sh format lint unit interleavings crash aging docs fuzz"
    # Both transports, so half of the operations on each.
    FSX_OPERATIONS=25000 scripts/conformance.sh
}

need_rust
for component in rustfmt clippy; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 ||
        die "cargo $component is missing; run: rustup component add $component"
done

# Everything is built once here, so incremental compilation would gain nothing; without it the build takes half a minute less
# of four.
[ -d target ] || export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

# Minutes that each step may take on two cores from a bare clone. They add up to 50.
declare -A BUDGET_MIN=(
    [format]=1 [lint]=3 [unit]=21 [interleavings]=3 [crash]=3 [aging]=2 [docs]=1 [fuzz]=8 [conformance]=8
)

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(format lint unit interleavings crash aging docs fuzz conformance)
for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null || die "there is no step '$step'; see the head of this script"
done
times=()
for step in "${steps[@]}"; do
    say "$step"
    began=$SECONDS
    "step_$step"
    took=$((SECONDS - began))
    over=$([ "$took" -le $((BUDGET_MIN[$step] * 60)) ] || echo ", over budget")
    times+=("$(printf '%-14s %5d s of %d%s' "$step" "$took" $((BUDGET_MIN[$step] * 60)) "$over")")
done
say "all passed: ${steps[*]}"
printf '  %s\n' "${times[@]}" >&2
