#!/usr/bin/env bash
# Kafka's Java clients, newest and old, and its command-line tools. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case $CLIENT in
    kafka-tools) exec "$here/tools.sh" ;;
esac
