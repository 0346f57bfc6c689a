#!/bin/sh
# Makes a Debian package of firn: scripts/package.sh [BINARY]. The package appears in target/debian.
#
# BINARY is the program to pack (default: target/release/firn, built first). Needs dpkg-deb, strip and gzip; no root.
# scripts/package-test.sh installs the package, uses it and purges it.
set -eu
cd "$(dirname "$0")/.."
umask 022

binary=${1:-}
if [ -z "$binary" ]; then
    cargo build --release --locked -p firnfs-cli
    binary=target/release/firn
fi
version=$("$binary" --version | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
# The time of the last commit, so that the same commit makes the same package.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
name=firnfs_${version}_$architecture
root=target/debian/$name
# An older version beside it would be installed, too, by the line in the README.
rm -rf "$root" target/debian/firnfs_*.deb
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib/systemd/system" "$root/usr/lib/udev/rules.d" "$root/etc/firnfs" \
    "$root/usr/share/man/man1" "$root/usr/share/man/man7" "$root/usr/share/man/man8" "$root/usr/share/doc/firnfs/examples" \
    "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d"

strip -o "$root/usr/bin/firn" "$binary"
# The types in the table of mounts are fuse.firnfs and fuseblk.firnfs: by these names mount(8) remounts, and umount(8) unmounts.
for helper in mount.firnfs mount.fuse.firnfs mount.fuseblk.firnfs umount.fuse.firnfs umount.fuseblk.firnfs mkfs.firnfs fsck.firnfs; do
    ln -s ../bin/firn "$root/usr/sbin/$helper"
done
"$root/usr/bin/firn" man "$root/usr/share/man/man1" >/dev/null
mv "$root"/usr/share/man/man1/*.7 "$root/usr/share/man/man7/"
gzip -9n "$root"/usr/share/man/man1/*.1 "$root"/usr/share/man/man7/*.7
for command in mount mkfs fsck; do
    ln -s "../man1/firn-$command.1.gz" "$root/usr/share/man/man8/$command.firnfs.8.gz"
done
"$root/usr/bin/firn" completions bash >"$root/usr/share/bash-completion/completions/firn"
"$root/usr/bin/firn" completions zsh >"$root/usr/share/zsh/vendor-completions/_firn"
"$root/usr/bin/firn" completions fish >"$root/usr/share/fish/vendor_completions.d/firn.fish"
install -m 644 contrib/systemd/firn@.service "$root/usr/lib/systemd/system/"
install -m 644 contrib/udev/61-firnfs.rules "$root/usr/lib/udev/rules.d/"
install -m 644 contrib/systemd/README.md "$root/usr/share/doc/firnfs/README.systemd.md"
install -m 644 contrib/systemd/srv-data.mount contrib/libblkid/firnfs.patch examples/monitoring/* \
    "$root/usr/share/doc/firnfs/examples/"
# With the licences of the crates in the program.
cargo run --quiet --locked -p firnfs-licences -- contrib/debian/copyright >"$root/usr/share/doc/firnfs/copyright"
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/firnfs/changelog.gz"

# The newest version of a symbol of the C library that the program uses.
glibc=$(objdump -T "$root/usr/bin/firn" | grep -o 'GLIBC_[0-9.]*' | cut -d _ -f 2 | sort -Vu | tail -n 1)
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@GLIBC@/$glibc/" \
    -e "s/@KIB@/$(du -sk "$root/usr" | cut -f 1)/" contrib/debian/control >"$root/DEBIAN/control"
install -m 755 contrib/debian/postinst contrib/debian/postrm "$root/DEBIAN/"
dpkg-deb --root-owner-group -Zxz --build "$root" "target/debian/$name.deb" >/dev/null
echo "target/debian/$name.deb"
