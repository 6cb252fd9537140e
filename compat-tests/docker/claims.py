#!/usr/bin/env python3
"""What the image and the compose file promise, tried with the engine that engine.sh started.

A line for each claim; the exit code tells whether all of them held."""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.request

PROJECT = "highwater-check"
NETWORK = f"{PROJECT}_default"
NODES = (1, 2, 3)
HOST_PORT = {1: 29092, 2: 29093, 3: 29094}
TOPIC = "claims"
# Long enough for a slow machine; nothing that works takes a tenth of it.
PATIENCE_SECONDS = 60
STOP_SECONDS = 10


class Broken(Exception):
    """A claim that does not hold."""


def run(*command, text=None, may_fail=False):
    """The standard output of a command."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Broken(f"{' '.join(command)}: " + " / ".join(lines[-8:]))
    return done.stdout


def compose_command():
    """The Compose that is asked for, else what there is."""
    if os.environ.get("COMPOSE"):
        return os.environ["COMPOSE"].split()
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


COMPOSE = compose_command()


def compose(*arguments):
    """Runs Compose on our file."""
    return run(*COMPOSE, "--project-name", PROJECT, *arguments)


def until(condition, what):
    """Seconds until something holds."""
    started = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - started
        if time.monotonic() - started > PATIENCE_SECONDS:
            raise Broken(f"not within {PATIENCE_SECONDS} s: {what}")
        time.sleep(0.1)


def container(service):
    """The id of a service's container, a stopped one too."""
    filters = [f"label=com.docker.compose.project={PROJECT}",
               f"label=com.docker.compose.service={service}"]
    options = [part for one in filters for part in ("--filter", one)]
    return run("docker", "ps", "--all", "--quiet", *options).strip()


def state(service):
    """What the engine knows of a service's container."""
    return json.loads(run("docker", "inspect", container(service)))[0]


def health(service):
    """starting, healthy or unhealthy."""
    return state(service)["State"]["Health"]["Status"]


def healthy(*services):
    """Seconds until all of them are healthy."""
    def all_are():
        return all(health(service) == "healthy" for service in services)
    return until(all_are, f"{', '.join(services)} healthy")


def brokers():
    """Names of the three services."""
    return [f"broker-{node}" for node in NODES]


def kcat(network, server, *arguments, text=None):
    """Runs kcat in a container: on the network "host" it is a client on the engine's machine."""
    return run("docker", "run", "--rm", "--interactive", "--network", network, "tools",
               "kcat", "-b", server, "-m", "10", *arguments, text=text)


def produce(network, server, records):
    """Writes records to the topic, acknowledged by all replicas in sync."""
    kcat(network, server, "-P", "-t", TOPIC, "-X", "acks=all", text="\n".join(records) + "\n")


def consume(network, server):
    """Every record of the topic."""
    return kcat(network, server, "-C", "-t", TOPIC, "-e", "-q").splitlines()


def expect(actual, wanted, what):
    """Compares, in words."""
    if actual != wanted:
        raise Broken(f"{what}: {actual!r} instead of {wanted!r}")


def round_trip(network, servers, label, records):
    """Each server takes a record, and gives all that were written so far."""
    for server in servers:
        record = f"{label} {server}"
        produce(network, server, [record])
        records.append(record)
        expect(sorted(consume(network, server)), sorted(records), f"records of {server}")


def partitions():
    """What the brokers say of the topic's partitions."""
    servers = ",".join(f"{service}:9092" for service in brokers())
    listed = json.loads(kcat(NETWORK, servers, "-L", "-J"))
    return [p for t in listed["topics"] if t["topic"] == TOPIC for p in t["partitions"]]


def in_sync():
    """Whether every partition of the topic has its three replicas in sync."""
    found = partitions()
    return bool(found) and all(len(partition["isrs"]) == len(NODES) for partition in found)


