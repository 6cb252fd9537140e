#!/usr/bin/env bash
# Fetches the jars and compiles the client's scenarios, when they are missing or have changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "$CLIENT" != kafka-tools ] || exec "$here/class-path.sh"
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
mkdir -p "$cache_dir"
sources=$(cat "$here/run.sh" "$here/clients/pom.xml" "$here"/clients/src/test/java/compat/* | sha256sum)
ready=$cache_dir/$CLIENT-ready
if [ "$(cat "$ready" 2>/dev/null)" != "$sources" ]; then
    # A run of no scenario fetches all that a run needs, the test runner's own parts too.
    SCENARIOS=none BOOTSTRAP=none RESULTS=/dev/null MAVEN_MODE=--fail-fast "$here/run.sh" >&2
    echo "$sources" >"$ready"
fi
