#!/usr/bin/env bash
# Prints the directory of the virtual environment; makes it anew when requirements.txt has changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
venv=$cache_dir/python-$(sha256sum "$here/requirements.txt" | cut -c1-16)
if [ ! -f "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
    touch "$venv/complete"
fi
echo "$venv"
