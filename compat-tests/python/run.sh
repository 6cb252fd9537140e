#!/usr/bin/env bash
# confluent-kafka and kafka-python against the broker at $bootstrap. Called by ../run.sh.
# Each pytest case is a case of ours, under the name that follows `test_`.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

here=$(dirname "$0")
venv=$("$here/venv.sh")
options=(-q --no-header -W ignore::DeprecationWarning -p no:cacheprovider --tb=short)
[ -z "${CASE:-}" ] || options+=(--case "$CASE")
if [ -n "${SHORT:-}" ]; then options+=(--short-cases "$work_dir/short-cases"); fi
# The verdict is run.sh's, from the results that conftest.py writes; 5 is "no case was selected".
timeout 300 "$venv/bin/python" -B -m pytest "${options[@]}" --rootdir "$here" "$here" >&2 ||
    [ $? -eq 1 ] || [ $? -eq 5 ]
