#!/usr/bin/env bash
# Fetches the crates and compiles librdkafka and the scenarios.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ONLY_BUILD=1 "$here/run.sh"
