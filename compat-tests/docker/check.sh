#!/usr/bin/env bash
# Verifies Dockerfile and docker-compose.yml with Docker's engine: claims.py says what holds.
#
# The engine is one of its own, in network, mount and process namespaces of its own: no port, rule
# of a firewall or container of the machine is touched, and all of it is gone at the end. Nothing
# in there reaches a network, so base images are made here, of Debian's packages, and kept in
# ~/.cache/highwater/docker: remove that folder to have them made anew.
# PREBUILT=target/release/highwater takes this binary instead of compiling one in the image.
# COMPOSE= names another Compose.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/highwater/docker
cannot() { echo "docker-check: nothing was verified: $*" >&2; exit 2; }

[ "$(uname -s)" = Linux ] || cannot "namespaces are Linux's"
[ "$(id -u)" -eq 0 ] || cannot "an engine of its own needs root"
unshare --net --mount --pid --fork true 2>/dev/null || cannot "namespaces are not allowed here"

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need dockerd docker.io
need docker docker.io
need iptables iptables
need ip iproute2
need debootstrap debootstrap
need python3 python3
docker compose version >/dev/null 2>&1 || need docker-compose docker-compose
[ -z "${PREBUILT:-}" ] || need strip binutils
"$repository/.ci/apt-install" "${packages[@]}" ||
    cannot "these Debian packages could not be installed: ${packages[*]}"

work=$(mktemp -d /var/tmp/highwater-docker-XXXXXX)
engine=
end() {
    trap '' INT TERM
    trap - EXIT
    # The first process of the namespace goes with this one, and everything else with the first.
    if [ -n "$engine" ]; then
        kill -KILL "$engine" 2>/dev/null || true
        wait "$engine" 2>/dev/null || true
    fi
    # Those that were killed take a moment to go.
    for _ in $(seq 50); do
        rm -rf --one-file-system "$work" 2>/dev/null || true
        local groups
        groups=$(find /sys/fs/cgroup -depth -type d -path "*/${work##*/}*" 2>/dev/null || true)
        [ -z "$groups" ] || xargs rmdir <<<"$groups" 2>/dev/null || true
        [ -n "$groups" ] || [ -e "$work" ] || break
        sleep 0.1
    done
}
trap 'end; exit 130' INT TERM
trap end EXIT

# A root of Debian with the named packages, as a tar archive in the cache.
debian() {
    local archive=$cache/$1.tar root=$work/$1
    shift
    [ ! -e "$archive" ] || return 0
    echo "making a base image: ${*:-Debian alone}" >&2
    mkdir -p "$cache"
    if [ $# -eq 0 ]; then
        debootstrap --variant=minbase bookworm "$root" >"$work/log" 2>&1
    else
        mkdir "$root"
        tar -C "$root" -xf "$cache/debian.tar"
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -qq &&
            exec apt-get install -y -qq --no-install-recommends "$@"' - "$@" >"$work/log" 2>&1
    fi || { tail -n 5 "$work/log" >&2; cannot "no root of Debian could be made"; }
    tar -C "$root" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' \
        -cf "$archive.new" .
    mv "$archive.new" "$archive"
    rm -rf "$root"
}
debian debian
debian tools kcat prometheus
context=$work/build-base
mkdir -p "$context"
if [ -n "${PREBUILT:-}" ]; then
    # In place of Rust a cargo that has the binary already; Debian's packages are not asked for.
    strip --strip-debug -o "$context/highwater" "$PREBUILT"
    cat >"$context/cargo" <<'SH'
#!/bin/sh
release=${CARGO_TARGET_DIR:-target}/release
mkdir -p "$release" && cp /usr/local/bin/prebuilt "$release/highwater"
SH
    printf '#!/bin/sh\n' >"$context/nothing"
    printf '#!/bin/sh\nexec cp "$4" "$3"\n' >"$context/strip"
    chmod +x "$context"/*
    cat >"$context/Dockerfile" <<'DOCKER'
FROM debian:bookworm-slim
COPY highwater /usr/local/bin/prebuilt
COPY cargo strip /usr/local/bin/
COPY nothing /usr/local/bin/clang
COPY nothing /usr/local/bin/g++
COPY nothing /usr/local/bin/make
RUN rm /usr/bin/dpkg-query
DOCKER
else
    debian build clang libclang-dev g++ make
    toolchain=$(cd "$repository" && rustc --print sysroot)
    [ "$toolchain" != /usr ] || cannot "the toolchain in /usr cannot be copied: use rustup's"
    mkdir "$context/rust"
    cp -a "$toolchain/bin" "$toolchain/lib" "$context/rust/"
    (cd "$repository" && cargo vendor --locked --quiet --versioned-dirs "$context/vendor") \
        >/dev/null 2>"$work/log" ||
        { tail -n 5 "$work/log" >&2; cannot "the crates could not be fetched"; }
    cat >"$context/config.toml" <<'TOML'
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "/usr/local/cargo/vendor"
[net]
offline = true
TOML
    cat >"$context/Dockerfile" <<'DOCKER'
FROM debian-build
COPY rust /usr/local/rust
COPY vendor /usr/local/cargo/vendor
COPY config.toml /usr/local/cargo/
ENV CARGO_HOME=/usr/local/cargo PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin
DOCKER
fi

export WORK=$work CACHE=$cache REPOSITORY=$repository
unshare --net --mount --pid --fork --mount-proc --kill-child "$here/engine.sh" &
engine=$!
code=0
wait "$engine" || code=$?
engine=
exit "$code"
