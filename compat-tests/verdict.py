#!/usr/bin/env python3
"""Compares the results of a run with expected.toml; any difference fails the run."""

import argparse
import os
import pathlib
import sys
import tomllib

EXPECTED = pathlib.Path(__file__).with_name("expected.toml")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list-short", action="store_true", help="print the short form's cases")
    parser.add_argument("--short", action="store_true", help="only the short form was run")
    parser.add_argument("--case", default="", help="only cases containing this text were run")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("clients", nargs="*")
    arguments = parser.parse_args()

    cases = {
        f"{client}/{name}": row
        for client, rows in tomllib.loads(EXPECTED.read_text()).items()
        for name, row in rows.items()
    }
    if arguments.list_short:
        print(*(name for name, row in cases.items() if row.get("short")), sep="\n")
        return 0

    # A case may report several times (once a codec, say): one failure makes it fail.
    got = {}
    for line in arguments.results.read_text().splitlines():
        result, name = line.split()
        got[name] = "fail" if "fail" in (result, got.get(name)) else result
    wanted = {
        name: row
        for name, row in cases.items()
        if name.split("/")[0] in arguments.clients
        and arguments.case in name
        and (row.get("short") or not arguments.short)
    }
    if os.environ.get("BROKER") == "kafka":
        # What is expected to fail are gaps of ours.
        wanted = {name: {**row, "expect": "pass"} for name, row in wanted.items()}
    wrong = []
    for name, row in wanted.items():
        result = got.get(name, "not run")
        if result != row["expect"]:
            wrong.append(f"{name}: {result}, expected {row['expect']}")
    wrong += [f"{name}: not in {EXPECTED.name}" for name in got if name not in cases]

    for line in wrong:
        print("unexpected:", line, file=sys.stderr)
    for name, row in wanted.items():
        if row["expect"] == "fail":
            print(f"known: {name} fails: {row['reason']}", file=sys.stderr)
    print(f"compat-tests: {len(wanted) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
