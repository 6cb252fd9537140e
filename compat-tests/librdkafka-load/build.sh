#!/usr/bin/env bash
# Compiles the load generator (librdkafka is part of it: two minutes) and prints where it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Outside the checkout: librdkafka is compiled once a machine.
target=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}/librdkafka-load-target
unset CARGO_BUILD_TARGET RUSTFLAGS
CARGO_TARGET_DIR=$target cargo build --release --locked --quiet \
    --manifest-path "$here/Cargo.toml" >&2
echo "$target/release/librdkafka-load"
