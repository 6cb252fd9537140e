#!/usr/bin/env bash
# Runs real clients against a broker and compares the results with expected.toml.
#
#   run.sh [kcat|java|python]...    all of them by default
#   SHORT=1                         only the cases marked as short in expected.toml (what CI runs)
#   CASE=text                       only cases whose name contains the text
#   BROKER=kafka                    against Apache Kafka itself: do the tests tell the truth?
#   HIGHWATER_BIN=path              the binary (default: target/release/highwater)
#   KEEP=1                          keep the working directory
set -euo pipefail
. "$(dirname "$0")/lib.sh"

clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(kcat java python)

"$compat_dir/setup.sh" "${clients[@]}"

work_dir=$(mktemp -d "${TMPDIR:-/tmp}/highwater-compat.XXXXXX")
export work_dir
broker_pid=
finish() {
    local status=$?
    [ -z "$broker_pid" ] || stop_process "$broker_pid" || status=1
    [ -n "${KEEP:-}" ] && say "kept: $work_dir" || rm -rf "$work_dir"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

: >"$work_dir/results"
python3 "$compat_dir/verdict.py" --list-short >"$work_dir/short-cases"
start_broker "$work_dir/broker"
export bootstrap broker_pid
for client in "${clients[@]}"; do
    say "$client against ${BROKER:-highwater} at $bootstrap"
    "$compat_dir/$client/run.sh" || die "$client/run.sh itself failed"
    kill -0 "$broker_pid" 2>/dev/null || {
        tail -n 30 "$work_dir/broker/broker.log" >&2
        die "the broker died during $client"
    }
done
if [ "${BROKER:-highwater}" = highwater ] && grep -E ' ERROR |panicked' "$work_dir/broker/broker.log" >&2; then
    die "the broker logged errors (above)"
fi
filter=()
[ -z "${CASE:-}" ] || filter+=(--case "$CASE")
[ -z "${SHORT:-}" ] || filter+=(--short)
python3 "$compat_dir/verdict.py" "${filter[@]}" --results "$work_dir/results" "${clients[@]}"
