"""The scenarios of ../matrix/scenarios.toml, for whichever client the environment names."""

import collections
import os
import shlex
import subprocess
import sys
import threading
import time

import pytest
from clients import Refused

# An hour ago: no record is old enough for retention.
START = int(time.time() * 1000) - 3_600_000
SESSION_SECONDS = 6


def values(count, prefix=b""):
    return [(0, None, prefix + b"%d" % i, None, None) for i in range(count)]


def all_values(client, topic, count, start="earliest"):
    return [record.value for record in client.consume(topic, 0, start, count)]


def test_create_topic(client, topic):
    client.create_topic(topic, 3)
    assert client.partitions(topic) == [0, 1, 2]


def round_trip(client, topic, codec):
    client.create_topic(topic, 1)
    sent = [
        (0, b"key %d" % i, b"value %d " % i + b"x" * 100, START + i, None) for i in range(1000)
    ]
    assert client.produce(topic, sent, codec) == list(range(1000))
    back = [r[:4] for r in client.consume(topic, 0, "earliest", 1000)]
    assert back == [(i, row[1], row[2], row[3]) for i, row in enumerate(sent)]


def test_codec_none(client, topic):
    round_trip(client, topic, "none")


def test_codec_gzip(client, topic):
    round_trip(client, topic, "gzip")


def test_codec_snappy(client, topic):
    round_trip(client, topic, "snappy")


def test_codec_lz4(client, topic):
    round_trip(client, topic, "lz4")


def test_codec_zstd(client, topic):
    round_trip(client, topic, "zstd")


def test_headers(client, topic):
    client.create_topic(topic, 1)
    headers = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("empty", b"")]
    client.produce(topic, [(0, b"k", b"v", None, headers)])
    (record,) = client.consume(topic, 0, "earliest", 1)
    assert list(record.headers) == headers


def test_null_key(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, [(0, None, b"v", None, None)])
    (record,) = client.consume(topic, 0, "earliest", 1)
    assert (record.key, record.value) == (None, b"v")


def test_null_value(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, [(0, b"k", None, None, None)])
    (record,) = client.consume(topic, 0, "earliest", 1)
    assert (record.key, record.value) == (b"k", None)


def test_record_1mb(client, topic):
    client.create_topic(topic, 1)
    value = os.urandom(1_000_000)
    client.produce(topic, [(0, None, value, None, None)], max_bytes=1_048_576)
    assert all_values(client, topic, 1) == [value]


def test_small_10000(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(10_000))
    assert all_values(client, topic, 10_000) == [b"%d" % i for i in range(10_000)]


def test_from_earliest(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(10))
    back = list(client.consume(topic, 0, "earliest", 10))
    assert [(r.offset, r.value) for r in back] == [(i, b"%d" % i) for i in range(10)]


def test_from_latest(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(10))
    poll = client.tail(topic, 0)
    seen, deadline = poll(), time.monotonic() + 30
    while not seen and time.monotonic() < deadline:
        client.produce(topic, [(0, None, b"after", None, None)])
        seen = poll()
    assert seen and all(r.value == b"after" and r.offset >= 10 for r in seen)


def test_from_timestamp(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, [(0, None, b"%d" % i, START + 10 * i, None) for i in range(100)])
    assert client.offset_for(topic, 0, START + 411) == 42
    assert all_values(client, topic, 1, start=42) == [b"42"]


def test_from_offset(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(10))
    (record,) = client.consume(topic, 0, 5, 1)
    assert (record.offset, record.value) == (5, b"5")


def test_idempotent_restart(client, topic):
    client.create_topic(topic, 1)
    producer = client.idempotent(topic)
    count = 0
    for _ in range(200):
        producer.send(b"%d" % count)
        count += 1
    restart = subprocess.Popen(shlex.split(os.environ["RESTART_BROKER"]))
    while restart.poll() is None:
        producer.send(b"%d" % count)
        count += 1
        time.sleep(0.01)
    assert restart.returncode == 0
    for _ in range(200):
        producer.send(b"%d" % count)
        count += 1
    assert len(producer.finish()) == count
    back = list(client.consume(topic, 0, "earliest", count))
    assert [(r.offset, r.value) for r in back] == [(i, b"%d" % i) for i in range(count)]
    assert client.produce(topic, [(0, None, b"end", None, None)]) == [count]


def test_auto_create(client, topic):
    assert client.produce(topic, [(0, None, b"first", None, None)]) == [0]
    assert all_values(client, topic, 1) == [b"first"]


def test_too_large(client, topic):
    client.create_topic(topic, 1)
    large = [(0, None, os.urandom(2_000_000), None, None)]
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        client.produce(topic, large, max_bytes=10_000_000)
    assert client.produce(topic, [(0, None, b"small", None, None)]) == [0]


def test_invalid_name(client):
    with pytest.raises(Refused, match="INVALID_TOPIC_EXCEPTION"):
        client.create_topic("no blanks", 1)


def test_recreate(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(3, b"old "))
    client.delete_topic(topic)
    deadline = time.monotonic() + 30
    while client.partitions(topic):
        assert time.monotonic() < deadline, "the topic does not go"
    client.create_topic(topic, 2)
    assert client.produce(topic, [(0, None, b"new", None, None)]) == [0]
    assert all_values(client, topic, 1) == [b"new"]
    assert client.partitions(topic) == [0, 1]


