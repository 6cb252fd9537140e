"""kafka-python, the newest and 2.0.2: one text for both, as far as they agree."""

import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors
from kafka.admin import NewTopic

from . import TIMEOUT, Record, Refused

NAMES = {
    errors.MessageSizeTooLargeError: "MESSAGE_TOO_LARGE",
    errors.InvalidTopicError: "INVALID_TOPIC_EXCEPTION",
}
HAS_NULL_HEADERS = False
IS_OLD = kafka.__version__.startswith("2.0.")


def refused(error):
    return Refused(NAMES.get(type(error), repr(error)))


class Client:
    """What the scenarios ask for."""

    def __init__(self, bootstrap):
        self.config = {"bootstrap_servers": bootstrap}

    def _admin(self, work):
        admin = KafkaAdminClient(**self.config)
        try:
            return work(admin)
        except errors.KafkaError as error:
            raise refused(error)
        finally:
            admin.close()

    def create_topic(self, topic, partitions):
        new = NewTopic(topic, partitions, 1)
        self._admin(lambda admin: admin.create_topics([new], timeout_ms=TIMEOUT * 1000))

    def delete_topic(self, topic):
        self._admin(lambda admin: admin.delete_topics([topic], timeout_ms=TIMEOUT * 1000))

    def partitions(self, topic):
        consumer = KafkaConsumer(**self.config)
        try:
            if topic not in consumer.topics():
                return []
            return sorted(consumer.partitions_for_topic(topic) or [])
        finally:
            consumer.close()

    def produce(self, topic, records, codec="none", max_bytes=None):
        more = {"max_request_size": max_bytes} if max_bytes else {}
        if codec != "none":
            more["compression_type"] = codec
        producer = KafkaProducer(linger_ms=5, acks="all", **self.config, **more)
        futures = [
            producer.send(
                topic, value, key, headers or [], partition=partition, timestamp_ms=timestamp or None
            )
            for partition, key, value, timestamp, headers in records
        ]
        try:
            return [future.get(TIMEOUT).offset for future in futures]
        except errors.KafkaError as error:
            raise refused(error)
        finally:
            producer.close(TIMEOUT)

    def idempotent(self, topic):
        return Idempotent(self.config, topic)

    def _consumer(self, **more):
        return KafkaConsumer(enable_auto_commit=False, **self.config, **more)

    def consume(self, topic, partition, start, count):
        reset = start if start in ("earliest", "latest") else "none"
        consumer = self._consumer(
            group_id=None, auto_offset_reset=reset, consumer_timeout_ms=TIMEOUT * 1000
        )
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        if reset == "none":
            consumer.seek(place, start)
        for _ in range(count):
            yield record_of(next(consumer))
        consumer.close()

    def tail(self, topic, partition):
        consumer = self._consumer(group_id=None)
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek_to_end(place)
        return lambda: [record_of(m) for ms in consumer.poll(500).values() for m in ms]

    def offset_for(self, topic, partition, timestamp):
        place = TopicPartition(topic, partition)
        consumer = self._consumer(group_id=None)
        found = consumer.offsets_for_times({place: timestamp})[place]
        consumer.close()
        return found.offset

    def group_take(self, group, topic, count):
        """Takes `count` records as a member, commits them and leaves."""
        consumer = self._consumer(
            group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT * 1000
        )
        consumer.subscribe([topic])
        records = [record_of(next(consumer)) for _ in range(count)]
        consumer.commit({TopicPartition(topic, 0): metadata(records[-1].offset + 1)})
        consumer.close()
        return records

    def committed(self, group, topic, partitions):
        consumer = self._consumer(group_id=group)
        found = [consumer.committed(TopicPartition(topic, p)) for p in range(partitions)]
        consumer.close()
        return [-1 if offset is None else offset for offset in found]

    def mode_options(self, mode, instance):
        if mode == "static":
            return {"group_instance_id": instance}
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        return {"partition_assignment_strategy": [CooperativeStickyAssignor]}

    def member(self, group, topic, session_ms, is_done, on_record, options):
        """Processes and commits until it is done; then leaves."""
        consumer = self._consumer(
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=20_000,
            **options,
        )
        consumer.subscribe([topic])
        while not is_done():
            # Not a short poll: 3.0.12 forgets a join for news of the topic that outlasts its poll.
            # It stays without partitions then, sends no heartbeats, and is never told.
            for place, messages in consumer.poll(2000).items():
                for message in messages:
                    on_record(place.partition, message.value)
                try:
                    consumer.commit({place: metadata(messages[-1].offset + 1)})
                except errors.KafkaError:
                    # A rebalance came between: who has the partition now commits.
                    time.sleep(0.01)
        consumer.close()


def metadata(offset):
    fields = kafka.OffsetAndMetadata._fields
    return kafka.OffsetAndMetadata(*[offset, "", -1][: len(fields)])


def record_of(message):
    return Record(
        message.offset, message.key, message.value, message.timestamp, list(message.headers)
    )


class Idempotent:
    """`send` does not wait, `finish` does."""

    def __init__(self, config, topic):
        self.topic, self.futures = topic, []
        self.producer = KafkaProducer(
            enable_idempotence=True, delivery_timeout_ms=90_000, max_block_ms=90_000, **config
        )

    def send(self, value):
        self.futures.append(self.producer.send(self.topic, value, partition=0))

    def finish(self):
        offsets = [future.get(90).offset for future in self.futures]
        self.producer.close(TIMEOUT)
        return offsets
