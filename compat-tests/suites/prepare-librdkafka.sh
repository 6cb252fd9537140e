#!/usr/bin/env bash
# Builds librdkafka's tests, once a machine, from the source that the crate rdkafka-sys carries;
# prints the directory of the test runner. The crate is the one that ../rust is locked to.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_SUITES_CACHE:-$HOME/.cache/highwater/suites}
mkdir -p "$cache_dir"
packages=()
need() { [ -e "$1" ] || packages+=("$2"); }
need /usr/bin/make make
need /usr/bin/g++ g++
need /usr/include/zlib.h zlib1g-dev
need /usr/include/zstd.h libzstd-dev
need /usr/include/openssl/ssl.h libssl-dev
[ ${#packages[@]} -eq 0 ] || "$here/../../.ci/apt-install" "${packages[@]}"

manifest=$here/../rust/Cargo.toml
cargo fetch --locked --quiet --manifest-path "$manifest" >&2
source_dir=$(cargo metadata --locked --offline --format-version 1 --manifest-path "$manifest" |
    python3 -c '
import json, os, sys
packages = json.load(sys.stdin)["packages"]
(found,) = [p for p in packages if p["name"] == "rdkafka-sys"]
print(os.path.dirname(found["manifest_path"]))')
build_dir=$cache_dir/$(basename "$source_dir")
if [ ! -e "$build_dir/complete" ]; then
    rm -rf "$build_dir"
    cp -a "$source_dir/librdkafka" "$build_dir"
    cd "$build_dir"
    { ./configure --disable-gssapi && make -j2 libs && make -j2 -C tests build; } \
        >"$build_dir.log" 2>&1 || { tail -n 5 "$build_dir.log" >&2; exit 1; }
    touch complete
fi
echo "$build_dir/tests"
