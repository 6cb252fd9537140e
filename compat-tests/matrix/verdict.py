"""What was expected of a run, the table of what came, and the verdict over both."""

import json
import os
import pathlib
import sys
import tomllib

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results.json"
SIGNS = {"pass": "ok", "fail": "FAIL", "skip": "-", "": ""}


class VerdictError(Exception):
    """One sentence for the person who ran it."""


class Expected:
    """expected.toml: what differs from a pass, with its reason, and each client's own cases."""

    def __init__(self, path, clients, scenarios):
        self.scenarios = [scenario["id"] for scenario in scenarios]
        # What Apache Kafka does not have cannot be tried there.
        self.not_kafka = {s["id"] for s in scenarios if not s.get("kafka", True)}
        self.long = {scenario["id"] for scenario in scenarios if not scenario.get("short", True)}
        tables = tomllib.loads(path.read_text())
        self.all = tables.pop("all", {})
        self.clients = tables
        ids = {client["id"]: client for client in clients}
        for name, table in self.clients.items():
            if name not in ids:
                raise VerdictError(f"{path.name} names {name}, which clients.toml does not have")
            known = set(self.cases(ids[name]))
            for kind in ("skip", "fail"):
                for case in table.get(kind, {}):
                    if case not in known:
                        raise VerdictError(f"{path.name}: {name} has no case {case}")

    def own(self, client):
        return self.clients.get(client["id"], {}).get("own", {})

    def cases(self, client):
        """Every case of the client: the scenarios, and what only it has."""
        return [*(self.scenarios if client.get("scenarios", True) else []), *self.own(client)]

    def reason(self, client, kind, case):
        """Why the case is not run (`skip`), or is known to fail (`fail`); None if it is not."""
        if kind == "skip" and (reason := client.get("unavailable")):
            return reason
        is_kafka = os.environ.get("BROKER") == "kafka"
        if kind == "fail" and is_kafka:
            return None
        own = self.clients.get(client["id"], {}).get(kind, {}).get(case)
        # What is said of all clients is a gap of our broker's, as is what is known to fail.
        return own or (None if is_kafka else self.all.get(kind, {}).get(case))

    def to_run(self, client):
        """The cases that this run is to try."""
        filter_text = os.environ.get("CASE", "")
        own = self.own(client)
        is_kafka = os.environ.get("BROKER") == "kafka"

        def is_in(case):
            if is_kafka and (case in self.not_kafka or not own.get(case, {}).get("kafka", True)):
                return False
            is_long = case in self.long or case in own and not own[case].get("short")
            if os.environ.get("SHORT") and is_long:
                return False
            return filter_text in case and not self.reason(client, "skip", case)

        return [case for case in self.cases(client) if is_in(case)]

    def unexpected(self, run):
        """The differences, as sentences."""
        found = [f"{run.client['id']}: {problem}" for problem in run.problems]
        if found and not run.results:
            # Nothing was run: one reason is enough.
            return found
        for case in run.wanted:
            result, reason = run.results.get(case, ("not run", ""))
            known = self.reason(run.client, "fail", case)
            if result == "skip" and reason:
                continue
            if result != ("fail" if known else "pass"):
                instead = "although it is expected to fail" if known else "instead of pass"
                found.append(f"{run.client['id']}/{case}: {result} {instead}")
        unknown = set(run.results) - set(self.cases(run.client))
        return found + [f"{run.client['id']}/{case}: nobody expects it" for case in sorted(unknown)]


def cell(run, case, expected):
    """Result and reason of a case, as the table shows it."""
    result, reason = run.results.get(case, ("", ""))
    if skipped := expected.reason(run.client, "skip", case):
        return "skip", skipped
    if result == "fail":
        return "fail", expected.reason(run.client, "fail", case) or ""
    return result, reason


def report(runs, scenarios, expected):
    """Prints the table, the reasons and the verdict; returns the exit status."""
    runs_with_results = [r for r in runs if r.results or r.client.get("unavailable")]
    in_table = [run for run in runs_with_results if run.client.get("scenarios", True)]
    if in_table:
        print_table(in_table, scenarios, expected)
    print_reasons(runs_with_results, expected)
    if os.environ.get("RECORD"):
        record(runs, scenarios, expected)
    unexpected = [line for run in runs for line in expected.unexpected(run)]
    for line in unexpected:
        print(f"unexpected: {line}")
    results = [cell(run, case, expected)[0] for run in runs for case in expected.cases(run.client)]
    passed, skipped = results.count("pass"), results.count("skip")
    known = sum(
        run.results.get(case, ("",))[0] == "fail" and bool(expected.reason(run.client, "fail", case))
        for run in runs
        for case in run.wanted
    )
    if known:
        print(f"known to fail: {known}")
    print(f"compat-tests: {passed} passed, {len(unexpected)} failed, {skipped} skipped")
    return 1 if unexpected or not passed else 0


def print_table(runs, scenarios, expected):
    width = max(len(scenario["title"]) for scenario in scenarios)
    for number, run in enumerate(runs, 1):
        print(f"{number:>3}  {run.client['title']} ({run.seconds:.0f} s)")
    print(" " * width, *(f"{number:>4}" for number in range(1, len(runs) + 1)))
    for scenario in scenarios:
        signs = [SIGNS.get(cell(run, scenario["id"], expected)[0], "?") for run in runs]
        print(f"{scenario['title']:<{width}}", *(f"{sign:>4}" for sign in signs))


def print_reasons(runs, expected):
    reasons = {}
    for run in runs:
        for case in expected.cases(run.client):
            result, reason = cell(run, case, expected)
            if reason:
                reasons.setdefault((result, reason), []).append(f"{run.client['id']}/{case}")
    for (result, reason), cases in reasons.items():
        print(f"{result}: {', '.join(cases)}: {reason}")
    for run in runs:
        own = list(expected.own(run.client))
        passed = [case for case in own if run.results.get(case, ("",))[0] == "pass"]
        if own:
            print(f"{run.client['id']}, cases of its own: {len(passed)} of {len(own)} passed")


def record(runs, scenarios, expected):
    """Writes what docs/COMPATIBILITY.md shows; whoever did not run keeps what it had."""
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"clients": []}
    clients = {client["id"]: client for client in old["clients"]}
    for run in runs:
        before = clients.get(run.client["id"], {}).get("cases", {})
        cases = {}
        for case in expected.cases(run.client):
            result, reason = cell(run, case, expected)
            # A run of some cases alone says nothing about the others.
            known = before.get(case, {"result": "not run", "reason": reason})
            cases[case] = {"result": result, "reason": reason} if result else known
        own = list(expected.own(run.client))
        clients[run.client["id"]] = {
            "id": run.client["id"],
            "title": run.client["title"],
            "own": own,
            "cases": cases,
        }
    order = tomllib.loads((RESULTS.parent / "matrix" / "clients.toml").read_text())["client"]
    kept = [clients[client["id"]] for client in order if client["id"] in clients]
    rows = [{key: scenario[key] for key in ("id", "title", "does")} for scenario in scenarios]
    text = json.dumps({"scenarios": rows, "clients": kept}, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n")
    print(f"recorded in {RESULTS.name}", file=sys.stderr)
