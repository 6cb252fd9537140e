#!/usr/bin/env bash
# The scenarios for rdkafka, run by cargo test. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# A target directory of its own, outside the checkout: librdkafka is compiled once a machine.
export CARGO_TARGET_DIR=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}/rdkafka-target
unset CARGO_BUILD_TARGET RUSTFLAGS
# A test is several scenarios; a failing one ends its test, and the others go on.
exec cargo test --locked --quiet --manifest-path "$here/Cargo.toml" ${ONLY_BUILD:+--no-run} \
    -- --test-threads=1 --nocapture
