#!/usr/bin/env bash
# kcat (Debian's, on librdkafka): its scenarios, and what people use it for. Called by
# ../matrix/run.py.
# shellcheck disable=SC2329
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

words=$work_dir/words
# The first 100,000 lines of a real text file.
head -n 100000 /usr/share/dict/words >"$words"

kcat_() { timeout 60 kcat -b "$bootstrap" "$@"; }
consume_all() { kcat_ -C -q -u -e -t "$1" -o beginning; }

list_names_the_broker_and_the_topic() {
    echo one | kcat_ -P -t kcat-list
    kcat_ -L >"$work_dir/list"
    grep -E "broker [0-9]+ at 127.0.0.1:${bootstrap##*:}" "$work_dir/list"
    grep -F 'topic "kcat-list" with 1 partitions' "$work_dir/list"
    grep -E 'partition 0, leader [0-9]+, replicas: [0-9]+, isrs: [0-9]+$' "$work_dir/list"
    kcat_ -L -J | python3 -c 'import json, sys; json.load(sys.stdin)'
}

# $1: codec as librdkafka names it. Its debug log tells what each message set on the wire was:
# old librdkafka silently drops the compression when the broker's versions look too new.
round_trip() {
    local topic=kcat-words-$1 on_wire=$1
    [ "$1" != none ] || on_wire=uncompressed
    kcat_ -P -t "$topic" -z "$1" -X debug=msg -l "$words" 2>"$work_dir/debug"
    # It sends a few messages as they are when the codec does not make them smaller.
    grep 'Produce MessageSet with [0-9][0-9]' "$work_dir/debug" >"$work_dir/sets"
    grep -qF "$on_wire)" "$work_dir/sets"
    if grep -vF "$on_wire)" "$work_dir/sets"; then return 1; fi
    consume_all "$topic" >"$work_dir/back"
    wc -l "$words" "$work_dir/back"
    cmp "$words" "$work_dir/back"
}

idempotent_round_trip() {
    kcat_ -P -t kcat-idempotent -X enable.idempotence=true -X linger.ms=1 -l "$words"
    consume_all kcat-idempotent >"$work_dir/back"
    cmp "$words" "$work_dir/back"
}

acks() {
    echo "with acks=$1" | kcat_ -P -t "kcat-acks$1" -X "acks=$1"
    # With acks=0 nobody waited for the append: the reader does.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        consume_all "kcat-acks$1" >"$work_dir/back"
        [ ! -s "$work_dir/back" ] || break
    done
    [ "$(cat "$work_dir/back")" = "with acks=$1" ]
}

query_offsets_for_times() {
    local between
    printf 'a\nb\nc\n' | kcat_ -P -t kcat-times
    sleep 0.1
    between=$(date +%s%3N)
    sleep 0.1
    printf 'd\ne\n' | kcat_ -P -t kcat-times -z gzip
    kcat_ -Q -t "kcat-times:0:$between" | tee "$work_dir/query"
    grep -F 'kcat-times [0] offset 3' "$work_dir/query"
    kcat_ -Q -t kcat-times:0:1 | grep -F 'kcat-times [0] offset 0'
    kcat_ -Q -t kcat-times:0:-2 | grep -F 'kcat-times [0] offset 0'
    kcat_ -Q -t kcat-times:0:-1 | grep -F 'kcat-times [0] offset 5'
    [ "$(kcat_ -C -q -e -t kcat-times -o "s@$between" | paste -sd,)" = d,e ]
}

headers() {
    echo v | kcat_ -P -t kcat-headers -H a=1 -H b=2 -H a=3 -H empty=
    [ "$(kcat_ -C -q -e -t kcat-headers -o beginning -f '%s|%h\n')" = 'v|a=1,b=2,a=3,empty=' ]
}

null_key() {
    echo v | kcat_ -P -t kcat-null-key
    [ "$(kcat_ -C -q -e -t kcat-null-key -o beginning -f '%K|%S|%s\n')" = '-1|1|v' ]
}

null_value() {
    echo k: | kcat_ -P -t kcat-null-value -K: -Z
    [ "$(kcat_ -C -q -e -t kcat-null-value -o beginning -f '%K|%k|%S\n')" = '1|k|-1' ]
}

