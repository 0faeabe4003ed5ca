#!/usr/bin/env bash
# Asks about what is depended on: cargo-deny, by deny.toml and the advisories of RustSec, and govulncheck, by the
# database of Go. The databases are elsewhere, so this is no part of `make test`. What cannot be asked is said, and is
# a failure: nothing was found out. All is tried, whatever failed before.
#
# From copies of the databases: FETCHED=1 takes RustSec's as an earlier run has left it in ~/.cargo/advisory-dbs, and
# GOVULNDB=file:///PATH names a copy of Go's.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD

DENY=0.20.2
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
failures=0

say() { printf 'audit: %s\n' "$*"; }

fail() {
    say "$*" >&2
    failures=$((failures + 1))
}

audit_rust() {
    cargo deny --version >/dev/null 2>&1 ||
        { fail "cargo-deny is not installed; it takes some minutes: cargo install --locked cargo-deny@$DENY"; return; }
    checks="bans licenses sources"
    if [ -n "${FETCHED:-}" ] || cargo deny fetch db; then
        checks="advisories $checks"
    else
        fail "RustSec's database (github.com/rustsec/advisory-db) cannot be reached: no advisories were looked for"
    fi
    for manifest in Cargo.toml fuzz/Cargo.toml bench/engines/Cargo.toml; do
        say "$manifest: $checks"
        # Not everything that deny.toml allows is in each workspace.
        # shellcheck disable=SC2086 # a list of words
        cargo fetch --quiet --locked --manifest-path "$manifest" &&
            cargo deny --manifest-path "$manifest" --config "$root/deny.toml" --locked --offline \
                check -A unmatched-skip -A license-not-encountered $checks ||
            fail "$manifest: cargo-deny has found something, or could not look"
    done
}

# govulncheck ends with 3 where it has found something that is called; `go run` would make that 1.
audit_go() {
    tool=$(mktemp -d)
    trap 'rm -r "$tool"' EXIT
    GOBIN=$tool go install "$GOVULNCHECK" || { fail "go could not install $GOVULNCHECK"; return; }
    for manifest in $(find . -name go.mod -not -path './target/*' | sort); do
        folder=$(dirname "$manifest")
        say "$folder: govulncheck"
        (cd "$folder" && "$tool/govulncheck" ./...)
        case $? in
        0) ;;
        3) fail "$folder: govulncheck has found something" ;;
        *)
            fail "govulncheck could not look: is ${GOVULNDB:-https://vuln.go.dev} in reach? No Go module was looked at from $folder on"
            return
            ;;
        esac
    done
}

audit_rust
audit_go
[ "$failures" -eq 0 ] || { say "$failures failures" >&2; exit 1; }
say "nothing was found"
