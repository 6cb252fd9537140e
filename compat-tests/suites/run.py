#!/usr/bin/env python3
"""Runs the suites of others and compares with expected.toml; see run.sh."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "matrix"))
import broker  # noqa: E402

SUITES = ["librdkafka", "franz-go"]
# A test that is not done by then hangs: a failure with its name.
TEST_SECONDS = {"librdkafka": 240, "franz-go": 420}
# For one that is known to fail: most of those hang.
KNOWN_SECONDS = 60
SUITE_SECONDS = 2400
# librdkafka's tests want several partitions where a topic comes into being by itself.
PROPERTIES = {"librdkafka": "num.partitions=4\n", "franz-go": ""}
KAFKA_PROPERTIES = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


def main():
    chosen = sys.argv[1:] or SUITES
    for name in chosen:
        if name not in SUITES:
            raise broker.BrokerError(f"no such suite: {name}; there are {', '.join(SUITES)}")
    kind = broker.check_settings()
    if kind == "kafka":
        os.environ.setdefault("KAFKA_HEAP", "1g")
    expected = tomllib.loads((HERE / "expected.toml").read_text())
    work = pathlib.Path(tempfile.mkdtemp(prefix="highwater-suites."))
    unexpected = []
    try:
        for name in chosen:
            unexpected += run_suite(name, kind, expected[name], work / name)
    finally:
        if os.environ.get("KEEP"):
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    for line in unexpected:
        print(f"unexpected: {line}")
    return 1 if unexpected else 0


def prepare(script, *arguments):
    """The last line that a preparing script prints."""
    result = subprocess.run(
        [HERE / script, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    if result.returncode:
        raise broker.BrokerError(f"suites/{script} failed: see above")
    return result.stdout.strip().split("\n")[-1]


def run_suite(name, kind, expected, directory):
    """Runs one suite against a new broker; returns what was not expected."""
    directory.mkdir(parents=True)
    tests = prepare(f"prepare-{name}.sh")
    began = time.monotonic()
    problems = []
    properties = PROPERTIES[name] + (KAFKA_PROPERTIES if kind == "kafka" else "")
    os.environ["BROKER_PROPERTIES"] = properties
    try:
        bootstrap = broker.start(directory / "broker")
        print(f"{name} against {kind}", file=sys.stderr)
        run = run_librdkafka if name == "librdkafka" else run_franz_go
        known = cannot(kind, expected)
        results = run(pathlib.Path(tests), bootstrap, expected, known, directory)
        if not broker.is_alive(broker.read_pid(directory / "broker")):
            problems.append(f"{name}: the broker died")
        elif kind == "highwater":
            problems += logged_errors(name, directory / "broker" / "broker.log")
    finally:
        broker.stop(directory / "broker")
    report(name, kind, expected, results, time.monotonic() - began)
    if os.environ.get("RECORD"):
        record(name, kind, cannot(kind, expected), results)
    return problems + differences(name, kind, expected, results)


def logged_errors(name, path):
    found = re.findall(r"^.*(?: ERROR |panicked).*$", path.read_text(errors="replace"), re.M)
    return [f"{name}: the broker logged: {line[:300]}" for line in found[:5]]


def cannot(kind, expected):
    """The tests that are known to fail with this broker, with the reasons."""
    return expected.get("cannot" if kind == "highwater" else "kafka-cannot", {})


def differences(name, kind, expected, results):
    found = []
    known = cannot(kind, expected)
    for test, (result, what) in results.items():
        if result == "fail" and test not in known:
            found.append(f"{name}/{test} failed: {what}")
        if result == "pass" and test in known:
            found.append(f"{name}/{test} passed, although expected.toml says: {known[test]}")
    if not results:
        found.append(f"{name}: no test was run")
    return found


def report(name, kind, expected, results, seconds):
    count = {result: [t for t, r in results.items() if r[0] == result] for result in
             ("pass", "fail", "skip")}
    for test in count["fail"]:
        if reason := cannot(kind, expected).get(test):
            print(f"known: {name}/{test}: {reason}")
    print(
        f"{name} against {kind}: {len(count['pass'])} passed, {len(count['fail'])} failed, "
        f"{len(count['skip'])} skipped in {seconds:.0f} s",
        flush=True,
    )


def record(name, kind, known, results):
    """Writes counts and failures for the docs; the other broker's and suite's stay."""
    path = HERE / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept.setdefault(name, {})[kind] = {
        "passed": sum(result == "pass" for result, _ in results.values()),
        "failed": {
            test: known.get(test, "not yet known why")
            for test, (result, _) in results.items()
            if result == "fail"
        },
        "skipped": sorted(test for test, (result, _) in results.items() if result == "skip"),
    }
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def bounded(command, environment, seconds, log, cwd=None):
    """Runs a command in a process group of its own; None when it had to be killed."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def run_librdkafka(tests, bootstrap, expected, known, directory):
    """Each test in a process of its own: one that hangs or crashes takes no other along."""
    kafka_path = directory / "kafka"
    if shutil.which("java"):
        prepare("kafka-path.sh", kafka_path)
    conf = directory / "test.conf"
    conf.write_text(f"bootstrap.servers={bootstrap}\ntest.timeout.multiplier=3\n")
    report_path = directory / "report.json"
    environment = {
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_REPORT": str(report_path),
        "KAFKA_PATH": str(kafka_path),
        "BROKERS": bootstrap,
        # From 3.0 on, the tests ask Kafka's tools for the brokers and not for ZooKeeper.
        "TEST_KAFKA_VERSION": "4.0.0",
        "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
    }
    command = ["./test-runner", "-p1", "-Q", "-E", "-K", "-L"]

    def seconds(name):
        return KNOWN_SECONDS if name in known else TEST_SECONDS["librdkafka"]

    def run(name):
        report_path.unlink(missing_ok=True)
        log = directory / f"{name or 'list'}.log"
        wanted = {"TESTS": name or "no such test"}
        status = bounded(command, {**environment, **wanted}, seconds(name), log, tests)
        states = {}
        if report_path.exists():
            try:
                states = json.loads(report_path.read_text())["tests"]
            except ValueError:
                pass
        return status, states, log

    _, every, log = run(None)
    if not every:
        raise broker.BrokerError(f"librdkafka's test-runner does not run: see {log}")
    results = {}
    deadline = time.monotonic() + SUITE_SECONDS
    for name in every:
        # 8000 and up are what people run by hand.
        if name == "<MAIN>" or name.startswith("8") or not is_wanted(name, expected):
            continue
        if time.monotonic() > deadline:
            results[name] = ("fail", "the suite's time was over")
            continue
        status, states, log = run(name)
        state = states.get(name, {}).get("state")
        results[name] = librdkafka_result(status, state, log, seconds(name))
        if results[name][0] != "skip":
            print(f"  {results[name][0]} {name}", file=sys.stderr, flush=True)
    return results


