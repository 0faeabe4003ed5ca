#!/usr/bin/env bash
# Runs fuzz targets under libFuzzer, on stable Rust: scripts/fuzz.sh [TARGET...], all of them where none is named.
# FUZZ_SECONDS is the time of each, FUZZ_JOBS how many run at once.
#
# target/fuzz/corpus keeps what reaches more of the code: the next run begins with it. What breaks a target is in
# target/fuzz/crashes, and the command that repeats it is printed; mend it, then bring a vector or a test for it.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export seconds=${FUZZ_SECONDS:-60} work=$CARGO_TARGET_DIR/fuzz
jobs=${FUZZ_JOBS:-$(nproc)}

# What `cargo fuzz` passes on nightly, but for the sanitizer: there is no unsafe code for it to judge. Given with
# `--target`, so that build scripts and macros stay as they are.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
host=$(rustc -vV | sed -n 's/^host: //p')
export programs=$CARGO_TARGET_DIR/$host/fuzz

if [ $# = 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do set -- "$@" "$(basename "$file" .rs)"; done
fi
names=("$@")

(cd fuzz && RUSTFLAGS=$coverage cargo build --quiet --profile fuzz --features libfuzzer --target "$host" \
    "${names[@]/#/--bin=}")
# libFuzzer finds hardly a message that is valid by itself.
(cd fuzz && FUZZ_SEEDS=$work/seeds cargo test --quiet write_seeds -- --ignored >/dev/null)

# One target; its last line says how much of the code was reached.
run() {
    local name=$1 log=$work/log/$1
    local crashes=$work/crashes/$name-
    mkdir -p "$work"/{corpus,seeds}/"$name" "$work"/{log,crashes}
    if ! "$programs/$name" "$work/corpus/$name" "$work/seeds/$name" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=2048 -artifact_prefix="$crashes" -print_final_stats=1 >"$log" 2>&1; then
        grep -vE '^#[0-9]|^INFO|^stat::' "$log" | tail -n 40 >&2
        sed -n "s|.*Test unit written to |repeat: $programs/$name |p" "$log" >&2
        return 1
    fi
    local all reached kept runs
    all=$(sed -n 's/.*Loaded 1 PC tables (\([0-9]*\) PCs).*/\1/p' "$log")
    reached=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1)
    kept=$(grep -oE 'corp: [0-9]+' "$log" | tail -n 1)
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$name: ${reached#cov: } of $all edges reached, ${kept#corp: } inputs kept, $runs runs"
}
export -f run

# The others go on when one fails.
printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I '{}' bash -c 'set -euo pipefail; run {}'