record_of_1mb() {
    head -c 1000000 /dev/urandom >"$work_dir/large"
    kcat_ -P -t kcat-large -X message.max.bytes=1048576 "$work_dir/large"
    kcat_ -C -q -e -t kcat-large -o beginning -D '' >"$work_dir/back"
    cmp "$work_dir/large" "$work_dir/back"
}

small_10000() {
    seq 0 9999 | kcat_ -P -t kcat-small
    consume_all kcat-small | cmp - <(seq 0 9999)
}

from_earliest() {
    seq 0 9 | kcat_ -P -t kcat-earliest
    kcat_ -C -q -e -t kcat-earliest -o beginning -f '%o %s\n' | cmp - <(paste -d' ' <(seq 0 9) <(seq 0 9))
}

from_latest() {
    echo before | kcat_ -P -t kcat-latest
    kcat_ -C -q -u -t kcat-latest -o end -c 1 >"$work_dir/latest" &
    local consumer=$!
    # Until it has found the end, what is sent is before the end.
    while kill -0 "$consumer" 2>/dev/null; do
        echo after | kcat_ -P -t kcat-latest
        sleep 0.3
    done
    wait "$consumer"
    [ "$(cat "$work_dir/latest")" = after ]
}

from_offset() {
    seq 0 999 | kcat_ -P -t kcat-offsets -z lz4
    [ "$(kcat_ -C -q -t kcat-offsets -o 500 -c 3 | paste -sd,)" = 500,501,502 ]
    [ "$(kcat_ -C -q -e -t kcat-offsets -o -2 | paste -sd,)" = 998,999 ]
}

# A line each 10 ms while the broker restarts; the shell's sleep is the clock.
numbers_across_a_restart() {
    local restart i=0
    for ((; i < 200; i++)); do echo "$i"; done
    $RESTART_BROKER >&2 &
    restart=$!
    while kill -0 "$restart" 2>/dev/null; do
        echo "$i"
        ((++i))
        sleep 0.01
    done
    wait "$restart"
    for ((last = i + 200; i < last; i++)); do echo "$i"; done
    echo "$i" >"$work_dir/count"
}

idempotent_across_a_restart() {
    echo 0 | kcat_ -P -t kcat-idempotent-warm-up
    numbers_across_a_restart |
        kcat_ -P -E -t kcat-restart -X enable.idempotence=true -X linger.ms=1
    consume_all kcat-restart | cmp - <(seq 0 $(($(cat "$work_dir/count") - 1)))
}

creates_a_topic() {
    echo first | kcat_ -P -t kcat-new
    [ "$(kcat_ -C -q -e -t kcat-new -o beginning -f '%o %s\n')" = '0 first' ]
}

too_large() {
    head -c 2000000 /dev/urandom >"$work_dir/large"
    if kcat_ -P -t kcat-too-large -X message.max.bytes=10000000 "$work_dir/large" \
        2>"$work_dir/error"; then return 1; fi
    grep -F 'Message size too large' "$work_dir/error"
    echo small | kcat_ -P -t kcat-too-large
    [ "$(kcat_ -C -q -e -t kcat-too-large -o beginning -f '%o %s\n')" = '0 small' ]
}

invalid_name() {
    if echo x | kcat_ -P -t 'no blanks' 2>"$work_dir/error"; then return 1; fi
    grep -F 'Invalid topic' "$work_dir/error"
}

# Takes $2 records of topic $3 as a member of group $1.
group_take() {
    kcat_ -G "$1" -q -u -c "$2" -X auto.offset.reset=earliest "$3"
}

group_commit() {
    seq 0 99 | kcat_ -P -t kcat-commit
    group_take kcat-commit-group 50 kcat-commit | cmp - <(seq 0 49)
    group_take kcat-commit-group 50 kcat-commit | cmp - <(seq 50 99)
}

# Six topics of one partition each, since kcat cannot create one with six.
group_topics() { seq -f "kcat-$1-%g" 0 5; }

# Becomes a member of group $1; prints `TOPIC VALUE` for each record.
member() {
    # shellcheck disable=SC2046
    exec kcat -b "$bootstrap" -G "kcat-$1" -q -u -f '%t %s\n' -X auto.offset.reset=earliest \
        -X session.timeout.ms=6000 -X heartbeat.interval.ms=500 -X auto.commit.interval.ms=100 \
        -X partition.assignment.strategy=roundrobin $(group_topics "$1")
}

