"""kafka-python (its own protocol code) produces and consumes with assign."""

import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

TIMEOUT = 30
# An hour ago: no record is old enough for retention.
START = int(time.time() * 1000) - 3_600_000


def producer(bootstrap, **config):
    return KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **config)


def consumer(bootstrap, partition, **config):
    reader = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT * 1000,
        **config,
    )
    reader.assign([partition])
    return reader


def take(reader, count):
    messages = []
    while len(messages) < count:
        messages.append(next(reader))
    reader.close()
    return messages


# snappy, lz4 and zstd need further packages there: confluent-kafka and kcat cover them.
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_kafka_python_round_trip(bootstrap, topic, codec):
    writer = producer(bootstrap, compression_type=codec, acks="all")
    futures = [
        writer.send(topic, b"value %d" % i, b"%d" % i, partition=0, timestamp_ms=START + i)
        for i in range(2000)
    ]
    assert [f.get(TIMEOUT).offset for f in futures] == list(range(2000))
    writer.close()
    reader = consumer(bootstrap, TopicPartition(topic, 0))
    back = take(reader, 2000)
    assert [(m.offset, m.key, m.value, m.timestamp) for m in back] == [
        (i, b"%d" % i, b"value %d" % i, START + i) for i in range(2000)
    ]


def test_kafka_python_headers_and_nulls(bootstrap, topic):
    writer = producer(bootstrap)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    writer.send(topic, None, b"key", headers=headers, partition=0)
    writer.send(topic, b"value", None, partition=0)
    writer.flush(TIMEOUT)
    writer.close()
    first, second = take(consumer(bootstrap, TopicPartition(topic, 0)), 2)
    assert (first.key, first.value, list(first.headers)) == (b"key", None, headers)
    assert (second.key, second.value) == (None, b"value")


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_acks(bootstrap, topic, acks):
    writer = producer(bootstrap, acks=acks, enable_idempotence=False)
    writer.send(topic, b"with acks", partition=0)
    writer.flush(TIMEOUT)
    writer.close()
    (message,) = take(consumer(bootstrap, TopicPartition(topic, 0)), 1)
    assert message.value == b"with acks"


def test_kafka_python_idempotent_producer(bootstrap, topic):
    writer = producer(bootstrap, enable_idempotence=True)
    for i in range(1000):
        writer.send(topic, b"%d" % i, partition=0)
    writer.flush(TIMEOUT)
    writer.close()
    back = take(consumer(bootstrap, TopicPartition(topic, 0)), 1000)
    assert [m.value for m in back] == [b"%d" % i for i in range(1000)]


def test_kafka_python_offsets_for_times(bootstrap, topic):
    writer = producer(bootstrap, compression_type="gzip")
    for i in range(100):
        writer.send(topic, b"x", partition=0, timestamp_ms=START + 10 * i)
    writer.flush(TIMEOUT)
    writer.close()
    partition = TopicPartition(topic, 0)
    reader = consumer(bootstrap, partition)

    def found(timestamp):
        return reader.offsets_for_times({partition: timestamp})[partition]

    assert found(START).offset == 0
    assert (found(START + 411).offset, found(START + 411).timestamp) == (42, START + 420)
    assert found(START + 10_000) is None
    assert reader.beginning_offsets([partition]) == {partition: 0}
    assert reader.end_offsets([partition]) == {partition: 100}
    reader.seek(partition, 50)
    assert next(reader).offset == 50
    reader.close()


def test_kafka_python_admin(bootstrap, topic):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
