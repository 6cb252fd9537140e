#!/usr/bin/env bash
# Installs the client's packages, when they are missing; prints the directory that has them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
bin=$("$here/setup.sh")
manifest=$here/packages/$CLIENT/package.json
packages=$cache_dir/node-$CLIENT-$(sha256sum "$manifest" | cut -c1-16)
if [ ! -f "$packages/complete" ]; then
    rm -rf "$packages"
    mkdir -p "$packages"
    cp "$manifest" "$packages/"
    # What is compiled is compiled for this Node, with the headers that came with it.
    export PATH=$bin:$PATH npm_config_nodedir=$(dirname "$bin")/root
    # confluent's package then builds its librdkafka with Debian's libraries, not with downloads.
    export CKJS_LINKING=dynamic
    (cd "$packages" && npm install --silent --no-audit --no-fund --no-package-lock) >&2
    touch "$packages/complete"
fi
echo "$packages"
