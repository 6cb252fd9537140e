#!/usr/bin/env bash
# Compiles franz-go's kgo tests, once a machine, from the module that ../go is locked to; prints
# the path of the test binary.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_SUITES_CACHE:-$HOME/.cache/highwater/suites}
PATH=$("$here/../go/setup.sh"):$PATH
export PATH GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
module=github.com/twmb/franz-go
version=$(awk -v module="$module" '$1 == module {print $2}' "$here/../go/go.mod")
build_dir=$cache_dir/franz-go-$version
if [ ! -e "$build_dir/kgo.test" ]; then
    rm -rf "$build_dir"
    mkdir -p "$build_dir"
    source_dir=$(cd "$here/../go" && go mod download -json "$module@$version" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
    # The module cache is read-only.
    cp -r "$source_dir" "$build_dir/source"
    chmod -R u+w "$build_dir/source"
    (cd "$build_dir/source/pkg/kgo" && go test -c -o "$build_dir/kgo.test" .) >&2
fi
echo "$build_dir/kgo.test"
