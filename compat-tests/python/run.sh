#!/usr/bin/env bash
# A Python client's scenarios, run by pytest. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$("$here/venv.sh" "$CLIENT")
exec "$venv/bin/python" -B -m pytest -q --no-header -W ignore -p no:cacheprovider --tb=short \
    --rootdir "$here" "$here"