def test_group_commit(client, topic):
    client.create_topic(topic, 1)
    client.produce(topic, values(100))
    first = client.group_take(topic, topic, 50)
    assert [r.value for r in first] == [b"%d" % i for i in range(50)]
    assert client.committed(topic, topic, 1) == [50]
    second = client.group_take(topic, topic, 50)
    assert [r.value for r in second] == [b"%d" % i for i in range(50, 100)]
    assert client.committed(topic, topic, 1) == [100]


def test_group_share(client, topic):
    group = Group(client, topic)
    group.until_shared()
    for member in group.members:
        member.leave()
    group.check_all_processed()


def test_group_takeover(client, topic):
    takeover(client, topic)


def test_group_static(client, topic):
    group = Group(client, topic, "static")
    group.until_shared()
    before = [member.partitions_of(group.rounds - 1) for member in group.members]
    group.members[0].die()
    group.members[0] = Member(topic, "static", 0, group.members[0].lines)
    # Whoever rejoined would have been given other partitions, or none for a while.
    while (got := group.round())[0] != before[0]:
        assert got[1] == before[1], f"the other one had {before[1]}, and has {got[1]}"
    assert got == before
    for member in group.members:
        member.leave()
    group.check_all_processed()


def test_group_cooperative(client, topic):
    takeover(client, topic, "cooperative")


def test_group_kip848(client, topic):
    takeover(client, topic, "kip848")


def takeover(client, topic, mode=""):
    group = Group(client, topic, mode)
    group.until_shared()
    group.members[0].die()
    survivor, begun = group.members[1], time.monotonic()
    while len(group.round()[1]) != Group.PARTITIONS:
        assert time.monotonic() - begun < 30, "nobody takes over"
    # The session timeout, a heartbeat for the news, and a rebalance.
    assert time.monotonic() - begun < SESSION_SECONDS + 6
    survivor.leave()
    group.check_all_processed()


def test_group_rewind(client, topic):
    rewind_while_it_works(Group(client, topic))


def test_group_rewind_848(client, topic):
    rewind_while_it_works(Group(client, topic, "kip848"))


def rewind_while_it_works(group):
    group.until_shared()
    for _ in range(4):
        group.round()
    group.until_committed()
    before = group.rounds
    group.rewind(f"--to-offset {before - 3}", before - 3)
    group.round()
    group.rewind("--undo", before)
    group.until_committed()
    for member in group.members:
        member.leave()
    group.check_all_processed()


class Group:
    """Two member processes on six partitions; records come in rounds, one to each partition."""

    PARTITIONS = 6

    def __init__(self, client, topic, mode=""):
        self.client, self.topic, self.rounds = client, topic, 0
        client.create_topic(topic, self.PARTITIONS)
        self.members = [Member(topic, mode, number) for number in range(2)]

    def round(self):
        """Sends a record to each partition; waits until the living have processed all six."""
        name = b"%d" % self.rounds
        self.client.produce(self.topic, [(p, None, name, None, None) for p in range(6)])
        self.rounds += 1
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            got = [member.partitions_of(self.rounds - 1) for member in self.members]
            if set().union(*got) == set(range(6)):
                break
            time.sleep(0.02)
        return got

    def until_shared(self):
        """Until each of the two processes three partitions."""
        deadline = time.monotonic() + 90
        while sorted(map(len, got := self.round())) != [3, 3]:
            assert time.monotonic() < deadline, f"they do not share: {got}"

    def counts(self):
        """How often each record was processed."""
        return collections.Counter(line for member in self.members for line in list(member.lines))

    def until_committed(self):
        deadline = time.monotonic() + 20
        wanted = [self.rounds] * self.PARTITIONS
        while (got := self.client.committed(self.topic, self.topic, self.PARTITIONS)) != wanted:
            assert time.monotonic() < deadline, f"they do not commit: {got} of {self.rounds}"
            time.sleep(0.02)

    def rewind(self, how, first):
        """Rewinds the group; processed again is the round `first` and all behind it."""
        before = self.counts()
        subprocess.run(shlex.split(f"{os.environ['REWIND']} {self.topic} {how}"), check=True)
        wanted = {(p, i) for p in range(self.PARTITIONS) for i in range(first, self.rounds)}
        deadline = time.monotonic() + 40
        while not wanted <= (again := set(self.counts() - before)):
            assert time.monotonic() < deadline, f"read again: {sorted(again)}"
            time.sleep(0.02)
        assert again == wanted

    def check_all_processed(self):
        processed = set().union(*(member.records() for member in self.members))
        assert processed == {(p, i) for p in range(6) for i in range(self.rounds)}
        committed = self.client.committed(self.topic, self.topic, self.PARTITIONS)
        assert committed == [self.rounds] * self.PARTITIONS


class Member:
    """A process of member.py, and what it has printed."""

    def __init__(self, topic, mode, number, lines=()):
        """`lines` are those that the process printed before it was killed."""
        program = os.path.join(os.path.dirname(__file__), "member.py")
        command = [sys.executable, "-B", program, os.environ["CLIENT"], topic, topic]
        how = {**os.environ, "GROUP_MODE": mode, "GROUP_INSTANCE": f"member-{number}"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=how)
        self.lines = list(lines)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(tuple(map(int, line.split())))

    def records(self):
        return set(self.lines)

    def partitions_of(self, number):
        return {partition for partition, value in list(self.lines) if value == number}

    def leave(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.reader.join(5)

    def die(self):
        self.process.kill()
        self.process.wait(5)
        self.reader.join(5)
