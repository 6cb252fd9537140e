#!/usr/bin/env bash
# kcat (Debian's, on librdkafka) against the broker at $bootstrap. Called by ../run.sh.
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
}

keys_headers_and_nulls() {
    printf 'k1:v1\n' | kcat_ -P -t kcat-records -K: -H first=1 -H second=two -H first=again
    printf 'k2:\n' | kcat_ -P -t kcat-records -K: -Z
    kcat_ -C -q -e -t kcat-records -o beginning -f '%o|%K|%k|%S|%s|%h\n' >"$work_dir/back"
    cat "$work_dir/back"
    printf '%s\n' '0|2|k1|2|v1|first=1,second=two,first=again' '1|2|k2|-1||' |
        cmp - "$work_dir/back"
}

offsets_from_the_middle_and_the_end() {
    seq 0 999 | kcat_ -P -t kcat-offsets -z lz4
    [ "$(kcat_ -C -q -t kcat-offsets -o 500 -c 3 | paste -sd,)" = 500,501,502 ]
    [ "$(kcat_ -C -q -e -t kcat-offsets -o -2 | paste -sd,)" = 998,999 ]
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

large_messages() {
    head -c 900000 /dev/zero | tr '\0' x >"$work_dir/large"
    kcat_ -P -t kcat-large "$work_dir/large" "$work_dir/large"
    [ "$(consume_all kcat-large | wc -c)" = 1800002 ]
}

run_case kcat/list list_names_the_broker_and_the_topic
for codec in none gzip snappy lz4 zstd; do
    run_case "kcat/words-$codec" round_trip "$codec"
done
run_case kcat/idempotent idempotent_round_trip
for level in 0 1 all; do
    run_case "kcat/acks-$level" acks "$level"
done
run_case kcat/query-times query_offsets_for_times
run_case kcat/records keys_headers_and_nulls
run_case kcat/offsets offsets_from_the_middle_and_the_end
run_case kcat/tail waiting_consumer_gets_what_comes
run_case kcat/large-messages large_messages
