# Shared by the scripts beside it; sourced, never run.

# say TEXT: a headline on standard error, with the seconds since the script began.
say() {
    printf '\n[%4ds] %s\n' "$SECONDS" "$*" >&2
}

# die TEXT: prints one line - what failed, where, what to do - and exits.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# need PACKAGE COMMAND...: installs a Debian package if one of its commands is missing and this is root; else says so.
need() {
    local package=$1 command
    shift
    for command in "$@"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null && continue
        [ "$(id -u)" = 0 ] || die "'$command' is missing; run: sudo apt-get install $package"
        command -v apt-get >/dev/null || die "'$command' is missing; install the package that Debian calls $package"
        say "installing $package for '$command'"
        if ! apt-get install -y -q "$package" >/dev/null 2>&1; then
            apt-get update -q >/dev/null
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$package" >/dev/null
        fi
        return
    done
}

# want PACKAGE COMMAND: the same for something without which a test is left out, and says so.
want() {
    (need "$@") || say "going on without $1: what needs it is not tested"
}

# need_rust: a Rust toolchain with a C linker.
need_rust() {
    command -v cargo >/dev/null || die "cargo is missing; install Rust from https://rustup.rs"
    need gcc cc
}

# rounds_and_firn ARGUMENT...: the options of a benchmark, --rounds N and --firn PROGRAM; sets `rounds` and `firn`.
rounds_and_firn() {
    while [ $# -gt 0 ]; do
        case $1 in
            --rounds) rounds=${2:?} && shift ;;
            --firn) firn=${2:?} && shift ;;
            *) die "'$1' is not an option; see the head of the script" ;;
        esac
        shift
    done
}

# release_firn: sets `firn` to the program that is measured: the one that it names already, or else a release build.
release_firn() {
    if [ ! "${firn:-}" ]; then
        need_rust
        say "building firn"
        cargo build --release --locked -p firnfs-cli
        firn=${CARGO_TARGET_DIR:-$PWD/target}/release/firn
    fi
    firn=$(realpath "$firn")
}

# memory_directory: sets `dir` to a new directory in memory.
memory_directory() {
    [ -w /dev/shm ] || die "/dev/shm cannot be written to, and the image has to be in memory"
    dir=$(mktemp -d -p /dev/shm)
}

# counted TOTAL: turns one line per finished item on standard input into a progress bar on standard error.
counted() {
    awk -v total="$1" -v tty="$([ -t 2 ] && echo 1)" '
        function show() {
            share = total > 0 ? NR / total : 1
            if (share > 1) share = 1
            bar = sprintf("%*s", int(share * 40), "")
            gsub(/ /, "#", bar)
            printf "%s[%-40s] %d / %d", tty ? "\r" : "", bar, NR, total > "/dev/stderr"
        }
        tty && NR % 100 == 0 { show() }
        END { show(); print "" > "/dev/stderr" }'
}
