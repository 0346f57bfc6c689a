#!/usr/bin/env bash
# The units, the lines for fstab, the rule for udev and the helpers of mount(8) and fsck(8), under a systemd that runs: it boots a Debian of its
# own twice, as process 1 of its own namespaces, with the package of firn installed.
#
#   scripts/systemd.sh [SUITE]       Debian's release (default: bookworm)
#
# FIRN names the program (default: a debug build). Needs root, FUSE, loop devices and a mirror of Debian; the system is made once, in
# target/systemd, and stays as it is: what this script changes is in memory. Some three minutes, and one more the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

readonly SUITE=${1:-bookworm}
readonly BASE=$PWD/target/systemd/$SUITE
[ "$(id -u)" = 0 ] || die "systemd runs as process 1 of namespaces that root alone can make; run: sudo scripts/systemd.sh"
[ -e /dev/fuse ] || die "/dev/fuse is missing; run 'modprobe fuse', or pass the device to the container"
# All mounts of this script end with it.
[ -n "${INSIDE:-}" ] || INSIDE=yes exec unshare --mount --propagation private "$0" "$@"

need fdisk sfdisk
need e2fsprogs mkfs.ext4
need binutils objdump
if [ -z "${FIRN:-}" ]; then
    need_rust
    say "building firn"
    cargo build --quiet --locked -p firnfs-cli
    FIRN=${CARGO_TARGET_DIR:-target}/debug/firn
fi
if [ ! -d "$BASE" ]; then
    need debootstrap debootstrap
    say "installing Debian $SUITE"
    rm -rf "$BASE.part"
    mkdir -p "$BASE.part"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,udev,dbus,fuse3,e2fsprogs,kmod,mount "$SUITE" "$BASE.part" >"$BASE.log" 2>&1 ||
        die "debootstrap failed, see $BASE.log"
    mv "$BASE.part" "$BASE"
fi
package=${PACKAGE:-$(scripts/package.sh "$FIRN")}
FIRN=$(realpath "$FIRN")

work=$(mktemp -d)
root=$work/root
init=
loops=()
group=
PART=
cleanup() {
    [ -z "$init" ] || kill -KILL "$init" 2>/dev/null || true
    cd /
    umount -R -l "$root" 2>/dev/null || true
    # The daemons in the namespaces that ended need a moment to let go.
    for _ in 1 2 3 4 5; do
        [ -n "$PART" ] && ! delpart "${PART%p1}" 1 2>/dev/null || break
        sleep 1
    done
    for loop in "${loops[@]}"; do
        losetup --detach "$loop" || true
    done
    for _ in 1 2 3 4 5; do
        [ -d "${group:-/nowhere}" ] && ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || break
        sleep 1
    done
    umount -l "$work/memory" "$work/cgroup" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# The system: Debian below, changes in memory.
mkdir -p "$work/memory" "$root" "$work/images"
mount -t tmpfs none "$work/memory"
mkdir "$work/memory/changes" "$work/memory/overlay"
mount -t overlay none -o "lowerdir=$BASE,upperdir=$work/memory/changes,workdir=$work/memory/overlay" "$root"
mkdir -p "$root"/srv/{images,data,logs,work,backup,part,unit} "$root/etc/firnfs"
mount --bind /dev "$root/dev"
mount -t proc none "$root/proc"
cp "$package" "$root/root/firnfs.deb"
chroot "$root" dpkg --install /root/firnfs.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; die "the package is not installed"; }
umount "$root/proc" "$root/dev"
# What could reach the kernel or a network outside is left out: only rules for block devices, no modules, no names of interfaces.
rules=$root/usr/lib/udev/rules.d
[ -d "$rules" ] || rules=$root/lib/udev/rules.d
find "$rules" -type f ! -name '60-block.rules' ! -name '60-persistent-storage.rules' ! -name '61-firnfs.rules' ! -name '99-systemd.rules' -delete
for unit in systemd-modules-load systemd-sysctl systemd-binfmt systemd-random-seed systemd-networkd systemd-resolved \
    kmod-static-nodes console-getty getty@tty1; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
