#!/bin/sh
# Puts Consul, which `make consul` needs, into target/consul, built from Go's module proxy: no package of Debian has it.
# Nothing is installed on the machine. Says what it does; returns at once when it is there.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PEERS=${CARGO_TARGET_DIR:-$ROOT/target}/consul
MODULE=$ROOT/conformance/consul
PATH="$PATH:/usr/local/go/bin"

fail() {
    printf 'install-consul: %s\n' "$*" >&2
    exit 1
}

command -v go >/dev/null 2>&1 || fail "it is built with Go, which is not installed: see https://go.dev/dl/"
mkdir -p "$PEERS"
if ! [ "$PEERS/consul" -nt "$MODULE/go.mod" ]; then
    printf 'install-consul: %s\n' "building Consul, which takes some minutes the first time"
    # It gets its name when it is whole.
    (cd "$MODULE" && go build -trimpath -ldflags "-s -w" -o "$PEERS/consul.new" github.com/hashicorp/consul) ||
        fail "go could not build it"
    touch "$PEERS/consul.new"
    mv "$PEERS/consul.new" "$PEERS/consul"
fi
printf 'install-consul: there is %s\n' "$("$PEERS/consul" version | head -n 1)"
