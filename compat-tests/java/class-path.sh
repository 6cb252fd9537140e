#!/usr/bin/env bash
# Prints the class path of Kafka's tools and broker; fetches the artifacts when pom.xml is new.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
mkdir -p "$cache_dir"
kept=$cache_dir/class-path-$(sha256sum "$here/pom.xml" | cut -c1-16)
first_jar() { cut -d: -f1 <"$kept"; }
if ! { [ -s "$kept" ] && [ -f "$(first_jar)" ]; }; then
    mvn -q -B -f "$here/pom.xml" dependency:build-classpath -Dmdep.outputFile="$kept.new" >&2
    mv "$kept.new" "$kept"
fi
cat "$kept"
