#!/usr/bin/env bash
# Starts three nodes of Apache Kafka. Usage: cluster.sh DIR PORT1 PORT2 PORT3 CTRL1 CTRL2 CTRL3;
# writes DIR/1/broker.pid and so on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
shift
ports=("$1" "$2" "$3") controllers=("$4" "$5" "$6")
voters=
for node in 1 2 3; do
    voters+=${voters:+,}$node@127.0.0.1:${controllers[node - 1]}
done
for node in 1 2 3; do
    KAFKA_NODE_ID=$node KAFKA_VOTERS=$voters \
        "$here/start.sh" "$dir/$node" "${ports[node - 1]}" "${controllers[node - 1]}"
done
