#!/usr/bin/env bash
# Installs what the clients need, when it is missing: Debian packages, then each language's own.
# Usage: setup.sh [client or folder]...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
die() { echo "compat-tests: $*" >&2; exit 1; }

# The chosen clients as lines `ID FOLDER`.
chosen=$(python3 - "$here/matrix/clients.toml" "$@" <<'PY'
import os, sys, tomllib
names = sys.argv[2:]
clients = tomllib.load(open(sys.argv[1], "rb"))["client"]
for name in names:
    if not any(name in (client["id"], client["folder"]) for client in clients):
        ids = ", ".join(client["id"] for client in clients)
        sys.exit(f"compat-tests: no such client: {name}; there are {ids}")
for client in clients:
    if client.get("unavailable"):
        continue
    is_named = not names or client["id"] in names or client["folder"] in names
    if is_named and (client.get("short") or not os.environ.get("SHORT")):
        print(client["id"], client["folder"])
PY
)

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv); }
need_header() { [ -e "/usr/include/$1" ] || packages+=("$2"); }
while read -r client _; do
    case $client in
        confluent-go) need gcc gcc; need g++ g++ ;;
        confluent-js)
            need_header openssl/ssl.h libssl-dev
            need_header zlib.h zlib1g-dev
            need_header zstd.h libzstd-dev
            ;;
    esac
done <<<"$chosen"
for folder in $(cut -s -d' ' -f2 <<<"$chosen" | sort -u); do
    case $folder in
        kcat)
            need kcat kcat
            [ -e /usr/share/dict/american-english ] || packages+=(wamerican)
            ;;
        java) need javac default-jdk-headless; need mvn maven ;;
        python) need_venv ;;
        node) need_venv; need make make; need g++ g++ ;;
        go) need_venv ;;
        rust) need cmake cmake; need make make; need g++ g++ ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then
    "$here/../.ci/apt-install" "${packages[@]}" ||
        die "these Debian packages are missing and could not be installed: ${packages[*]}"
fi

while read -r client folder; do
    [ -n "$client" ] || continue
    CLIENT=$client "$here/$folder/prepare.sh" >/dev/null ||
        die "what $client needs could not be installed: $folder/prepare.sh $client failed"
done <<<"$chosen"
