#!/usr/bin/env python3
"""What members of kafka-verifiable-consumer.sh have said, one JSON object a line.

    verifiable.py owned FILE            how many partitions the member owns
    verifiable.py consumed FILE...      how many records all of them have read, without gaps
"""

import json
import sys


def events(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]


def owned(path):
    """Cooperative members are told what is new and what goes, others everything each time."""
    places = set()
    for event in events(path):
        named = {(p["topic"], p["partition"]) for p in event.get("partitions", [])}
        if event["name"] == "partitions_assigned":
            places |= named
        elif event["name"] == "partitions_revoked":
            places -= named
    return len(places)


def consumed(paths):
    """From offset 0 of each partition to where the first record is missing."""
    offsets = {}
    for event in (event for path in paths for event in events(path)):
        if event["name"] == "records_consumed":
            for part in event["partitions"]:
                place = offsets.setdefault((part["topic"], part["partition"]), set())
                place.update(range(part["minOffset"], part["maxOffset"] + 1))
    for place, seen in offsets.items():
        assert seen == set(range(len(seen))), f"{place} has gaps"
    return sum(map(len, offsets.values()))


verb, *paths = sys.argv[1:]
print(owned(paths[0]) if verb == "owned" else consumed(paths))
