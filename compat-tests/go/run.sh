#!/usr/bin/env bash
# A Go client's scenarios, run by go test. Called by ../matrix/run.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$("$here/setup.sh"):$PATH
export PATH GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
case $CLIENT in
    franz-go) tag=franz ;;
    sarama) tag=sarama ;;
    kafka-go) tag=segmentio ;;
    confluent-go) tag=confluent ;;
esac
options=(-mod=readonly -count=1 -timeout 400s -tags "$tag")
# No test is called so: this compiles and links.
[ -z "${ONLY_BUILD:-}" ] || options+=(-run '^$')
cd "$here"
exec go test "${options[@]}" .
