#!/usr/bin/env bash
# Runs test suites that others wrote against the broker: librdkafka's own and franz-go's.
#
#   run.sh [librdkafka|franz-go]...   both by default
#   BROKER=kafka                      against Apache Kafka itself
#   T=text                            only tests whose name contains the text
#   SHORT=1                           a few tests of each, in a minute (also with CI=true)
#   RECORD=1                          write results.json, which docs/COMPATIBILITY.md shows
#   KEEP=1                            keep the working directory with all logs
# More as ../run.sh: HIGHWATER_BIN, PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "${CI:-}" != true ] || export SHORT=1
if [ -z "${SHORT:-}" ]; then unset SHORT; fi
command -v python3 >/dev/null 2>&1 || "$here/../../.ci/apt-install" python3
exec python3 -B "$here/run.py" "$@"
