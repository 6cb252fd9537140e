#!/usr/bin/env python3
"""Starts, restarts and stops the broker under test: Highwater, or Apache Kafka as the referee.

    broker.py start DIR     with data, log and state under DIR; prints its address
    broker.py restart DIR   on the same port with the same data; returns when it listens again
    broker.py stop DIR

`BROKER=kafka` starts Apache Kafka, `HIGHWATER_BIN` names another binary, `PORT` a fixed port,
`BROKER_PROPERTIES` further properties, one `key=value` a line.
"""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

COMPAT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = COMPAT.parent
START_SECONDS = {"highwater": 30, "kafka": 240}
STOP_SECONDS = 30


class BrokerError(Exception):
    """One sentence for the person who ran it."""


def free_ports(count):
    """Ports that are free now, and not of those that Linux gives to connections that go out.

    A broker has to find its port free when it starts again.
    """
    held = []
    while len(held) < count:
        each = socket.socket()
        try:
            each.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            held.append(each)
        except OSError:
            each.close()
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def binary():
    """The broker's binary; a sentence when it is not there."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    path = pathlib.Path(os.environ.get("HIGHWATER_BIN", target / "release" / "highwater"))
    if not os.access(path, os.X_OK) or path.is_dir():
        raise BrokerError(f"{path} is not there: run 'make build' first")
    return path


def check_settings():
    """What the environment asks for, before anything is started; returns the broker's kind."""
    kind = os.environ.get("BROKER", "highwater")
    if kind not in START_SECONDS:
        raise BrokerError(f"BROKER must be highwater or kafka, not {kind}")
    if kind == "highwater":
        binary()
    if fixed := os.environ.get("PORT"):
        fixed_port(fixed)
    return kind


def start(directory):
    """Starts a new broker under `directory`; returns its address."""
    kind = check_settings()
    directory.mkdir(parents=True, exist_ok=True)
    port, second = free_ports(2)
    if fixed := os.environ.get("PORT"):
        port = fixed_port(fixed)
    state = {"kind": kind, "port": port, "second": second}
    if kind == "highwater":
        # A restart is asked for by a test, whose environment may be another.
        state["binary"] = str(binary().resolve())
    (directory / "broker.json").write_text(json.dumps(state))
    launch(directory, state)
    return f"127.0.0.1:{port}"


def fixed_port(text):
    """The port that the environment names, if nobody has it."""
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise BrokerError(f"PORT must be a port number, not {text}")
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", int(text)))
    except OSError:
        raise BrokerError(f"port {text} is taken: stop what listens there, or leave PORT unset")
    finally:
        probe.close()
    return int(text)


# A KIP-848 member that dies is gone after a session that the broker decides on, 45 s by default.
SHORT_SESSIONS = [
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
]


def launch(directory, state):
    """Starts the process that the state describes and waits until it listens."""
    extra = os.environ.get("BROKER_PROPERTIES", "").split("\n")
    extra = SHORT_SESSIONS + [line.strip() for line in extra if line.strip()]
    if state["kind"] == "kafka":
        launch_kafka(directory, state, extra)
    else:
        launch_highwater(directory, state, extra)
    pid = read_pid(directory)
    deadline = time.monotonic() + START_SECONDS[state["kind"]]
    while not listens(state["port"]):
        if not is_alive(pid) or time.monotonic() > deadline:
            stop(directory)
            raise BrokerError(f"the broker did not start: {last_words(directory)}")
        time.sleep(0.05)


def launch_highwater(directory, state, extra):
    address = f"PLAINTEXT://127.0.0.1:{state['port']}"
    properties = [
        f"listeners={address}",
        f"advertised.listeners={address}",
        f"highwater.http.listener=127.0.0.1:{state['second']}",
        f"log.dirs={directory / 'data'}",
        "group.initial.rebalance.delay.ms=0",
        *extra,
    ]
    command = [state["binary"], "serve"]
    for line in properties:
        command += ["--override", line]
    with open(directory / "broker.log", "ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (directory / "broker.pid").write_text(str(process.pid))


def launch_kafka(directory, state, extra):
    environment = {**os.environ, "KAFKA_PROPERTIES": "\n".join(extra)}
    command = [COMPAT / "kafka-reference" / "start.sh", directory]
    command += [str(state["port"]), str(state["second"])]
    with open(directory / "start.log", "ab") as log:
        result = subprocess.run(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    if result.returncode:
        raise BrokerError(f"Apache Kafka did not start: see {directory / 'start.log'}")


def restart(directory):
    """Stops the broker as an operator would, and starts it on its data again."""
    state = json.loads((directory / "broker.json").read_text())
    stop(directory)
    launch(directory, state)


def stop(directory):
    """SIGTERM, and SIGKILL for one that does not go; True if it went by itself."""
    try:
        pid = read_pid(directory)
    except FileNotFoundError:
        return True
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5)):
        if is_alive(pid):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not is_alive(pid):
            return number == signal.SIGTERM
    return False


def read_pid(directory):
    return int((directory / "broker.pid").read_text())


def is_alive(pid):
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def last_words(directory):
    """What the broker said last: why it did not start."""
    lines = (directory / "broker.log").read_text(errors="replace").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return lines[-1][:400] if lines else "it said nothing"


def main():
    verbs = {"start": start, "restart": restart, "stop": stop}
    if len(sys.argv) != 3 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    try:
        result = verbs[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve())
    except BrokerError as error:
        sys.exit(f"compat-tests: {error}")
    if sys.argv[1] == "start":
        print(result)


if __name__ == "__main__":
    main()
