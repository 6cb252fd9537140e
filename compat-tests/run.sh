#!/usr/bin/env bash
# Runs real clients against a broker, prints the table client x scenario, and fails on any result
# that expected.toml does not expect.
#
#   run.sh [client or folder]...    all of them by default; matrix/clients.toml names them
#   SHORT=1                         the short form, which CI runs (also with CI=true)
#   CASE=text                       only cases whose name contains the text
#   BROKER=kafka                    against Apache Kafka itself: do the tests tell the truth?
#   HIGHWATER_BIN=path              the binary (default: target/release/highwater)
#   PORT=number                     a fixed port for the broker (default: free ones)
#   JOBS=number                     clients at a time (default: 2)
#   RECORD=1                        write results.json, which docs/COMPATIBILITY.md shows
#   KEEP=1                          keep the working directory with all logs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "${CI:-}" != true ] || export SHORT=1
if [ -z "${SHORT:-}" ]; then unset SHORT; fi
command -v python3 >/dev/null 2>&1 || "$here/../.ci/apt-install" python3
"$here/setup.sh" "$@"
exec python3 -B "$here/matrix/run.py" "$@"