rm -f "$root/etc/machine-id"
systemd-id128 new >"$root/etc/machine-id" 2>/dev/null || tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"

# Volumes: two image files on a file system of their own, three on loop devices, one in a partition with a name.
make_image() {
    "$FIRN" mkfs "$@" >/dev/null
}
# attach FILE: a loop device for it, the last of `loops`.
attach() {
    local device
    device=$(losetup --find --show "$1") || die "there is no loop device"
    loops+=("$device")
}
truncate -s 1G "$work/store.img"
mkfs.ext4 -q -L store "$work/store.img"
attach "$work/store.img"
mount "${loops[0]}" "$work/images"
make_image "$work/images/data.img" --size 128M
make_image "$work/images/work.img" --size 500M
umount "$work/images"
make_image "$work/logs.img" --size 128M --label 'the logs'
attach "$work/logs.img"
make_image "$work/backup.img" --size 128M --label backup
attach "$work/backup.img"
truncate -s 200M "$work/disk.img"
printf 'label: gpt\nstart=2048, size=300000, name=data\n' | sfdisk -q "$work/disk.img"
attach "$work/disk.img"
# Some kernels know no partition tables: they are told of it.
PART=${loops[3]}p1
addpart "${loops[3]}" 1 2048 300000 || die "the kernel takes no partition of a loop device"
make_image "$work/unit.img" --size 128M
attach "$work/unit.img"
readonly STORE=${loops[0]} LOGS=${loops[1]} BACKUP=${loops[2]} UNIT=${loops[4]}
make_image "$PART"
uuid=$("$FIRN" dump "$BACKUP" --json | sed -n 's/.*"uuid": *"\([-0-9a-f]*\)".*/\1/p' | head -n 1)

mkdir -p "$root/etc/systemd/system.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=20s\n' >"$root/etc/systemd/system.conf.d/soon.conf"
# At boot udev asks for the events of all devices again. Here only for those of the test.
cat >"$root/etc/systemd/system/systemd-udev-trigger.service" <<END
[Unit]
DefaultDependencies=no
Wants=systemd-udevd.service
After=systemd-udevd.service
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=udevadm trigger --action=add $(printf '/sys/class/block/%s ' "${loops[@]#/dev/}" "${PART#/dev/}")
END
# As contrib/systemd/README.md has them: a field for fsck(8) where the line names a path.
cat >"$root/etc/fstab" <<END
LABEL=store                      /srv/images  ext4    defaults  0 2
/dev/disk/by-partlabel/data      /srv/part    firnfs  noatime,x-systemd.device-timeout=30s  0 2
LABEL=the\\040logs                /srv/logs    firnfs  x-systemd.mount-timeout=5min,metrics=9470  0 0
/srv/images/work.img             /srv/work    firnfs  nofail,x-systemd.requires-mounts-for=/srv/images  0 0
UUID=$uuid  /srv/backup  firnfs  noauto,x-systemd.automount,x-systemd.idle-timeout=2s  0 0
END
cat >"$root/etc/firnfs/data.conf" <<'END'
SOURCE=/srv/images/data.img
MOUNTPOINT=/srv/data
OPTIONS=noatime,commit=2
END
# The example, with a volume of its own: the partition is in fstab.
sed -e 's|^Where=.*|Where=/srv/unit|' -e "s|^What=.*|What=$UNIT|" contrib/systemd/srv-data.mount >"$root/etc/systemd/system/srv-unit.mount"
# Programs that use the volumes to the end: what they write when they are stopped must be there after the boot.
for name in data logs work part unit; do
    # So much that the daemon has work left when the mount is gone: the file system with its image has to wait for it.
    last=
    [ "$name" != work ] || last="head -c 200M /dev/zero >/srv/work/large;"
    case $name in
    data) needs=$(printf 'Requires=firn@data.service\nAfter=firn@data.service') ;;
    *) needs=RequiresMountsFor=/srv/$name ;;
    esac
    cat >"$root/etc/systemd/system/uses-$name.service" <<END