# Sends record $2 to each topic and waits until all six were processed; prints who had how many.
group_round() {
    local topic deadline=$((SECONDS + 25))
    for topic in $(group_topics "$1"); do echo "$2" | kcat_ -P -t "$topic"; done
    while ((SECONDS < deadline)); do
        # A dead one's last line may be torn.
        [ "$(grep -hE " $2\$" "$work_dir/$1-first" "$work_dir/$1-second" | sort -u | wc -l)" = 6 ] && break
        sleep 0.1
    done
    echo "$(grep -cE " $2\$" "$work_dir/$1-first") $(grep -cE " $2\$" "$work_dir/$1-second")"
}

# Starts two members of group $1; sets first, second and rounds when each has three topics.
group_start() {
    local deadline=$((SECONDS + 90)) topic
    for topic in $(group_topics "$1"); do echo start | kcat_ -P -t "$topic"; done
    member "$1" >"$work_dir/$1-first" & first=$!
    member "$1" >"$work_dir/$1-second" & second=$!
    rounds=0
    until [ "$(group_round "$1" "$rounds")" = '3 3' ]; do
        ((SECONDS < deadline)) || { echo "they do not share"; return 1; }
        rounds=$((rounds + 1))
    done
    rounds=$((rounds + 1))
}

# Every record of the rounds was processed, and a further member gets nothing old.
group_check() {
    local topic
    for topic in $(group_topics "$1"); do
        seq -f "$topic %g" 0 $((rounds - 1))
    done | sort >"$work_dir/wanted"
    cat "$work_dir/$1-first" "$work_dir/$1-second" | sort -u >"$work_dir/got"
    [ -z "$(comm -23 "$work_dir/wanted" "$work_dir/got")" ]
    for topic in $(group_topics "$1"); do echo end | kcat_ -P -t "$topic"; done
    # shellcheck disable=SC2046
    [ "$(kcat_ -G "kcat-$1" -q -u -c 6 -X auto.offset.reset=earliest \
        -X partition.assignment.strategy=roundrobin $(group_topics "$1") | sort -u)" = end ]
}

group_share() {
    group_start share
    kill "$first" "$second"
    wait "$first" "$second" || true
    group_check share
}

group_takeover() {
    group_start takeover
    kill -KILL "$first"
    wait "$first" || true
    local begun=$SECONDS
    until [ "$(group_round takeover "$rounds" | cut -d' ' -f2)" = 6 ]; do
        ((SECONDS - begun < 30)) || { echo "nobody takes over"; return 1; }
        rounds=$((rounds + 1))
    done
    rounds=$((rounds + 1))
    # The session timeout, a heartbeat for the news, and a rebalance.
    ((SECONDS - begun <= 13))
    kill "$second"
    wait "$second" || true
    group_check takeover
}

waiting_consumer_gets_what_comes() {
    echo before | kcat_ -P -t kcat-tail
    timeout 30 kcat -b "$bootstrap" -C -q -u -t kcat-tail -o beginning -c 2 >"$work_dir/tail" &
    local consumer=$!
    for _ in $(seq 100); do [ ! -s "$work_dir/tail" ] || break; sleep 0.1; done
    echo after | kcat_ -P -t kcat-tail
    wait "$consumer"
    [ "$(paste -sd, "$work_dir/tail")" = before,after ]
}

run_case list list_names_the_broker_and_the_topic
for codec in none gzip snappy lz4 zstd; do
    run_case "codec-$codec" round_trip "$codec"
done
run_case headers headers
run_case null-key null_key
run_case null-value null_value
run_case record-1mb record_of_1mb
run_case small-10000 small_10000
run_case from-earliest from_earliest
run_case from-latest from_latest
run_case from-timestamp query_offsets_for_times
run_case from-offset from_offset
run_case idempotent-restart idempotent_across_a_restart
run_case auto-create creates_a_topic
run_case too-large too_large
run_case invalid-name invalid_name
run_case group-commit group_commit
run_case group-share group_share
run_case group-takeover group_takeover
run_case idempotent idempotent_round_trip
for level in 0 1 all; do
    run_case "acks-$level" acks "$level"
done
run_case tail waiting_consumer_gets_what_comes
