#!/usr/bin/env bash
# Runs every Go fuzz target for so long, or so often: scripts/fuzz-go.sh [TIME | COUNTx]. What it finds is left in
# testdata/fuzz of the package; mend it, then bring a vector or a test for it.
#
# A count is the default: on a busy machine the fuzzer can take the end of its time for a failure of the target.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
time=${1:-50000x}

# "module package target" of every fuzz function that the sources declare.
targets() {
    grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9]*' . | grep -v '^./target/' |
        while IFS=: read -r file _ declaration; do
            module=$(dirname "$file")
            while [ ! -e "$module/go.mod" ]; do module=$(dirname "$module"); done
            package=$(realpath --relative-to="$module" "$(dirname "$file")")
            echo "$module ./$package ${declaration#func }"
        done | sort -u
}

found=$(targets)
[ -n "$found" ] || { echo "no fuzz target was found" >&2; exit 1; }
while read -r module package target; do
    echo "$module $package $target"
    output=$(cd "$root/$module" &&
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package" 2>&1 </dev/null) ||
        { echo "$output"; exit 1; }
    tail -n 1 <<<"$output"
done <<<"$found"