[Unit]
$needs
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mountpoint -q /srv/$name && echo begin >>/srv/$name/used'
ExecStop=/bin/sh -c 'mountpoint -q /srv/$name && $last echo end >>/srv/$name/used'
[Install]
WantedBy=multi-user.target
END
    enable+=("uses-$name.service")
done
for unit in srv-unit.mount firn@data.service "${enable[@]}"; do
    systemctl --root="$root" enable --quiet "$unit" 2>/dev/null || chroot "$root" systemctl enable --quiet "$unit"
done

cgroups=$(findmnt --noheadings --types cgroup2 --output TARGET | head -n 1)
if [ -z "$cgroups" ]; then
    mkdir "$work/cgroup"
    mount -t cgroup2 none "$work/cgroup" || die "this kernel has no cgroup2"
    cgroups=$work/cgroup
fi
group=$cgroups/firnfs-systemd-$$
cat >"$work/init" <<END
set -eu
mount --make-rprivate /
mount --make-rshared "$root"
mount -t proc none "$root/proc"
# systemd sets limits of the kernel at boot, which are not of a namespace.
mount --bind -o ro "$root/proc/sys" "$root/proc/sys"
mount -t sysfs none "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 none "$root/dev"
mount -t tmpfs -o mode=755 none "$root/run"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
for device in null zero full random urandom tty fuse autofs loop-control $(printf '%s ' "${loops[@]#/dev/}" "${PART#/dev/}"); do
    mknod -m 666 "$root/dev/\$device" \$(stat -c '%F' "/dev/\$device" | grep -q block && echo b || echo c) \\
        \$((0x\$(stat -c %t "/dev/\$device"))) \$((0x\$(stat -c %T "/dev/\$device")))
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# Without it, and without devtmpfs, systemd would not listen to udev; its socket takes this place.
mkdir "$root/run/udev"
touch "$root/run/udev/control"
cd "$root"
# Not one of systemd's names for containers: most units would be left out.
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb chroot . /lib/systemd/systemd --system --unit=multi-user.target \
    --log-target=journal --show-status=no
END

# within COMMAND...: in the system that runs.
within() {
    nsenter --target "$init" --all --root --wd env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
}
fail() {
    if [ -n "$init" ] && kill -0 "$init" 2>/dev/null; then
        within systemctl --no-pager --failed >&2 || true
        within journalctl --no-pager --lines "${LINES_OF_JOURNAL:-60}" --quiet >&2 || true
    fi
    die "$*"
}
# eventually SECONDS TEXT COMMAND...: waits until a command succeeds.
eventually() {
    local until=$((SECONDS + $1)) what=$2
    shift 2
    while ! "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || fail "not in time: $what"
        sleep 0.2
    done
}
boot() {
    mkdir -p "$group"
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$1/cgroup.procs"; exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup sh "$2"' \
        sh "$group" "$work/init" </dev/null >"$work/console" 2>&1 &
    outer=$!
    eventually 10 "the namespaces are made" pgrep --parent "$outer"
    init=$(pgrep --parent "$outer")
    eventually 30 "systemd answers" within systemctl list-jobs
    within ip link set lo up 2>/dev/null || true
    within timeout 120 systemctl is-system-running --wait >"$work/state" || true
}
halt() {
    local began=$SECONDS
    # It may lose its connection to what it ends.
    within systemctl poweroff >"$work/out" 2>&1 || true
    # As process 1 of a namespace, systemd ends it.
    for _ in $(seq 600); do
        kill -0 "$init" 2>/dev/null || break
        sleep 0.2
    done
    ! kill -0 "$init" 2>/dev/null || fail "the system does not end"
    wait "$outer" 2>/dev/null || true
    init=
    echo "$((SECONDS - began))"
}
property() {
    within systemctl show --property="$2" --value "$1"
}
is_mounted() {
    within findmnt --noheadings --output SOURCE,FSTYPE "$1"
}
# holds TEXT COMMAND...: fails with the text unless the command succeeds.
holds() {
    local what=$1
    shift
    "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "$what"; }
}
is_active() {
    [ "$(property "$1" ActiveState)" = active ]
}
# kill_daemon UNIT: as the kernel does when memory is short.
kill_daemon() {
    within sh -c "kill -KILL \$(cat '/sys/fs/cgroup$(property "$1" ControlGroup)/cgroup.procs')"
}
setting() {
    within firn tune "$1" | awk -v name="$2" '$1 == name { print $2 }'
}
# Nothing in the journal says that an unmount or a check failed, or that something had to be killed. Both boots are one to it: the kernel has
# not booted.
no_complaint() {
    local lines
    lines=$(within journalctl --no-pager --quiet | grep -E "$COMPLAINTS" || true)
    [ -z "$lines" ] || fail "in the journal: $lines"
}
readonly COMPLAINTS='fsck failed|fsck\.ext2|Failed unmounting|Failed to unmount|Unmounting timed out|[Mm]ounting timed out|target is busy|SIGKILL|remains running|left-over process'

