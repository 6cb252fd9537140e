#!/usr/bin/env bash
# Kafka's own command-line tools against the broker at $bootstrap. Called by run.sh.
# shellcheck disable=SC2329
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

here=$(dirname "$0")
class_path=$("$here/class-path.sh")
server=(--bootstrap-server "$bootstrap")

# Small heaps and the first compiler: these are short runs.
java=(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$class_path")
# Runs class org.apache.kafka.tools.$1.
tool() {
    local class=$1
    shift
    timeout 90 "${java[@]}" "org.apache.kafka.tools.$class" "$@"
}
topics() { tool TopicCommand "${server[@]}" "$@"; }
offsets() { tool GetOffsetShell "${server[@]}" "$@"; }
configs() { tool ConfigCommand "${server[@]}" "$@"; }
# Sends the lines of stdin to topic $1.
produce() { tool ConsoleProducer "${server[@]}" --topic "$@"; }
# Prints what partition $2 of topic $1 holds from its beginning, $3 records.
consume() {
    local topic=$1 partition=$2 count=$3
    shift 3
    tool consumer.ConsoleConsumer "${server[@]}" --topic "$topic" --partition "$partition" \
        --from-beginning --max-messages "$count" --timeout-ms 30000 "$@"
}
has() { grep -E -- "$1" "$work_dir/out" || { cat "$work_dir/out"; return 1; }; }
has_not() { if grep -E -- "$1" "$work_dir/out"; then return 1; fi; }

topics_life() {
    topics --create --topic java-life --partitions 3 --config retention.ms=100000 >"$work_dir/out"
    has 'Created topic java-life'
    topics --create --topic java-life --if-not-exists
    topics --list >"$work_dir/out"
    has '^java-life$'
    topics --describe --topic java-life >"$work_dir/out"
    has 'PartitionCount: 3.*ReplicationFactor: 1.*retention.ms=100000'
    has 'Partition: 2.*Leader: [0-9]+.*Replicas: [0-9]+.*Isr: [0-9]+'
    topics --alter --topic java-life --partitions 5
    topics --describe --topic java-life >"$work_dir/out"
    has 'PartitionCount: 5'
    topics --delete --topic java-life
    topics --list >"$work_dir/out"
    has_not '^java-life$'
    topics --create --topic java-life --partitions 1
    if topics --create --topic java-life --partitions 1 >"$work_dir/out" 2>&1; then return 1; fi
    has 'already exists'
}

console() {
    seq 1 1000 >"$work_dir/in"
    produce java-console --command-property compression.type=zstd <"$work_dir/in"
    consume java-console 0 1000 >"$work_dir/out"
    cmp "$work_dir/in" "$work_dir/out"
    printf 'k1\tv1\nk2\tv2\n' | produce java-console-keys --reader-property parse.key=true
    consume java-console-keys 0 2 --formatter-property print.key=true \
        --formatter-property print.offset=true --formatter-property print.timestamp=true >"$work_dir/out"
    has '^CreateTime:[0-9]{13}.Offset:1.k2.v2$'
}

get_offsets() {
    topics --create --topic java-offsets --partitions 2
    seq 1 10 | produce java-offsets
    offsets --topic java-offsets --time latest >"$work_dir/out"
    [ "$(awk -F: '{sum += $3} END {print sum}' "$work_dir/out")" = 10 ]
    [ "$(wc -l <"$work_dir/out")" = 2 ]
    offsets --topic java-offsets --time earliest >"$work_dir/out"
    has '^java-offsets:0:0$'
    for time in max-timestamp earliest-local 1; do
        offsets --topic java-offsets --time "$time" >"$work_dir/out"
        has '^java-offsets:[01]:[0-9]'
    done
    # Nothing is tiered: there is no such offset, and that is no error.
    offsets --topic java-offsets --time latest-tiered >"$work_dir/out" 2>&1
    has_not '[0-9]$|Exception|Error'
    offsets >"$work_dir/out"
    has '^java-offsets:1:'
}

delete_records() {
    seq 1 10 | produce java-delete
    echo '{"partitions":[{"topic":"java-delete","partition":0,"offset":4}],"version":1}' >"$work_dir/json"
    tool DeleteRecordsCommand "${server[@]}" --offset-json-file "$work_dir/json" >"$work_dir/out"
    has 'java-delete-0.*low_watermark: 4'
    offsets --topic java-delete --time earliest >"$work_dir/out"
    has '^java-delete:0:4$'
    [ "$(consume java-delete 0 6 | paste -sd,)" = 5,6,7,8,9,10 ]
}

configs_of_topics() {
    topics --create --topic java-configs --partitions 1
    configs --entity-type topics --entity-name java-configs --describe --all >"$work_dir/out"
    for key in cleanup.policy compression.type max.message.bytes min.insync.replicas \
        retention.bytes retention.ms segment.bytes message.timestamp.type; do
        has "^ +$key="
    done
    configs --entity-type topics --entity-name java-configs --alter \
        --add-config retention.ms=12345,cleanup.policy=[delete] >"$work_dir/out"
    has 'Completed updating config for topic java-configs'
    configs --entity-type topics --entity-name java-configs --describe >"$work_dir/out"
    has 'retention.ms=12345 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=12345'
    configs --entity-type topics --entity-name java-configs --alter --delete-config retention.ms
    configs --entity-type topics --entity-name java-configs --describe >"$work_dir/out"
    has_not 'retention.ms='
    if configs --entity-type topics --entity-name java-configs --alter \
        --add-config retention.ms=soon >"$work_dir/out" 2>&1; then return 1; fi
    has 'Invalid'
}

configs_of_brokers() {
    local node
    topics --create --topic java-broker-configs --partitions 1
    topics --describe --topic java-broker-configs >"$work_dir/out"
    node=$(grep -oE 'Leader: [0-9]+' "$work_dir/out" | grep -oE '[0-9]+')
    configs --entity-type brokers --entity-name "$node" --describe --all >"$work_dir/out"
    for key in num.partitions log.retention.hours auto.create.topics.enable message.max.bytes; do
        has "^ +$key="
    done
}

broker_api_versions() {
    tool BrokerApiVersionsCommand "${server[@]}" >"$work_dir/out"
    has "^127.0.0.1:${bootstrap##*:} \(id: [0-9]+"
    has 'Produce\(0\): '
    has 'DescribeTopicPartitions\(75\): 0'
}

cluster_id() {
    tool ClusterTool cluster-id "${server[@]}" >"$work_dir/out"
    has '^Cluster ID: [A-Za-z0-9_-]{22}$'
}

log_dirs() {
    seq 1 10 | produce java-log-dirs
    tool LogDirsCommand "${server[@]}" --describe --topic-list java-log-dirs >"$work_dir/out"
    has '"partition":"java-log-dirs-0","size":[1-9]'
}

# The perf test's producer is idempotent with acks=all, as every Java producer by default.
producer_perf() {
    topics --create --topic java-perf --partitions 3
    tool ProducerPerformance --topic java-perf --num-records 50000 --record-size 1000 \
        --throughput -1 --bootstrap-server "$bootstrap" >"$work_dir/out"
    has '^50000 records sent, '
    offsets --topic java-perf --time latest >"$work_dir/out"
    [ "$(awk -F: '{sum += $3} END {print sum}' "$work_dir/out")" = 50000 ]
}

groups() { tool consumer.group.ConsumerGroupCommand "${server[@]}" "$@"; }
# The committed offset of partition 0, as the tool shows it.
current_offset() {
    groups --describe --group "$1" >"$work_dir/out" 2>&1
    awk -v group="$1" '$1 == group && $3 == 0 {print $4}' "$work_dir/out"
}

consumer_groups() {
    topics --create --topic java-groups --partitions 1
    seq 1 10 | produce java-groups
    tool consumer.ConsoleConsumer "${server[@]}" --topic java-groups --group java-group \
        --from-beginning --max-messages 10 --timeout-ms 30000 >"$work_dir/back"
    seq 1 10 | cmp - "$work_dir/back"
    groups --list >"$work_dir/out"
    has '^java-group$'
    tool GroupsCommand "${server[@]}" --list >"$work_dir/out"
    has '^java-group +Classic +consumer'
    [ "$(current_offset java-group)" = 10 ]
    groups --describe --group java-group --state >"$work_dir/out"
    has 'java-group .*Empty +0'
    groups --reset-offsets --group java-group --topic java-groups --to-offset 4 --execute
    [ "$(current_offset java-group)" = 4 ]
    tool consumer.ConsoleConsumer "${server[@]}" --topic java-groups --group java-group \
        --max-messages 6 --timeout-ms 30000 >"$work_dir/back"
    seq 5 10 | cmp - "$work_dir/back"
    groups --delete-offsets --group java-group --topic java-groups
    groups --delete --group java-group >"$work_dir/out"
    has "Deletion of requested consumer groups \\('java-group'\\) was successful"
    groups --list >"$work_dir/out"
    has_not '^java-group$'
}

# Waits until a command succeeds; its output is in $work_dir/out.
until_ok() {
    local deadline=$((SECONDS + 60))
    until "$@"; do
        ((SECONDS < deadline)) || { echo "not within 60 s: $*"; cat "$work_dir/out"; return 1; }
        sleep 0.2
    done
}
# Fails unless the command fails and says $1.
refuses() {
    local says=$1
    shift
    # Some of these tools say what is wrong and exit with 0.
    "$@" >"$work_dir/out" 2>&1 || true
    has "$says"
}

# What is shown of a group while a member is there, and what is refused then.
groups_describe() {
    topics --create --topic java-live --partitions 2
    seq 1 10 | produce java-live
    "${java[@]}" org.apache.kafka.tools.consumer.ConsoleConsumer "${server[@]}" \
        --topic java-live --group java-live-group --from-beginning \
        --command-property client.id=live-client \
        --command-property auto.commit.interval.ms=200 >"$work_dir/back" &
    local member=$!
    # shellcheck disable=SC2064
    trap "kill $member 2>/dev/null || true" EXIT
    all_read() {
        groups --describe --group java-live-group --offsets --verbose >"$work_dir/out" 2>&1
        [ "$(awk '$1 == "java-live-group" {sum += $5} END {print sum + 0}' "$work_dir/out")" = 10 ]
    }
    until_ok all_read
    has '^java-live-group +java-live +0 +.* 0 +live-client.* /127.0.0.1 +live-client'
    groups --describe --group java-live-group --members --verbose >"$work_dir/out"
    has '^java-live-group +live-client-.* /127.0.0.1 +live-client +2 .*java-live'
    groups --describe --group java-live-group --state >"$work_dir/out"
    has '^java-live-group .*range.* Stable +1'
    groups --list --state stable >"$work_dir/out"
    has '^java-live-group +Stable'
    groups --list --state empty >"$work_dir/out"
    has_not '^java-live-group'
    groups --list --type classic >"$work_dir/out"
    has '^java-live-group +Classic'
    tool GroupsCommand "${server[@]}" --list --consumer >"$work_dir/out"
    has '^java-live-group +Classic +consumer'
    refuses 'is inactive, but the current state is Stable' groups --reset-offsets \
        --group java-live-group --all-topics --to-earliest --execute
    refuses 'GroupNotEmptyException' groups --delete --group java-live-group
    refuses 'GroupSubscribedToTopicException|is actively subscribed' groups --delete-offsets \
        --group java-live-group --topic java-live
    kill "$member"
    wait "$member" || true
    all_left() {
        groups --describe --group java-live-group --state >"$work_dir/out" 2>&1
        grep -q 'Empty +0' -E "$work_dir/out"
    }
    until_ok all_left
    groups --describe --all-groups --offsets >"$work_dir/out" 2>&1
    has '^java-live-group +java-live +1 .* 0 +- +- +-'
    groups --delete --group java-live-group >"$work_dir/out"
    has 'was successful'
    refuses 'GroupIdNotFoundException|does not exist' groups --describe --group java-live-group
}

# The new offset of partition 0, in what the tool prints of a reset.
new_offset() {
    groups --reset-offsets --group java-reset-group "$@" >"$work_dir/out"
    awk '$1 == "java-reset-group" && $3 == 0 {print $4}' "$work_dir/out"
}
groups_reset() {
    local between
    topics --create --topic java-reset --partitions 1
    seq 1 5 | produce java-reset
    between=$(date -u +%Y-%m-%dT%H:%M:%S.%3N)
    seq 6 10 | produce java-reset
    local one=(--topic java-reset:0)
    [ "$(new_offset "${one[@]}" --to-offset 4 --execute)" = 4 ]
    [ "$(new_offset "${one[@]}" --to-latest --dry-run)" = 10 ]
    [ "$(current_offset java-reset-group)" = 4 ]
    [ "$(new_offset --all-topics --shift-by 3 --execute)" = 7 ]
    [ "$(new_offset "${one[@]}" --shift-by -9 --execute)" = 0 ]
    [ "$(new_offset "${one[@]}" --shift-by 99 --execute)" = 10 ]
    [ "$(new_offset "${one[@]}" --to-datetime "$between" --execute)" = 5 ]
    new_offset --all-topics --to-current --export --dry-run
    grep -E '^"?java-reset"?,0,5$' "$work_dir/out" >"$work_dir/offsets.csv"
    [ "$(new_offset "${one[@]}" --to-earliest --execute)" = 0 ]
    [ "$(current_offset java-reset-group)" = 0 ]
    [ "$(new_offset --from-file "$work_dir/offsets.csv" --execute)" = 5 ]
    [ "$(new_offset "${one[@]}" --by-duration P1D --execute)" = 0 ]
    [ "$(new_offset "${one[@]}" --by-duration PT0S --execute)" = 10 ]
    [ "$(new_offset "${one[@]}" --to-offset 99 --execute)" = 10 ]
    [ "$(current_offset java-reset-group)" = 10 ]
    [ "$(new_offset "${one[@]}" --to-current --execute)" = 10 ]
}

# Two of Kafka's own test consumers: one is killed, the other takes over, nothing is missed.
# The topic is the group's name too; the rest are options.
verifiable() {
    local topic=$1 members=() member
    shift
    topics --create --topic "$topic" --partitions 6
    seq 1 600 | produce "$topic"
    for member in first second; do
        "${java[@]}" org.apache.kafka.tools.VerifiableConsumer "${server[@]}" --topic "$topic" \
            --group-id "$topic" --reset-policy earliest "$@" >"$work_dir/$member" &
        members+=($!)
    done
    # shellcheck disable=SC2064
    trap "kill -KILL ${members[*]} 2>/dev/null || true" EXIT
    owned() { python3 -B "$here/verifiable.py" owned "$work_dir/$1"; }
    share() { [ "$(owned first)" = 3 ] && [ "$(owned second)" = 3 ]; }
    until_ok share
    kill -KILL "${members[0]}"
    seq 601 1200 | produce "$topic"
    has_all() { [ "$(owned second)" = 6 ]; }
    until_ok has_all
    all_committed() {
        groups --describe --group "$topic" >"$work_dir/out" 2>&1
        [ "$(awk -v g="$topic" '$1 == g {done += $4} END {print done + 0}' "$work_dir/out")" = 1200 ]
    }
    until_ok all_committed
    kill "${members[1]}"
    wait "${members[1]}" || true
    [ "$(python3 -B "$here/verifiable.py" consumed "$work_dir/first" "$work_dir/second")" = 1200 ]
}

# The tool prints what it measured and then commits its consumer's offset, which needs a group
# coordinator: two cases of one run.
end_to_end_latency() {
    printf "%s\n" request.timeout.ms=10000 default.api.timeout.ms=15000 >"$work_dir/latency.properties"
    tool EndToEndLatency "${server[@]}" --topic java-latency --num-records 500 \
        --producer-acks all --record-size 100 --command-config "$work_dir/latency.properties" \
        >"$work_dir/out" && touch "$work_dir/latency-committed" || true
    has 'Percentiles: 50th'
}
end_to_end_latency_commits() { [ -e "$work_dir/latency-committed" ]; }

run_case topics topics_life
run_case console console
run_case get-offsets get_offsets
run_case delete-records delete_records
run_case configs-topic configs_of_topics
run_case configs-broker configs_of_brokers
run_case broker-api-versions broker_api_versions
run_case cluster-id cluster_id
run_case log-dirs log_dirs
run_case producer-perf producer_perf
run_case consumer-groups consumer_groups
run_case groups-describe groups_describe
run_case groups-reset groups_reset
run_case verifiable-consumer verifiable java-verifiable --session-timeout 6000
run_case verifiable-consumer-kip848 verifiable java-verifiable-848 --group-protocol consumer
run_case e2e-latency end_to_end_latency
run_case e2e-latency-commit end_to_end_latency_commits
