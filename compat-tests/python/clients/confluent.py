"""confluent-kafka, on librdkafka."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from . import TIMEOUT, Record, Refused

NAMES = {
    KafkaError.MSG_SIZE_TOO_LARGE: "MESSAGE_TOO_LARGE",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}
HAS_NULL_HEADERS = True


def refused(error):
    return Refused(NAMES.get(error.code(), str(error)))


class Client:
    """What the scenarios ask for."""

    def __init__(self, bootstrap):
        self.config = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.config)

    def create_topic(self, topic, partitions):
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
        self._wait(self.admin.create_topics([new])[topic])

    def delete_topic(self, topic):
        self._wait(self.admin.delete_topics([topic])[topic])

    @staticmethod
    def _wait(future):
        try:
            future.result(TIMEOUT)
        except KafkaException as error:
            raise refused(error.args[0])

    def partitions(self, topic):
        found = self.admin.list_topics(timeout=TIMEOUT).topics.get(topic)
        return [p.id for p in found.partitions.values() if p.leader >= 0] if found else []

    def produce(self, topic, records, codec="none", max_bytes=None):
        config = {**self.config, "linger.ms": 5, "compression.type": codec}
        if max_bytes:
            config["message.max.bytes"] = max_bytes
        sender = Sender(config)
        for partition, key, value, timestamp, headers in records:
            sender.send(topic, value, key, partition, timestamp or 0, headers)
        return sender.finish()

    def idempotent(self, topic):
        """A producer whose `send(value)` does not wait; `finish()` does."""
        sender = Sender({**self.config, "enable.idempotence": True})
        sender.bound = topic
        return sender

    def _consumer(self, group="unused", **more):
        config = {"group.id": group, "enable.auto.commit": False, **self.config, **more}
        return Consumer(config)

    def consume(self, topic, partition, start, count):
        consumer = self._consumer(**{"auto.offset.reset": "error"})
        places = {"earliest": -2, "latest": -1}
        consumer.assign([TopicPartition(topic, partition, places.get(start, start))])
        yield from self._take(consumer, count)
        consumer.close()

    def tail(self, topic, partition):
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition, -1)])
        return lambda: [record_of(m) for m in consumer.consume(100, 0.5) if not m.error()]

    @staticmethod
    def _take(consumer, count):
        while count:
            message = consumer.poll(TIMEOUT)
            assert message is not None, f"{count} records did not come"
            assert message.error() is None, message.error()
            yield record_of(message)
            count -= 1

    def offset_for(self, topic, partition, timestamp):
        consumer = self._consumer()
        (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], TIMEOUT)
        consumer.close()
        return found.offset

    def group_take(self, group, topic, count):
        """Takes `count` records as a member, commits them and leaves."""
        consumer = self._consumer(group, **{"auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        records = list(self._take(consumer, count))
        consumer.commit(offsets=[TopicPartition(topic, 0, records[-1].offset + 1)], asynchronous=False)
        consumer.close()
        return records

    def committed(self, group, topic, partitions):
        consumer = self._consumer(group)
        found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], TIMEOUT)
        consumer.close()
        return [max(each.offset, -1) for each in found]

    def mode_options(self, mode, instance):
        return {
            "static": {"group.instance.id": instance},
            "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
            "kip848": {"group.protocol": "consumer"},
        }[mode]

    def member(self, group, topic, session_ms, is_done, on_record, options):
        """Processes and commits until it is done; then leaves."""
        session = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 500}
        # With KIP-848 the broker says how long a session is.
        session = {} if "group.protocol" in options else session
        more = {"auto.offset.reset": "earliest", **session, **options}
        consumer = self._consumer(group, **more)
        consumer.subscribe([topic])
        while not is_done():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            on_record(message.partition(), message.value())
            try:
                consumer.commit(message, asynchronous=False)
            except KafkaException:
                # A rebalance came between: who has the partition now commits.
                time.sleep(0.01)
        consumer.close()


def record_of(message):
    kind_and_time = message.timestamp()
    return Record(
        message.offset(), message.key(), message.value(), kind_and_time[1], message.headers() or []
    )


class Sender:
    """Collects what delivery reports say."""

    def __init__(self, config):
        self.producer = Producer(config)
        self.bound, self.errors, self.offsets = None, [], []

    def send(self, *arguments):
        topic, value, key, partition, timestamp, headers = (
            arguments if len(arguments) > 1 else (self.bound, arguments[0], None, 0, 0, None)
        )
        options = {"headers": headers, "timestamp": timestamp, "on_delivery": self._on_delivery}
        while True:
            try:
                self.producer.produce(topic, value, key, partition, **options)
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)

    def _on_delivery(self, error, message):
        if error:
            self.errors.append(error)
        else:
            self.offsets.append(message.offset())

    def finish(self):
        assert self.producer.flush(90) == 0, "not all records were acknowledged"
        if self.errors:
            raise refused(self.errors[0])
        return self.offsets
