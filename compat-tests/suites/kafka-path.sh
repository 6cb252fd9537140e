#!/usr/bin/env bash
# Makes a folder $1 that looks like Kafka's: bin/kafka-*.sh, which librdkafka's tests call.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
class_path=$("$here/../java/class-path.sh")
mkdir -p "$1/bin"
for pair in topics:TopicCommand acls:AclCommand configs:ConfigCommand \
    consumer-groups:consumer.group.ConsumerGroupCommand; do
    cat >"$1/bin/kafka-${pair%%:*}.sh" <<TOOL
#!/bin/sh
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '$class_path' \\
    'org.apache.kafka.tools.${pair##*:}' "\$@"
TOOL
    chmod +x "$1/bin/kafka-${pair%%:*}.sh"
done
