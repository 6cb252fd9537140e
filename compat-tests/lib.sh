# shellcheck shell=bash
# What all runners share: where things are, free ports, starting and stopping the broker under test.
# Sourced, never run.

compat_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo_dir=$(dirname "$compat_dir")
# Class path, virtual environment and word lists: outside the checkout, so that a clean clone is warm.
cache_dir=${HIGHWATER_CACHE:-$HOME/.cache/highwater/compat}
target_dir=${CARGO_TARGET_DIR:-$repo_dir/target}
mkdir -p "$cache_dir"

say() { printf '%s\n' "$*" >&2; }
die() { say "compat-tests: $*"; exit 1; }

# Prints $1 different TCP ports that are free now.
free_ports() {
    python3 - "$1" <<'PY'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])
PY
}

# Waits until 127.0.0.1:$1 accepts a connection, while process $2 lives, at most $3 seconds.
wait_for_port() {
    local deadline=$((SECONDS + $3))
    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        kill -0 "$2" 2>/dev/null || return 1
        ((SECONDS < deadline)) || return 1
        sleep 0.05
    done
}

# Starts the broker that $BROKER names (highwater, the default, or kafka) with its data under $1.
# Sets broker_pid and bootstrap.
start_broker() {
    local dir=$1 port controller_port http_port
    read -r port controller_port http_port < <(free_ports 3)
    bootstrap=127.0.0.1:$port
    mkdir -p "$dir"
    case ${BROKER:-highwater} in
        highwater)
            local binary=${HIGHWATER_BIN:-$target_dir/release/highwater}
            [ -x "$binary" ] || die "$binary is not there: run 'cargo build --release' first"
            "$binary" serve \
                --override "listeners=PLAINTEXT://127.0.0.1:$port" \
                --override "advertised.listeners=PLAINTEXT://127.0.0.1:$port" \
                --override "highwater.http.listener=127.0.0.1:$http_port" \
                --override "log.dirs=$dir/data" \
                >"$dir/broker.log" 2>&1 </dev/null &
            broker_pid=$!
            wait_for_port "$port" "$broker_pid" 20
            ;;
        kafka)
            "$compat_dir/kafka-reference/start.sh" "$dir" "$port" "$controller_port"
            broker_pid=$(cat "$dir/broker.pid")
            wait_for_port "$port" "$broker_pid" 60
            ;;
        *) die "BROKER must be highwater or kafka, not $BROKER" ;;
    esac || { tail -n 30 "$dir/broker.log" >&2; die "the broker did not start"; }
}

# Stops process $1: SIGTERM, and SIGKILL when it has not gone after 20 s.
stop_process() {
    kill -TERM "$1" 2>/dev/null || return 0
    local deadline=$((SECONDS + 20))
    while kill -0 "$1" 2>/dev/null; do
        ((SECONDS < deadline)) || { say "process $1 ignores SIGTERM"; kill -KILL "$1"; return 1; }
        sleep 0.1
    done
}

# Runs case $1 (client/name): the rest is a command. Its output is shown only when it fails.
# With a short form asked for, cases that expected.toml does not mark as short are left out.
run_case() {
    local name=$1 log started=$SECONDS
    shift
    if [ -n "${SHORT:-}" ] && ! grep -qxF "$name" "$work_dir/short-cases"; then return 0; fi
    if [ -n "${CASE:-}" ] && [[ "$name" != *"$CASE"* ]]; then return 0; fi
    log=$work_dir/case.log
    # A subshell with errexit: any failing command of the case fails the case.
    set +e
    (set -euo pipefail; "$@") >"$log" 2>&1
    local status=$?
    set -e
    if ((status == 0)); then
        echo "pass $name" >>"$work_dir/results"
        say "  pass $name ($((SECONDS - started)) s)"
    else
        echo "fail $name" >>"$work_dir/results"
        say "  FAIL $name (status $status)"
        tail -n "${CASE_LOG_LINES:-25}" "$log" | cut -c1-400 | sed 's/^/    | /' >&2
    fi
}
