"""aiokafka; each call runs its coroutine to the end."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from . import TIMEOUT, Record, Refused

NAMES = {
    errors.MessageSizeTooLargeError: "MESSAGE_TOO_LARGE",
    errors.InvalidTopicError: "INVALID_TOPIC_EXCEPTION",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}
HAS_NULL_HEADERS = False


def refused(error):
    return Refused(NAMES.get(type(error), repr(error)))


class Client:
    """What the scenarios ask for."""

    def __init__(self, bootstrap):
        self.config = {"bootstrap_servers": bootstrap}
        self.loop = asyncio.new_event_loop()

    def _run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 120))

    async def _admin(self, work):
        admin = AIOKafkaAdminClient(**self.config)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    def create_topic(self, topic, partitions):
        new = NewTopic(topic, partitions, 1)
        answer = self._run(self._admin(lambda admin: admin.create_topics([new])))
        code = answer.topic_errors[0][1]
        if code:
            raise Refused(NAMES.get(code, str(answer)))

    def delete_topic(self, topic):
        answer = self._run(self._admin(lambda admin: admin.delete_topics([topic])))
        code = answer.topic_error_codes[0][1]
        if code:
            raise Refused(NAMES.get(code, str(answer)))

    def partitions(self, topic):
        async def work(admin):
            if topic not in await admin.list_topics():
                return []
            (described,) = await admin.describe_topics([topic])
            return [p["partition"] for p in described["partitions"] if p["leader"] >= 0]

        return sorted(self._run(self._admin(work)))

    def produce(self, topic, records, codec="none", max_bytes=None):
        return self._run(self._produce(topic, records, codec, max_bytes))

    async def _produce(self, topic, records, codec, max_bytes):
        more = {"max_request_size": max_bytes} if max_bytes else {}
        if codec != "none":
            more["compression_type"] = codec
        producer = AIOKafkaProducer(linger_ms=5, acks="all", **self.config, **more)
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp or None,
                    headers=headers or [],
                )
                for partition, key, value, timestamp, headers in records
            ]
            return [(await future).offset for future in futures]
        except errors.KafkaError as error:
            raise refused(error)
        finally:
            await producer.stop()

    def idempotent(self, topic):
        return Idempotent(self, topic)

    def consume(self, topic, partition, start, count):
        return iter(self._run(self._consume(topic, partition, start, count)))

    async def _consume(self, topic, partition, start, count):
        reset = start if start in ("earliest", "latest") else "none"
        consumer = AIOKafkaConsumer(auto_offset_reset=reset, **self.config)
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        await consumer.start()
        try:
            if reset == "none":
                consumer.seek(place, start)
            return [record_of(await consumer.getone()) for _ in range(count)]
        finally:
            await consumer.stop()

    def tail(self, topic, partition):
        place = TopicPartition(topic, partition)

        async def begin():
            consumer = AIOKafkaConsumer(auto_offset_reset="latest", **self.config)
            consumer.assign([place])
            await consumer.start()
            await consumer.seek_to_end(place)
            return consumer

        consumer = self._run(begin())

        async def poll():
            batches = await consumer.getmany(timeout_ms=500)
            return [record_of(m) for ms in batches.values() for m in ms]

        return lambda: self._run(poll())

    def offset_for(self, topic, partition, timestamp):
        place = TopicPartition(topic, partition)

        async def work():
            consumer = AIOKafkaConsumer(**self.config)
            consumer.assign([place])
            await consumer.start()
            try:
                return (await consumer.offsets_for_times({place: timestamp}))[place].offset
            finally:
                await consumer.stop()

        return self._run(work())

    def _group_consumer(self, group, topic, **more):
        return AIOKafkaConsumer(
            topic,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **self.config,
            **more,
        )

    def group_take(self, group, topic, count):
        """Takes `count` records as a member, commits them and leaves."""

        async def work():
            consumer = self._group_consumer(group, topic)
            await consumer.start()
            try:
                records = [record_of(await consumer.getone()) for _ in range(count)]
                await consumer.commit({TopicPartition(topic, 0): records[-1].offset + 1})
                return records
            finally:
                await consumer.stop()

        return self._run(work())

    def committed(self, group, topic, partitions):
        async def work():
            consumer = AIOKafkaConsumer(group_id=group, **self.config)
            consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
            await consumer.start()
            try:
                return [
                    await consumer.committed(TopicPartition(topic, p)) for p in range(partitions)
                ]
            finally:
                await consumer.stop()

        return [-1 if offset is None else offset for offset in self._run(work())]

    def mode_options(self, _static, instance):
        return {"group_instance_id": instance}

    def member(self, group, topic, session_ms, is_done, on_record, options):
        """Processes and commits until it is done; then leaves."""

        async def work():
            consumer = self._group_consumer(
                group, topic, session_timeout_ms=session_ms, heartbeat_interval_ms=500, **options
            )
            await consumer.start()
            while not is_done():
                for place, messages in (await consumer.getmany(timeout_ms=100)).items():
                    for message in messages:
                        on_record(place.partition, message.value)
                    try:
                        await consumer.commit({place: messages[-1].offset + 1})
                    except errors.KafkaError:
                        # A rebalance came between: who has the partition now commits.
                        await asyncio.sleep(0.01)
            await consumer.stop()

        self.loop.run_until_complete(work())


def record_of(message):
    return Record(
        message.offset, message.key, message.value, message.timestamp, list(message.headers)
    )


class Idempotent:
    """`send` does not wait for the acknowledgement, `finish` does."""

    def __init__(self, client, topic):
        self.client, self.topic, self.futures = client, topic, []
        self.producer = client._run(self._begin())

    async def _begin(self):
        producer = AIOKafkaProducer(enable_idempotence=True, **self.client.config)
        await producer.start()
        return producer

    def send(self, value):
        async def send():
            future = await self.producer.send(self.topic, value, partition=0)
            # The sending goes on only while the loop runs.
            await asyncio.sleep(0.005)
            return future

        self.futures.append(self.client._run(send()))

    def finish(self):
        async def finish():
            offsets = [(await future).offset for future in self.futures]
            await self.producer.stop()
            return offsets

        return self.client._run(finish())
