#!/bin/sh
# Puts curl, nginx and HAProxy as Debian's unstable branch has them, which speak HTTP/3, into target/sid or the folder that
# it is given: bin/curl, bin/nginx, bin/haproxy. They bring their own libraries and loader, so that they run on an older Debian,
# and nothing of it is installed on the machine but debootstrap, which gets them. Says what it does; returns at once when
# everything is there.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PEERS=${1:-${CARGO_TARGET_DIR:-$ROOT/target}/sid}
PROGRAMS="curl nginx haproxy"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
PATH="$PATH:/usr/sbin:/sbin"

say() { printf 'install-http3-peers: %s\n' "$*"; }

fail() {
    printf 'install-http3-peers: %s\n' "$*" >&2
    exit 1
}

# Runs a command as root, itself or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# A wrapper is written when all that it runs is there.
all_there() {
    for program in $PROGRAMS; do [ -x "$PEERS/bin/$program" ] || return 1; done
}

install_debootstrap() {
    command -v debootstrap >/dev/null 2>&1 && return
    say "installing debootstrap"
    as_root apt-get update -qq || say "the lists could not be refreshed; trying with the ones at hand"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o DPkg::Lock::Timeout=120 --no-install-recommends debootstrap >/dev/null ||
        fail "apt-get could not install debootstrap"
}

# Prints where apt has its packages from.
mirror() {
    sed -nE 's#^(URIs: *|deb +(\[[^]]*\] +)?)(https?://[^ ]*/debian)/?( .*)?$#\3#p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 | grep . || echo http://deb.debian.org/debian
}

# Fetches the programs and what they depend on, whose signatures debootstrap checks. It is not asked to install them: that
# would start their services.
download() {
    say "downloading from $(mirror)"
    as_root debootstrap --variant=minbase --download-only --force-check-gpg --keyring="$KEYRING" \
        --include="$(echo "$PROGRAMS" | tr ' ' ,)" sid "$PEERS/download" "$(mirror)" >"$PEERS/debootstrap.log" 2>&1 ||
        fail "debootstrap could not download them; $PEERS/debootstrap.log says why"
}

# Unpacks a package that was downloaded, and those that it depends on. What is only one of several that would do, or of another
# name, may not be among them.
unpack() {
    for package in "$PEERS/download/var/cache/apt/archives/$1"_*.deb; do
        [ -e "$package" ] && ! [ -e "$PEERS/unpacked/$1" ] || return 0
        : >"$PEERS/unpacked/$1"
        dpkg-deb -x "$package" "$PEERS/debian"
        for needed in $(dpkg-deb -f "$package" Pre-Depends Depends | sed -E 's/^[A-Za-z-]+: //; s/\([^)]*\)|:[a-z]+//g' | tr ',|' '  '); do
            unpack "$needed"
        done
    done
}

# Writes a script that runs a program of the tree with the tree's own libraries and loader.
write_wrapper() {
    for program in "$PEERS/debian/usr/bin/$1" "$PEERS/debian/usr/sbin/$1"; do
        [ -x "$program" ] || continue
        printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$LOADER" "${LOADER%/*}" "$program" >"$PEERS/bin/$1"
        chmod 755 "$PEERS/bin/$1"
        return
    done
    fail "there is no $1 in $PEERS/debian"
}

# The first match of its pattern.
find_loader() {
    for LOADER in "$PEERS"/debian/usr/lib/*/ld-linux*.so.*; do
        [ -x "$LOADER" ] && return
    done
    fail "there is no loader in $PEERS/debian"
}

install_programs() {
    command -v apt-get >/dev/null 2>&1 && [ -e "$KEYRING" ] ||
        fail "no apt-get with Debian's keys here; put $PROGRAMS with HTTP/3 into $PEERS/bin by hand"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 || fail "debootstrap needs root; neither root nor sudo"
    mkdir -p "$PEERS"
    PEERS=$(cd "$PEERS" && pwd)
    as_root rm -rf "$PEERS/bin" "$PEERS/debian" "$PEERS/download" "$PEERS/unpacked"
    mkdir "$PEERS/bin" "$PEERS/debian" "$PEERS/unpacked"
    install_debootstrap
    download
    for program in $PROGRAMS; do unpack "$program"; done
    find_loader
    for program in $PROGRAMS; do write_wrapper "$program"; done
    as_root rm -rf "$PEERS/download" "$PEERS/unpacked" "$PEERS/debootstrap.log" \
        "$PEERS/debian/usr/share/doc" "$PEERS/debian/usr/share/man" "$PEERS/debian/usr/share/locale"
}

# Without HTTP/3 they are of no use.
check() {
    "$PEERS/bin/curl" --version | grep -q HTTP3 || fail "$PEERS/bin/curl is built without HTTP/3"
    "$PEERS/bin/nginx" -V 2>&1 | grep -q http_v3_module || fail "$PEERS/bin/nginx is built without HTTP/3"
    "$PEERS/bin/haproxy" -vv | grep -q '+QUIC' || fail "$PEERS/bin/haproxy is built without QUIC"
}

if all_there; then
    check
    say "all there: nothing to do"
    exit 0
fi
say "curl, nginx and HAProxy of Debian unstable, into $PEERS"
install_programs
check
say "done: $("$PEERS/bin/curl" --version | head -n 1 | cut -d ' ' -f 1,2), $("$PEERS/bin/nginx" -v 2>&1),
    $("$PEERS/bin/haproxy" -v | head -n 1)"
