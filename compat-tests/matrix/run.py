#!/usr/bin/env python3
"""Runs the clients' scenarios, each client against a broker of its own, and prints the table.

A folder's run.sh gets in its environment: CLIENT, BOOTSTRAP, SCENARIOS (the ids to run), RESULTS
(a file that takes lines `pass ID`, `fail ID` or `skip ID REASON`), RESTART_BROKER (a command that
returns when the broker is back), REWIND (the beginning of a command: a group and where to follow) and
WORK_DIR. See ../run.sh for what may be set by hand.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import broker
import verdict

HERE = pathlib.Path(__file__).resolve().parent
COMPAT = HERE.parent
CLIENT_SECONDS = 600
LOG_LINES = 60


@dataclasses.dataclass
class Run:
    """What became of one client."""

    client: dict
    wanted: list
    results: dict
    problems: list
    seconds: float


def main():
    clients = tomllib.loads((HERE / "clients.toml").read_text())["client"]
    scenarios = tomllib.loads((HERE / "scenarios.toml").read_text())["scenario"]
    expected = verdict.Expected(COMPAT / "expected.toml", clients, scenarios)
    chosen = choose(clients, sys.argv[1:])
    broker.check_settings()
    work = pathlib.Path(tempfile.mkdtemp(prefix="highwater-compat."))
    try:
        runs = run_all(chosen, expected, work)
    finally:
        if os.environ.get("KEEP"):
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    return verdict.report(runs, scenarios, expected)


def choose(clients, names):
    """The clients with these ids, or in these folders; all of them without names."""
    for name in names:
        if not any(name in (client["id"], client["folder"]) for client in clients):
            ids = ", ".join(client["id"] for client in clients)
            raise broker.BrokerError(f"no such client: {name}; there are {ids}")
    short = bool(os.environ.get("SHORT"))
    chosen = [c for c in clients if not names or c["id"] in names or c["folder"] in names]
    chosen = [c for c in chosen if not short or c.get("short")]
    if not chosen:
        raise broker.BrokerError(f"the short form has no {', '.join(names)}")
    return chosen


def run_all(chosen, expected, work):
    """Two clients at a time: most of their time is waiting. But one JVM more is too much."""
    jobs = number("JOBS", 1 if os.environ.get("PORT") or is_kafka() else 2)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda client: run_client(client, expected, work), chosen))


def number(name, default):
    """A number from the environment, at least 1."""
    text = os.environ.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise broker.BrokerError(f"{name} must be a number from 1 on, not {text}")
    return int(text)


def is_kafka():
    return os.environ.get("BROKER") == "kafka"


def run_client(client, expected, work):
    name = client["id"]
    wanted = expected.to_run(client)
    run = Run(client, wanted, {}, [], 0)
    if not wanted:
        return run
    directory = work / name
    directory.mkdir()
    began = time.monotonic()
    try:
        bootstrap = broker.start(directory / "broker")
        print(f"{name} against {os.environ.get('BROKER', 'highwater')}", file=sys.stderr)
        drive(run, directory, bootstrap)
        run.results = read_results(directory / "results")
        run.problems += broker_problems(directory / "broker")
    except broker.BrokerError as error:
        run.problems.append(str(error))
    finally:
        if not broker.stop(directory / "broker"):
            run.problems.append("the broker ignored SIGTERM")
    run.seconds = time.monotonic() - began
    missing = [case for case in wanted if run.results.get(case, ("",))[0] != "pass"]
    unexpected = expected.unexpected(run)
    if unexpected:
        tail = log_tail(directory / "log")
        print(f"--- {name}: {', '.join(unexpected)}\n{tail}", file=sys.stderr)
    print(
        f"{name}: {len(wanted) - len(missing)} of {len(wanted)} passed in {run.seconds:.0f} s",
        file=sys.stderr,
    )
    return run


def drive(run, directory, bootstrap):
    """Runs the folder's run.sh, in a process group of its own, so that nothing of it stays."""
    restart = [sys.executable, str(HERE / "broker.py"), "restart", str(directory / "broker")]
    environment = {
        **os.environ,
        "CLIENT": run.client["id"],
        "BOOTSTRAP": bootstrap,
        "SCENARIOS": " ".join(run.wanted),
        "RESULTS": str(directory / "results"),
        "RESTART_BROKER": shlex.join(restart),
        "REWIND": rewind_command(directory / "broker"),
        "WORK_DIR": str(directory),
    }
    command = [COMPAT / run.client["folder"] / "run.sh"]
    (directory / "results").touch()
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            status = process.wait(CLIENT_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
            run.problems.append(f"not done after {CLIENT_SECONDS} s")
        finally:
            kill_group(process.pid)
            process.wait()
    reported = (directory / "results").read_text().strip()
    if status and not reported:
        run.problems.append(f"{run.client['folder']}/run.sh itself failed: {last_line(directory)}")


def rewind_command(directory):
    """The command that rewinds a group; its name and where to are to follow. Kafka has none."""
    state = json.loads((directory / "broker.json").read_text())
    if state["kind"] == "kafka":
        return "false"
    admin = f"http://127.0.0.1:{state['second']}"
    return shlex.join([state["binary"], "rewind", "--admin", admin])


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(directory):
    lines = log_tail(directory / "log").strip().split("\n")
    return lines[-1][:200]


def read_results(path):
    """The last word on each case; one failure among several reports makes it fail."""
    results = {}
    for line in path.read_text().splitlines():
        result, case, *reason = line.split(" ", 2)
        if results.get(case, ("",))[0] != "fail":
            results[case] = (result, reason[0] if reason else "")
    return results


def broker_problems(directory):
    """What the broker must not have logged, and whether it is still there."""
    problems = []
    if not broker.is_alive(broker.read_pid(directory)):
        problems.append("the broker died")
    if os.environ.get("BROKER", "highwater") == "highwater":
        text = (directory / "broker.log").read_text(errors="replace")
        found = re.findall(r"^.*(?: ERROR |panicked).*$", text, re.MULTILINE)
        problems += [f"the broker logged: {line[:300]}" for line in found[:5]]
    return problems


def log_tail(path):
    if not path.exists():
        return ""
    lines = path.read_text(errors="replace").split("\n")
    lines = lines[-number("LOG_LINES", LOG_LINES) :]
    return "\n".join(f"  | {line[:300]}" for line in lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (broker.BrokerError, verdict.VerdictError) as error:
        sys.exit(f"compat-tests: {error}")