all_is_mounted_after_boot() {
    local failed mount
    failed=$(within systemctl --failed --no-legend --plain --no-pager)
    [ -z "$failed" ] || fail "failed at boot: $failed"
    for mount in data logs work part unit; do
        holds "/srv/$mount is not mounted" is_mounted "/srv/$mount"
    done
    [[ $(is_mounted /srv/logs) == "$LOGS fuseblk.firnfs" ]] || fail "LABEL= names another device: $(is_mounted /srv/logs)"
    [[ $(is_mounted /srv/part) == "$PART fuseblk.firnfs" ]] || fail "a path names another device: $(is_mounted /srv/part)"
    [[ $(is_mounted /srv/work) == "/srv/images/work.img fuse.firnfs" ]] || fail "$(is_mounted /srv/work)"
    [ "$(property firn@data.service StatusText)" = "serving /srv/data" ] || fail "systemd was not told that the mount serves"
    within journalctl --no-pager --quiet --unit 'systemd-fsck@*partlabel*' | grep -q 'not checked' ||
        fail "fsck(8) has not run fsck.firnfs"
}

an_automount_mounts_when_it_is_used_and_unmounts_when_it_is_idle() {
    [[ $(is_mounted /srv/backup) != *firnfs* ]] || fail "mounted before anybody asked"
    holds "the automount does not mount" within timeout 30 sh -c 'echo x >/srv/backup/file'
    [[ $(is_mounted /srv/backup) == *"$BACKUP fuseblk.firnfs"* ]] || fail "UUID= names another device: $(is_mounted /srv/backup)"
    # Not by the path: to look it up is to use it.
    eventually 20 "an idle automount is unmounted" sh -c "! grep ' /srv/backup .* fuseblk.firnfs' /proc/$init/mountinfo"
    [ "$(within timeout 30 cat /srv/backup/file)" = x ] || fail "the file of an automount is lost"
}

a_reload_changes_what_can_change_and_refuses_the_rest() {
    within sed -i 's/commit=2/commit=1/' /etc/firnfs/data.conf
    holds "reload" within systemctl reload firn@data.service
    [ "$(setting /srv/data commit)" = 1 ] || fail "a reload of the service changes nothing"
    within sed -i 's/commit=1/commit=2,threads=7/' /etc/firnfs/data.conf
    ! within systemctl reload firn@data.service 2>/dev/null || fail "a reload that cannot be done succeeds"
    within journalctl --no-pager --quiet --unit firn@data.service | grep -q 'threads cannot change' || fail "the refusal is not in the journal"
    [ "$(setting /srv/data commit)" = 1 ] && is_active firn@data.service || fail "a refused reload changes something"
    within sed -i 's/,threads=7//' /etc/firnfs/data.conf
    within sed -i 's/metrics=9470/&,commit=3/' /etc/fstab
    within systemctl daemon-reload
    holds "reload of a mount unit" within systemctl reload srv-logs.mount
    [ "$(setting /srv/logs commit)" = 3 ] || fail "a reload of a mount unit changes nothing"
    holds "mount -o remount" within mount -o remount,commit=4 /srv/work
    [ "$(setting /srv/work commit)" = 4 ] || fail "mount(8) does not remount"
}

