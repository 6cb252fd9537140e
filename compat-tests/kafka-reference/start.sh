#!/usr/bin/env bash
# Starts Apache Kafka itself, one node in KRaft mode: the referee for what these tests expect, and
# the other side of a race. Usage: start.sh DIR CLIENT_PORT CONTROLLER_PORT; writes DIR/broker.pid.
# More properties, one `key=value` a line, may be given in KAFKA_PROPERTIES.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 port=$2 controller_port=$3
class_path=$("$here/../java/class-path.sh")
mkdir -p "$dir"
cat >"$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
${KAFKA_PROPERTIES:-}
PROPERTIES
java -Xmx256m -cp "$class_path" kafka.tools.StorageTool format --ignore-formatted \
    --cluster-id 5L6g3nShT-eMCtK--X86sw --config "$dir/server.properties" >"$dir/format.log" 2>&1 ||
    { cat "$dir/format.log" >&2; exit 1; }
java "-Xmx${KAFKA_HEAP:-384m}" -XX:+UseG1GC -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$class_path" kafka.Kafka "$dir/server.properties" >"$dir/broker.log" 2>&1 </dev/null &
echo $! >"$dir/broker.pid"
