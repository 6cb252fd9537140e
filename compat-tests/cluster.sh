#!/usr/bin/env bash
# Starts three local brokers as one cluster and waits; Ctrl-C ends all three.
# PORT=19092 is the first of nine ports (clients, peers, HTTP); DATA=./data/cluster is where
# cluster-1, -2 and -3 lie; arguments are handed to each broker.
set -euo pipefail
binary=${HIGHWATER_BIN:?names the broker}
port=${PORT:-19092} data=${DATA:-./data/cluster}
voters=
for node in 1 2 3; do
    voters+=${voters:+,}$node@127.0.0.1:$((port + 10 + node - 1))
done
brokers=()
end() {
    # A second Ctrl-C changes nothing.
    trap '' INT TERM
    trap - EXIT
    ((${#brokers[@]} == 0)) || kill "${brokers[@]}" 2>/dev/null || true
    wait
}
trap 'end; exit 130' INT TERM
trap end EXIT
bootstrap=
for node in 1 2 3; do
    at=127.0.0.1:$((port + node - 1)) http=127.0.0.1:$((port + 20 + node - 1))
    mkdir -p "$data-$node"
    # A session of its own: Ctrl-C reaches this script alone, which ends them in order.
    setsid "$binary" serve \
        --override node.id=$node --override "controller.quorum.voters=$voters" \
        --override "listeners=PLAINTEXT://$at" --override "highwater.http.listener=$http" \
        --override "log.dirs=$data-$node/data" --override default.replication.factor=3 \
        "$@" >>"$data-$node/broker.log" 2>&1 &
    brokers+=($!)
    bootstrap+=${bootstrap:+,}$at
    echo "broker $node: clients $at, metrics http://$http/metrics, log $data-$node/broker.log"
done
for node in 1 2 3; do
    until (: <"/dev/tcp/127.0.0.1/$((port + node - 1))") 2>/dev/null; do
        kill -0 "${brokers[node - 1]}" 2>/dev/null ||
            { tail -n 20 "$data-$node/broker.log" >&2; exit 1; }
        sleep 0.1
    done
done
echo "bootstrap.servers=$bootstrap"
wait -n || true
echo "a broker has ended: see its log" >&2
exit 1
