#!/usr/bin/env bash
# Installs what the clients need, when it is missing: Debian packages, jars, Python packages.
# Usage: setup.sh [kcat|java|python]...
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need python3 python3
for client in "$@"; do
    case $client in
        kcat)
            need kcat kcat
            [ -e /usr/share/dict/american-english ] || packages+=(wamerican)
            ;;
        java) need java default-jre-headless; need mvn maven ;;
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv) ;;
        *) die "no such client: $client" ;;
    esac
done
"$repo_dir/.ci/apt-install" "${packages[@]}"

for client in "$@"; do
    case $client in
        java) "$compat_dir/java/class-path.sh" >/dev/null ;;
        python) "$compat_dir/python/venv.sh" >/dev/null ;;
    esac
done
