#!/usr/bin/env bash
# Starts Apache Kafka itself in KRaft mode: the referee for what these tests expect, and the other
# side of a race. Usage: start.sh DIR CLIENT_PORT CONTROLLER_PORT; writes DIR/broker.pid.
#   KAFKA_PROPERTIES  more properties, one `key=value` a line
#   KAFKA_HEAP        the heap (384m)
#   KAFKA_OPTIONS     more arguments for java
#   KAFKA_NODE_ID, KAFKA_VOTERS   one of several nodes; VOTERS is `1@host:port,2@host:port,…`
#                     of all their controllers (cluster.sh starts three)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 port=$2 controller_port=$3
node_id=${KAFKA_NODE_ID:-1}
voters=${KAFKA_VOTERS:-$node_id@127.0.0.1:$controller_port}
nodes=$(tr -cd , <<<"$voters" | wc -c)
replicas=$((nodes + 1))
class_path=$("$here/../java/class-path.sh")
mkdir -p "$dir"
cat >"$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$node_id
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=$replicas
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$((replicas / 2 + replicas % 2))
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$((replicas / 2 + replicas % 2))
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
${KAFKA_PROPERTIES:-}
PROPERTIES
java -Xmx256m -cp "$class_path" kafka.tools.StorageTool format --ignore-formatted \
    --cluster-id 5L6g3nShT-eMCtK--X86sw --config "$dir/server.properties" >"$dir/format.log" 2>&1 ||
    { cat "$dir/format.log" >&2; exit 1; }
# KAFKA_OPTIONS is unquoted on purpose: it is a list of arguments of java.
# shellcheck disable=SC2086
java "-Xmx${KAFKA_HEAP:-384m}" -XX:+UseG1GC ${KAFKA_OPTIONS:-} \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$class_path" kafka.Kafka "$dir/server.properties" >"$dir/broker.log" 2>&1 </dev/null &
echo $! >"$dir/broker.pid"
