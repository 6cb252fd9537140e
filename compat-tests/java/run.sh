#!/usr/bin/env bash
# Kafka's Java clients, newest and old, and its command-line tools. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case $CLIENT in
    kafka-tools) exec "$here/tools.sh" ;;
    java) version=4.4.0 ;;
    java-3.9) version=3.9.2 ;;
    java-2.8) version=2.8.2 ;;
esac
# Each version has a build directory of its own: one text, compiled against each.
build_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}/java-clients-$version
options=(-B -q -f "$here/clients/pom.xml" "-Dclients.version=$version" "-Doutput.directory=$build_dir")
exec mvn "${MAVEN_MODE:--o}" "${options[@]}" test
