#!/bin/sh
# Installs what `make test` and `make bench` need beyond Rust, Go and make: the proxies we measure
# ourselves against, the clients and libraries that drive them, and the tools that look at system calls.
# Says what it does; returns at once when everything is there.
set -eu

# command:package, in the order they are reported. Daemons live in sbin, which may not be on PATH.
WANTED="cc:build-essential nginx:nginx haproxy:haproxy lighttpd:lighttpd curl:curl wrk:wrk h2load:nghttp2-client strace:strace openssl:openssl gzip:gzip zstd:zstd testssl:testssl.sh slowhttptest:slowhttptest systemd-socket-activate:systemd rsyslogd:rsyslog minisign:minisign prometheus:prometheus redis-server:redis-server etcd:etcd-server etcdctl:etcd-client dockerd:docker.io docker:docker.io chromium:chromium node:nodejs npm:npm"
# module:package, of Debian's own Python: another one, first in PATH, would not have them.
PYTHON=/usr/bin/python3
MODULES="websockets:python3-websockets h2:python3-h2 wsproto:python3-wsproto jwt:python3-jwt cryptography:python3-cryptography prometheus_client:python3-prometheus-client pip:python3-pip"
# A client of HTTP/3, which Debian does not have or too old: pip puts it, with what it depends on, into a folder that only its tests look in.
AIOQUIC="aioquic==1.3.0 attrs==26.1.0 certifi==2026.10.19.post1 cffi==2.1.1 cryptography==50.0.2 pycparser==3.12 pylsqpack==0.3.24
    pyopenssl==26.4.0 service-identity==26.1.0 typing-extensions==4.16.0"
AIOQUIC_AT=${CARGO_TARGET_DIR:-$(cd "$(dirname "$0")/.." && pwd)/target}/aioquic
# The judge of HTTP/2, which Debian does not have: `go install` puts it where Go keeps programs.
H2SPEC=github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"
POLICY=/usr/sbin/policy-rc.d
POLICY_KEPT=$POLICY.kept-by-install-peers

say() { printf 'install-peers: %s\n' "$*"; }

fail() {
    printf 'install-peers: %s\n' "$*" >&2
    exit 1
}

# Prints the packages whose command or module is not installed.
missing_packages() {
    for pair in $WANTED; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || printf '%s ' "${pair#*:}"
    done
    for pair in $MODULES; do
        "$PYTHON" -c "import ${pair%%:*}" >/dev/null 2>&1 || printf '%s ' "${pair#*:}"
    done
}

# Runs a command as root, itself or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

require_apt_and_root() {
    command -v apt-get >/dev/null 2>&1 ||
        fail "no apt-get here; install by hand what provides these Debian packages: $packages"
    [ "$(id -u)" -eq 0 ] && return
    command -v sudo >/dev/null 2>&1 ||
        fail "neither root nor sudo; as root run: apt-get install --no-install-recommends $packages"
    sudo -n true 2>/dev/null || [ -t 0 ] ||
        fail "sudo needs a password and there is no terminal; as root run: $0"
}

# Debian starts nginx, haproxy, lighttpd, rsyslog, prometheus, redis, etcd and Docker the moment they are unpacked; 101 is policy-rc.d's "not allowed".
forbid_service_starts() {
    # A kept one is from a run that was killed: it is the true original, not what lies there now.
    if as_root test -e "$POLICY" && ! as_root test -e "$POLICY_KEPT"; then
        as_root mv "$POLICY" "$POLICY_KEPT"
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
    as_root chmod 755 "$POLICY"
}

restore_service_starts() {
    as_root rm -f "$POLICY"
    if as_root test -e "$POLICY_KEPT"; then as_root mv "$POLICY_KEPT" "$POLICY"; fi
}

# Else the next boot would start what this installation kept from starting.
disable_new_services() {
    [ -d /run/systemd/system ] || return 0
    for service in nginx haproxy lighttpd rsyslog prometheus redis-server etcd-server; do
        case " $packages " in
        *" $service "*) as_root systemctl disable --quiet "${service%-server}" "$service" 2>/dev/null || true ;;
        esac
    done
    case " $packages " in
    *" docker.io "*) as_root systemctl disable --quiet docker.service docker.socket containerd.service 2>/dev/null || true ;;
    esac
}

install_packages() {
    say "refreshing the package lists"
    as_root apt-get update -qq || say "the lists could not be refreshed; trying with the ones at hand"
    trap restore_service_starts EXIT
    trap 'exit 130' INT TERM
    forbid_service_starts
    say "installing $packages(their services are neither started nor enabled)"
    # shellcheck disable=SC2086 # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o DPkg::Lock::Timeout=120 \
        --no-install-recommends $packages >/dev/null ||
        fail "apt-get could not install: $packages"
    disable_new_services
}

install_h2spec() {
    command -v go >/dev/null 2>&1 || fail "h2spec is built with Go, which is not installed: see https://go.dev/dl/"
    PATH="$PATH:$(go env GOPATH)/bin"
    command -v h2spec >/dev/null 2>&1 && return
    say "building h2spec"
    go install "$H2SPEC" || fail "go could not install $H2SPEC"
}

# Whether Python finds it, and finds it as wanted.
has_aioquic() {
    PYTHONPATH=$AIOQUIC_AT "$PYTHON" -c "
import aioquic.quic.connection, pylsqpack
from importlib.metadata import version
assert all(version(name) == number for name, number in (wanted.split('==') for wanted in '''$AIOQUIC'''.split()))" 2>/dev/null
}

# Wheels alone: nothing is built, and no program of a package runs while it is installed.
install_aioquic() {
    has_aioquic && return
    say "installing aioquic into $AIOQUIC_AT"
    rm -rf "$AIOQUIC_AT"
    # shellcheck disable=SC2086 # a list of words
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --only-binary :all: \
        --target "$AIOQUIC_AT" $AIOQUIC || fail "pip could not install: $AIOQUIC"
    has_aioquic || fail "installed, yet $PYTHON does not find it: aioquic in $AIOQUIC_AT"
}

[ "$(id -u)" -eq 0 ] || say "the test with an engine of Docker needs root: without it, recorded exchanges alone are tested"
install_h2spec
packages=$(missing_packages)
if [ -z "$packages" ] && has_aioquic; then
    say "all there: nothing to do"
    exit 0
fi
if [ -n "$packages" ]; then
    say "missing: $packages"
    require_apt_and_root
    install_packages
    still=$(missing_packages)
    [ -z "$still" ] || fail "installed, yet their commands or modules are not found: $still"
fi
install_aioquic
say "done"
