#!/usr/bin/env bash
# Fetches Go and the modules, and compiles the client's test binary.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ONLY_BUILD=1 "$here/run.sh"
