#!/usr/bin/env bash
# The first process in check.sh's namespaces: starts the engine, gives it base images under the
# names that the Dockerfile and the compose file have, and runs claims.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip link set lo up
unset DOCKER_HOST DOCKER_CONTEXT
export DOCKER_CONFIG=$WORK/config

start() {
    dockerd --data-root "$WORK/data" --exec-root /run/docker --host unix:///run/docker.sock \
        --pidfile /run/docker.pid --cgroup-parent "/${WORK##*/}" "$@" >"$WORK/dockerd.log" 2>&1 &
    local dockerd=$!
    for _ in $(seq 300); do
        docker info >/dev/null 2>&1 && return 0
        kill -0 "$dockerd" 2>/dev/null || return 1
        sleep 0.1
    done
    kill "$dockerd"
    wait "$dockerd" || true
    return 1
}
mkdir -p "$DOCKER_CONFIG" /run/docker
# Without plugins of the machine's there is no Compose in the engine's client.
for plugins in ~/.docker/cli-plugins; do
    [ ! -d "$plugins" ] || ln -s "$plugins" "$DOCKER_CONFIG/cli-plugins"
done
# Where files lie on an overlay already, another one over it is refused.
start || start --storage-driver vfs || {
    echo "docker-check: nothing was verified: Docker's engine does not start here:" \
        "$(grep -v 'level=\(info\|debug\)' "$WORK/dockerd.log" | tail -n 1)" >&2
    exit 2
}
docker import "$CACHE/debian.tar" debian:bookworm-slim >/dev/null
docker import "$CACHE/tools.tar" tools >/dev/null
[ ! -e "$CACHE/build.tar" ] || docker import "$CACHE/build.tar" debian-build >/dev/null
docker build --quiet --tag rust:1-bookworm "$WORK/build-base" >/dev/null 2>"$WORK/log" ||
    { cat "$WORK/log" >&2; exit 1; }
docker build --quiet --tag prom/prometheus - >/dev/null 2>"$WORK/log" <<'DOCKER' ||
FROM tools
RUN install -d -o nobody /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
DOCKER
    { cat "$WORK/log" >&2; exit 1; }
cd "$REPOSITORY"
# A child, not this process: who is first in a namespace would have to collect its orphans.
python3 "$here/claims.py"
