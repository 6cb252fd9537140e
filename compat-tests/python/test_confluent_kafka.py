"""confluent-kafka (librdkafka) produces and consumes with assign."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

TIMEOUT = 30
# An hour ago: no record is old enough for retention.
START = int(time.time() * 1000) - 3_600_000


@pytest.fixture
def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def created(admin, topic):
    """The topic, with three partitions."""
    for future in admin.create_topics([NewTopic(topic, num_partitions=3)]).values():
        future.result(TIMEOUT)
    return topic


def produce(bootstrap, records, **config):
    """Sends (topic, partition, key, value, timestamp, headers); returns the offsets reported."""
    errors, offsets = [], []

    def on_delivery(error, message):
        errors.append(error) if error else offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    for topic, partition, key, value, timestamp, headers in records:
        producer.produce(
            topic, value, key, partition, on_delivery=on_delivery, timestamp=timestamp,
            headers=headers,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0
    assert errors == []
    return offsets


def consumer(bootstrap, **config):
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **config}
    )


def consume(bootstrap, topic, partition, count, offset=0):
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic, partition, offset)])
    messages = []
    while len(messages) < count:
        got = reader.consume(count - len(messages), TIMEOUT)
        assert got, f"only {len(messages)} of {count} came"
        for message in got:
            assert message.error() is None
        messages += got
    reader.close()
    return messages


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_round_trip(bootstrap, created, codec):
    sent = [(created, 1, b"%d" % i, b"value %d" % i, START + i, None) for i in range(5000)]
    offsets = produce(bootstrap, sent, **{"compression.type": codec})
    assert offsets == list(range(5000))
    back = consume(bootstrap, created, 1, 5000)
    assert [(m.offset(), m.key(), m.value(), m.timestamp()[1]) for m in back] == [
        (i, row[2], row[3], row[4]) for i, row in enumerate(sent)
    ]


def test_confluent_headers_and_nulls(bootstrap, created):
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    produce(
        bootstrap,
        [
            (created, 0, b"key", None, START, headers),
            (created, 0, None, b"value", START + 1, None),
            (created, 0, b"", b"", START + 2, []),
        ],
    )
    first, second, third = consume(bootstrap, created, 0, 3)
    assert (first.key(), first.value(), first.headers()) == (b"key", None, headers)
    assert (second.key(), second.value(), second.headers()) == (None, b"value", None)
    assert (third.key(), third.value()) == (b"", b"")


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_confluent_offsets_for_times(bootstrap, created, codec):
    sent = [(created, 2, None, b"x", START + 10 * i, None) for i in range(100)]
    produce(bootstrap, sent, **{"compression.type": codec})
    reader = consumer(bootstrap)

    def offset_for(timestamp):
        (found,) = reader.offsets_for_times([TopicPartition(created, 2, timestamp)], TIMEOUT)
        assert found.error is None
        return found.offset

    assert offset_for(START) == 0
    assert offset_for(START + 411) == 42
    assert offset_for(START + 420) == 42
    assert offset_for(START + 10_000) == -1
    assert reader.get_watermark_offsets(TopicPartition(created, 2), TIMEOUT) == (0, 100)
    reader.close()


def test_confluent_idempotent_producer(bootstrap, created):
    sent = [(created, i % 3, None, b"%d" % i, START, None) for i in range(3000)]
    produce(bootstrap, sent, **{"enable.idempotence": True})
    for partition in range(3):
        back = consume(bootstrap, created, partition, 1000)
        assert [m.value() for m in back] == [b"%d" % i for i in range(partition, 3000, 3)]


def test_confluent_first_produce_creates_the_topic(bootstrap, topic):
    assert produce(bootstrap, [(topic, 0, None, b"first", START, None)]) == [0]
    assert consume(bootstrap, topic, 0, 1)[0].value() == b"first"


def test_confluent_assign_at_the_end_waits_for_what_comes(bootstrap, created):
    produce(bootstrap, [(created, 0, None, b"before", START, None)])
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(created, 0, 1)])
    assert reader.poll(0.2) is None
    produce(bootstrap, [(created, 0, None, b"after", START, None)])
    message = reader.poll(TIMEOUT)
    assert (message.offset(), message.value()) == (1, b"after")
    reader.close()


def test_confluent_admin(bootstrap, admin, created):
    assert set(admin.list_topics(timeout=TIMEOUT).topics[created].partitions) == {0, 1, 2}
    admin.create_partitions([NewPartitions(created, 4)])[created].result(TIMEOUT)
    assert len(admin.list_topics(created, TIMEOUT).topics[created].partitions) == 4

    def described():
        resource = ConfigResource(ConfigResource.Type.TOPIC, created)
        return admin.describe_configs([resource])[resource].result(TIMEOUT)

    assert described()["retention.ms"].value == "604800000"
    change = ConfigResource(
        ConfigResource.Type.TOPIC,
        created,
        incremental_configs=[
            ConfigEntry("retention.ms", "43210000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([change])[change].result(TIMEOUT)
    assert described()["retention.ms"].value == "43210000"

    produce(bootstrap, [(created, 0, None, b"%d" % i, START, None) for i in range(10)])
    cut = TopicPartition(created, 0, 4)
    assert admin.delete_records([cut])[cut].result(TIMEOUT).low_watermark == 4
    assert consume(bootstrap, created, 0, 1, offset=4)[0].value() == b"4"

    admin.delete_topics([created])[created].result(TIMEOUT)
    assert created not in admin.list_topics(timeout=TIMEOUT).topics
