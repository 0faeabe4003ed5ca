#!/bin/sh
# Puts what `make cluster` and `make conformance-k8s` need into target/kubernetes: etcd, kube-apiserver, Helm and the echo
# server of Gateway API's conformance suite, all built from Go's module proxy. Nothing is installed on the machine. Says
# what it does; returns at once when everything is there.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PEERS=${CARGO_TARGET_DIR:-$ROOT/target}/kubernetes
MODULE=$ROOT/conformance/kubernetes
PATH="$PATH:/usr/sbin:/sbin:/usr/local/go/bin"

say() { printf 'install-kubernetes-peers: %s\n' "$*"; }

fail() {
    printf 'install-kubernetes-peers: %s\n' "$*" >&2
    exit 1
}

# Builds a program of a module that go.mod names, again only when that file has changed.
build() {
    program=$1 folder=$2 package=$3 flags=$4
    [ "$PEERS/$program" -nt "$folder/go.mod" ] && return
    say "building $program${5:-}"
    # It gets its name when it is whole.
    (cd "$folder" && go build -trimpath -ldflags "$flags" -o "$PEERS/$program.new" "$package") ||
        fail "go could not build $package"
    touch "$PEERS/$program.new"
    mv "$PEERS/$program.new" "$PEERS/$program"
}

# What the API server says its version is, without which clients take it for one that is not released.
version_flags() {
    version=$(cd "$MODULE/apiserver" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
    printf '%s' "-s -w -X k8s.io/component-base/version.gitVersion=$version"
}

command -v go >/dev/null 2>&1 || fail "they are built with Go, which is not installed: see https://go.dev/dl/"
command -v ip >/dev/null 2>&1 || fail "pods are joined with the program ip: install the package iproute2"
mkdir -p "$PEERS"
build etcd "$MODULE/etcd" go.etcd.io/etcd/server/v3 "-s -w"
build kube-apiserver "$MODULE/apiserver" k8s.io/kubernetes/cmd/kube-apiserver "$(version_flags)" \
    ", which takes long the first time; what is compiled is kept if it is interrupted"
build helm "$MODULE/helm" helm.sh/helm/v3/cmd/helm "-s -w"
build echo-basic "$MODULE" sigs.k8s.io/gateway-api/conformance/echo-basic "-s -w"
say "all there: $("$PEERS/etcd" --version | head -n 1), $("$PEERS/kube-apiserver" --version)"