def librdkafka_result(status, state, log, seconds):
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    if status is None:
        return "fail", f"it hung for {seconds} s"
    if state in ("SKIPPED", "DNS"):
        return "skip", ""
    if state == "PASSED":
        return "pass", ""
    # Under the headline with the place stands what was wrong.
    found = re.search(r"^### Test \"(?!<MAIN>).*\n.*$", text, re.M)
    lines = found[0].split("\n") if found else text.strip().split("\n")[-2:]
    return "fail", " / ".join(line.strip()[:300] for line in lines)


def is_wanted(name, expected):
    if os.environ.get("SHORT") and not any(part in name for part in expected["short"]):
        return False
    return os.environ.get("T", "") in name


def run_franz_go(binary, bootstrap, expected, known, directory):
    """One process for all; when one hangs, the others go on in a further process."""
    listed = subprocess.run([binary, "-test.list", "."], stdout=subprocess.PIPE, text=True)
    wanted = [name for name in listed.stdout.split() if name.startswith("Test")]
    wanted = [name for name in wanted if is_wanted(name, expected)]
    results = {}
    deadline = time.monotonic() + SUITE_SECONDS
    for attempt in range(8):
        left = [name for name in wanted if name not in results and name not in known]
        if not left or time.monotonic() > deadline:
            break
        log = directory / f"kgo-{attempt}.log"
        found = run_kgo(binary, bootstrap, left, TEST_SECONDS["franz-go"], log)
        results.update(found)
        if not found:
            break
    for name in wanted:
        if name in known:
            log = directory / f"{name}.log"
            results.update(run_kgo(binary, bootstrap, [name], KNOWN_SECONDS, log))
    for name in wanted:
        results.setdefault(name, ("fail", "it was not run to its end"))
    for name, (result, what) in results.items():
        if result == "fail":
            print(f"  fail {name}: {what}", file=sys.stderr)
    return results


def run_kgo(binary, bootstrap, names, seconds, log):
    """The results of these tests, as far as they ended or hung."""
    command = [binary, "-test.v", "-test.run", f"^({'|'.join(names)})$"]
    command += ["-test.timeout", f"{seconds}s"]
    environment = {"KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1"}
    bounded(command, environment, seconds + 30, log, binary.parent / "source" / "pkg" / "kgo")
    text = log.read_text(errors="replace")
    found = re.findall(r"^--- (PASS|FAIL|SKIP): (\w+)", text, re.M)
    results = {name: (result.lower(), first_failure(text, name)) for result, name in found}
    # What go test says when its time is over; several may have been running.
    hung = re.search(r"^\s*running tests:\n((?:\s+Test.*\n)+)", text, re.M)
    for name in re.findall(r"^\s+(Test\w+)", hung[1], re.M) if hung else []:
        results.setdefault(name, ("fail", f"it hung for {seconds} s"))
    return results


def first_failure(text, name):
    """The first lines that a failed test printed."""
    found = re.search(rf"^--- FAIL: {name}\b.*\n((?:\s+.*\n){{0,4}})", text, re.M)
    return " / ".join(line.strip()[:200] for line in found[1].split("\n")[:3]) if found else ""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except broker.BrokerError as error:
        sys.exit(f"suites: {error}")
