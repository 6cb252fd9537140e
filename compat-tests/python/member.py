"""A member of a group as a process: member.py CLIENT GROUP TOPIC.

It prints `PARTITION VALUE` for each record before it commits, leaves the group on SIGTERM, and
dies without a word on SIGKILL. GROUP_MODE says how it is a member: static (as GROUP_INSTANCE),
cooperative, or kip848.
"""

import importlib
import os
import signal
import sys

from conftest import MODULES

SESSION_MS = 6000
done = []


def main():
    name, group, topic = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: done.append(True))
    client = importlib.import_module(MODULES[name]).Client(os.environ["BOOTSTRAP"])

    def on_record(partition, value):
        print(partition, value.decode(), flush=True)

    mode = os.environ["GROUP_MODE"]
    options = client.mode_options(mode, os.environ["GROUP_INSTANCE"]) if mode else {}
    client.member(group, topic, SESSION_MS, lambda: bool(done), on_record, options)


main()