def get(url):
    """A JSON document over HTTP, or nothing."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return None


# Records that were acknowledged and must come back.
RECORDS = []


def image_is_built_by_up():
    """The first `up` builds the image, without a network"""
    started = time.monotonic()
    compose("up", "--detach", "broker-1")
    seconds = time.monotonic() - started
    whole, base = (
        int(run("docker", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
        for image in ("highwater", "debian:bookworm-slim"))
    return f"{seconds:.0f} s, {whole:.0f} MB of which Debian is {base:.0f}"


def one_of_three_is_not_healthy():
    """One broker of three that waits for the others is not healthy"""
    time.sleep(6)
    expect(health("broker-1"), "starting", "health")
    expect(state("broker-1")["RestartCount"], 0, "restarts")


def three_become_healthy():
    """With the other two all three become healthy"""
    compose("up", "--detach")
    return f"{healthy(*brokers()):.1f} s after their start; the first check is after 2 s"


def broker_is_not_root():
    """The broker is user 1000, and so is what it writes"""
    for service in brokers():
        name = container(service)
        status = run("docker", "exec", name, "cat", "/proc/1/status")
        uids = [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")]
        expect(uids, [["1000"] * 4], "user")
        foreign = run("docker", "exec", name, "find", "/var/lib/kafka/data", "!", "-user", "1000")
        expect(foreign, "", "files of others")


def clients_on_the_host():
    """Clients on the host produce and consume at localhost:29092, 29093 and 29094"""
    round_trip("host", [f"localhost:{port}" for port in HOST_PORT.values()], "host", RECORDS)


def clients_in_the_network():
    """Clients in the network produce and consume at broker-1:9092, broker-2 and broker-3"""
    round_trip(NETWORK, [f"{service}:9092" for service in brokers()], "network", RECORDS)


def topics_are_replicated():
    """Topics have three replicas, all in sync"""
    until(in_sync, "three replicas in sync")


def killed_broker_comes_back():
    """The leader that is killed is started again and rejoins; another one leads meanwhile"""
    leader = partitions()[0]["leader"]
    victim = f"broker-{leader}"
    before = state(victim)
    os.kill(before["State"]["Pid"], signal.SIGKILL)
    started = time.monotonic()
    RECORDS.append("after the kill")
    other = next(port for node, port in HOST_PORT.items() if node != leader)
    produce("host", f"localhost:{other}", RECORDS[-1:])
    went_on = time.monotonic() - started
    until(lambda: state(victim)["RestartCount"] == before["RestartCount"] + 1, "a restart")
    healthy(victim)
    until(in_sync, "three replicas in sync")
    back = time.monotonic() - started
    expect(sorted(consume(NETWORK, f"{victim}:9092")), sorted(RECORDS), f"records of {victim}")
    return f"produced within {went_on:.1f} s, healthy and in sync after {back:.1f} s"


def stopped_broker_ends_well():
    """`docker stop` ends a broker with exit code 0, and it rejoins when it is started"""
    started = time.monotonic()
    run("docker", "stop", "--time", "30", container("broker-3"))
    seconds = time.monotonic() - started
    expect(state("broker-3")["State"]["ExitCode"], 0, "exit code")
    if seconds > STOP_SECONDS:
        raise Broken(f"it took {seconds:.1f} s")
    run("docker", "start", container("broker-3"))
    healthy("broker-3")
    until(in_sync, "three replicas in sync")
    return f"{seconds:.1f} s"


def all_stop_together():
    """All three that are told to stop at once end with exit code 0"""
    started = time.monotonic()
    compose("stop")
    seconds = time.monotonic() - started
    expect([state(service)["State"]["ExitCode"] for service in brokers()], [0, 0, 0], "exit codes")
    if seconds > STOP_SECONDS:
        raise Broken(f"it took {seconds:.1f} s")
    return f"{seconds:.1f} s"


def volumes_keep_records():
    """After `down` and `up` every record is there"""
    compose("down")
    compose("up", "--detach")
    seconds = healthy(*brokers())
    for service in brokers():
        expect(sorted(consume(NETWORK, f"{service}:9092")), sorted(RECORDS), "records")
    return f"{len(RECORDS)} records, healthy after {seconds:.1f} s"


def idle_memory():
    """An idle broker is small"""
    figures = []
    for service in brokers():
        pid = state(service)["State"]["Pid"]
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status)
        resident, own = (int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "RssAnon"))
        figures.append(f"{resident:.0f} MiB resident ({own:.0f} its own)")
        if resident > 200:
            raise Broken(f"{service}: {resident:.0f} MiB")
    return ", ".join(figures)


def prometheus_scrapes_all():
    """Prometheus of the monitoring profile has all three brokers up, and the alerts' rules"""
    configuration = "/etc/prometheus/prometheus.yml"
    compose("--profile", "monitoring", "up", "--detach")
    run("docker", "exec", container("prometheus"), "promtool", "check", "config", configuration)

    def targets():
        answer = get("http://localhost:9090/api/v1/targets") or {"data": {"activeTargets": []}}
        return {t["labels"]["instance"]: t["health"] for t in answer["data"]["activeTargets"]}

    wanted = {f"{service}:9644": "up" for service in brokers()}
    seconds = until(lambda: targets() == wanted, "all three targets up")
    groups = get("http://localhost:9090/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    expect({rule["health"] for rule in rules} <= {"ok", "unknown"}, True, "rules")
    if not rules:
        raise Broken("no rules")
    found = get("http://localhost:9090/api/v1/query?query=process_open_fds")["data"]["result"]
    expect(len(found), len(NODES), "series of process_open_fds")
    return f"{seconds:.0f} s, {len(rules)} rules"


def one_broker_alone():
    """The broker of the profile with one serves the host at localhost:9092 and its network"""
    compose("--profile", "monitoring", "down", "--volumes")
    # Its records are its own.
    records = []
    compose("up", "--detach", "alone")
    seconds = healthy("alone")
    round_trip("host", ["localhost:9092"], "host", records)
    round_trip(NETWORK, ["alone:29092"], "network", records)
    started = time.monotonic()
    compose("stop", "alone")
    stopped = time.monotonic() - started
    expect(state("alone")["State"]["ExitCode"], 0, "exit code")
    compose("--profile", "alone", "down", "--volumes")
    return f"healthy after {seconds:.1f} s, stopped in {stopped:.1f} s"


def image_runs_without_compose():
    """`docker run` of the image alone is a broker that is soon ready and healthy"""
    started = time.monotonic()
    name = run("docker", "run", "--detach", "--publish", "9644:9644", "highwater").strip()

    def ready():
        try:
            with urllib.request.urlopen("http://localhost:9644/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    until(ready, "ready")
    answered = time.monotonic() - started

    def is_healthy():
        status = run("docker", "inspect", "--format", "{{.State.Health.Status}}", name)
        return status.strip() == "healthy"

    until(is_healthy, "healthy")
    checked = time.monotonic() - started
    run("docker", "stop", name)
    code = run("docker", "inspect", "--format", "{{.State.ExitCode}}", name).strip()
    expect(code, "0", "exit code")
    run("docker", "rm", "--volumes", name)
    return f"ready after {answered:.1f} s, healthy after {checked:.1f} s"


CLAIMS = [
    image_is_built_by_up,
    one_of_three_is_not_healthy,
    three_become_healthy,
    broker_is_not_root,
    clients_on_the_host,
    clients_in_the_network,
    topics_are_replicated,
    killed_broker_comes_back,
    stopped_broker_ends_well,
    idle_memory,
    all_stop_together,
    volumes_keep_records,
    prometheus_scrapes_all,
    one_broker_alone,
    image_runs_without_compose,
]


def logs():
    """What the containers said last, for who has to find out."""
    for service in [*brokers(), "alone", "prometheus"]:
        name = container(service)
        if name:
            print(f"--- {service}", flush=True)
            subprocess.run(["docker", "logs", "--tail", "15", name], stderr=sys.stdout, check=False)


def main():
    """Tries them in order: later ones build on what earlier ones left."""
    version = run("docker", "version", "--format", "{{.Server.Version}}").strip()
    driver = run("docker", "info", "--format", "{{.Driver}}").strip()
    which = run(*COMPOSE, "version", "--short").strip()
    print(f"Docker {version} ({driver}), Compose {which}", flush=True)
    failed = 0
    for claim in CLAIMS:
        try:
            detail = claim()
            verdict = "ok  "
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            verdict, detail = "FAIL", str(error)
            if not isinstance(error, Broken):
                detail = traceback.format_exc()
        print(f"{verdict}  {claim.__doc__}{f': {detail}' if detail else ''}", flush=True)
        if verdict == "FAIL":
            logs()
            if claim in (image_is_built_by_up, three_become_healthy):
                break
    compose("--profile", "alone", "--profile", "monitoring", "down", "--volumes")
    print(f"{len(CLAIMS)} claims, {failed} failed" if failed else f"all {len(CLAIMS)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
