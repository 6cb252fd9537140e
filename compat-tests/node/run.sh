#!/usr/bin/env bash
# A Node client's scenarios, run by Node's own test runner. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
packages=$("$here/prepare.sh")
PATH=$("$here/setup.sh"):$PATH
export PATH NODE_PATH=$packages/node_modules KAFKAJS_NO_PARTITIONER_WARNING=1
exec node --test --test-reporter=spec "$here/scenarios.test.js"
