#!/usr/bin/env bash
# Prints the virtual environment of client $1; makes it anew when its requirements have changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
mkdir -p "$cache_dir"
requirements=$here/requirements/$1.txt
venv=$cache_dir/python-$1-$(sha256sum "$requirements" | cut -c1-16)
if [ ! -f "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
    touch "$venv/complete"
fi
echo "$venv"