a_daemon_that_was_killed_comes_back() {
    local before
    before=$(property firn@data.service NRestarts)
    within sh -c 'echo kept >/srv/data/kept; firn sync /srv/data'
    kill_daemon firn@data.service
    eventually 30 "systemd starts the daemon again" within grep -q kept /srv/data/kept
    [ "$(property firn@data.service NRestarts)" = $((before + 1)) ] || fail "it was not systemd that started it"
    # No unit watches over the daemon of a line of fstab: its mount stays, dead, until somebody mounts it again.
    within sh -c 'echo kept >/srv/logs/kept; firn sync /srv/logs'
    kill_daemon srv-logs.mount
    holds "a dead mount is mounted again" within systemctl restart srv-logs.mount
    [ "$(within cat /srv/logs/kept)" = kept ] || fail "the file is lost"
}

a_stop_unmounts_and_closes_the_volume() {
    holds restart within systemctl restart firn@data.service
    # A program in it.
    within sh -c 'cd /srv/data && exec sleep 3' &
    eventually 10 "the program is there" within sh -c 'for at in /proc/[0-9]*/cwd; do [ "$(readlink $at)" = /srv/data ] && exit; done; exit 1'
    holds "stop while it is used" within systemctl stop firn@data.service
    [ "$(property firn@data.service Result)" = success ] || fail "a stop of a used mount ends as $(property firn@data.service Result)"
    ! is_mounted /srv/data >/dev/null || fail "still mounted"
    holds "fsck after a stop" within firn fsck /srv/images/data.img
    holds start within systemctl start firn@data.service
    # By hand: the service ends with it, and stays so.
    within umount /srv/data
    eventually 10 "the service ends with its mount" sh -c \
        "[ \"\$(nsenter --target $init --all --root systemctl show --property=ActiveState --value firn@data.service)\" = inactive ]"
    sleep 6
    [ "$(property firn@data.service ActiveState)" = inactive ] || fail "an unmount by hand does not last"
    holds start within systemctl start firn@data.service
    [ "$(within cat /srv/data/kept)" = kept ] || fail "the file is lost"
    holds "start what uses it" within systemctl restart uses-data.service
}

# What each program wrote last, when the system went down, is there; nothing had to be recovered.
all_was_closed() {
    local image state
    for image in "$LOGS" "$BACKUP" "$PART" "$UNIT" "$work/images/data.img" "$work/images/work.img"; do
        "$FIRN" fsck "$image" >"$work/out" 2>&1 || { cat "$work/out" >&2; die "$image is not sound"; }
        state=$("$FIRN" stat "$image" --json | sed -n 's/.*"cleanly_unmounted": *\([a-z]*\).*/\1/p')
        [ "$state" = true ] || die "$image was not closed before the end"
    done
}

say "boot"
boot
all_is_mounted_after_boot
no_complaint
say "automount"
an_automount_mounts_when_it_is_used_and_unmounts_when_it_is_idle
say "reload"
a_reload_changes_what_can_change_and_refuses_the_rest
say "killed daemons"
a_daemon_that_was_killed_comes_back
say "stop"
a_stop_unmounts_and_closes_the_volume
say "shutdown"
took=$(halt)
[ "$took" -lt 60 ] || die "the shutdown took $took s"
# The file system with the images was unmounted after their daemons had ended.
dumpe2fs -h "$STORE" 2>/dev/null | grep -q needs_recovery && die "the file system with the images was not unmounted"
mount -o ro "$STORE" "$work/images"
all_was_closed
umount "$work/images"
say "boot again"
boot
all_is_mounted_after_boot
no_complaint
for mount in data logs work part unit; do
    within tail -n 2 "/srv/$mount/used" | paste -sd ' ' | grep -q 'end begin' || fail "what used /srv/$mount was not stopped before the unmount"
done
halt >/dev/null
version=$(chroot "$root" systemctl --version | head -n 1)
say "all of it works with $version"
