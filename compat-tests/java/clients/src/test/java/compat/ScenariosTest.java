package compat;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The scenarios of matrix/scenarios.toml. */
class ScenariosTest {
    /** An hour ago: no record is old enough for retention. */
    private static final long START = System.currentTimeMillis() - 3_600_000;
    private static final long BEGINNING = -1L;
    private final Broker broker = new Broker(System.getenv("BOOTSTRAP"));

    private interface Scenario {
        void run(String topic) throws Exception;
    }

    private Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("create-topic", this::createTopic);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.put("codec-" + codec, topic -> roundTrip(topic, codec));
        }
        all.put("headers", this::headers);
        all.put("null-key", this::nullKey);
        all.put("null-value", this::nullValue);
        all.put("record-1mb", this::recordOf1MB);
        all.put("small-10000", topic -> countsUp(topic, 10_000, 0));
        all.put("from-earliest", topic -> countsUp(topic, 10, 0));
        all.put("from-latest", this::fromLatest);
        all.put("from-timestamp", this::fromTimestamp);
        all.put("from-offset", topic -> countsUp(topic, 10, 5));
        all.put("idempotent-restart", this::idempotentRestart);
        all.put("auto-create", this::autoCreate);
        all.put("too-large", this::tooLarge);
        all.put("invalid-name", this::invalidName);
        all.put("recreate", this::recreate);
        all.put("group-commit", this::groupCommit);
        all.put("group-share", this::groupShare);
        all.put("group-takeover", topic -> takeover(topic, ""));
        all.put("group-static", this::groupStatic);
        all.put("group-cooperative", topic -> takeover(topic, "cooperative"));
        all.put("group-kip848", topic -> takeover(topic, "kip848"));
        all.put("group-rewind", topic -> groupRewind(topic, ""));
        all.put("group-rewind-848", topic -> groupRewind(topic, "kip848"));
        return all;
    }

    @TestFactory
    Stream<DynamicTest> scenario() {
        List<String> wanted = List.of(System.getenv("SCENARIOS").split(" "));
        return scenarios().entrySet().stream()
                .filter(entry -> wanted.contains(entry.getKey()))
                .map(entry -> DynamicTest.dynamicTest(
                        entry.getKey(), () -> report(entry.getKey(), entry.getValue())));
    }

    private void report(String name, Scenario scenario) throws Exception {
        String result = "fail";
        try {
            scenario.run("java-" + name + "-" + UUID.randomUUID());
            result = "pass";
        } finally {
            Files.writeString(Path.of(System.getenv("RESULTS")), result + " " + name + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    private static List<ProducerRecord<byte[], byte[]>> numbered(
            String topic, int count, String prefix) {
        return IntStream.range(0, count).mapToObj(i -> Broker.record(topic, 0, prefix + i))
                .collect(Collectors.toList());
    }

    private static List<Long> range(long first, long end) {
        return LongStream.range(first, end).boxed().collect(Collectors.toList());
    }

    /** Values that count up, at offsets that do. */
    private static void assertNumbered(List<ConsumerRecord<byte[], byte[]>> records, int first) {
        assertEquals(range(first, first + records.size()), Broker.offsets(records));
        for (ConsumerRecord<byte[], byte[]> record : records) {
            assertEquals("" + record.offset(), new String(record.value()));
        }
    }

    private ConsumerRecord<byte[], byte[]> throughBroker(
            ProducerRecord<byte[], byte[]> record, Object... pairs) throws Exception {
        broker.createTopic(record.topic(), 1);
        broker.produce(List.of(record), pairs);
        return broker.consume(record.topic(), BEGINNING, 1).get(0);
    }

    private void createTopic(String topic) throws Exception {
        broker.createTopic(topic, 3);
        assertEquals(3, broker.partitions(topic));
    }

    private void roundTrip(String topic, String codec) throws Exception {
        broker.createTopic(topic, 1);
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            byte[] value = ("value " + i + " " + "x".repeat(100)).getBytes();
            sent.add(new ProducerRecord<>(topic, 0, START + i, ("key " + i).getBytes(), value));
        }
        assertEquals(range(0, 1000), broker.produce(sent, "compression.type", codec));
        var back = broker.consume(topic, BEGINNING, 1000);
        assertEquals(range(0, 1000), Broker.offsets(back));
        for (int i = 0; i < 1000; i++) {
            assertArrayEquals(sent.get(i).key(), back.get(i).key());
            assertArrayEquals(sent.get(i).value(), back.get(i).value());
            assertEquals(START + i, back.get(i).timestamp());
        }
    }

    private void headers(String topic) throws Exception {
        var record = Broker.record(topic, 0, "v");
        for (String pair : List.of("a=1", "b=2", "a=3", "empty=")) {
            String[] parts = pair.split("=", 2);
            record.headers().add(new RecordHeader(parts[0], parts[1].getBytes()));
        }
        record.headers().add(new RecordHeader("null", (byte[]) null));
        var back = throughBroker(record);
        assertEquals(List.of(record.headers().toArray()), List.of(back.headers().toArray()));
    }

    private void nullKey(String topic) throws Exception {
        var back = throughBroker(Broker.record(topic, 0, "v"));
        assertNull(back.key());
        assertEquals("v", new String(back.value()));
    }

    private void nullValue(String topic) throws Exception {
        var back = throughBroker(new ProducerRecord<>(topic, 0, "k".getBytes(), null));
        assertEquals("k", new String(back.key()));
        assertNull(back.value());
    }

    private static byte[] random(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    private void recordOf1MB(String topic) throws Exception {
        byte[] value = random(1_000_000);
        var back = throughBroker(new ProducerRecord<>(topic, 0, null, value));
        assertTrue(Arrays.equals(value, back.value()));
    }

    private void countsUp(String topic, int count, int first) throws Exception {
        broker.createTopic(topic, 1);
        broker.produce(numbered(topic, count, ""));
        long from = first == 0 ? BEGINNING : first;
        assertNumbered(broker.consume(topic, from, count - first), first);
    }

    private void fromLatest(String topic) throws Exception {
        broker.createTopic(topic, 1);
        broker.produce(numbered(topic, 10, ""));
        try (var consumer = broker.assigned(topic)) {
            consumer.seekToEnd(List.of(new TopicPartition(topic, 0)));
            var seen = consumer.poll(Duration.ofMillis(500));
            long end = System.nanoTime() + Broker.TIMEOUT.toNanos();
            while (seen.isEmpty() && System.nanoTime() < end) {
                broker.produce(List.of(Broker.record(topic, 0, "after")));
                seen = consumer.poll(Duration.ofMillis(500));
            }
            assertTrue(!seen.isEmpty());
            for (var record : seen) {
                assertEquals("after", new String(record.value()));
                assertTrue(record.offset() >= 10);
            }
        }
    }

    private void fromTimestamp(String topic) throws Exception {
        broker.createTopic(topic, 1);
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            sent.add(new ProducerRecord<>(topic, 0, START + 10L * i, null, ("" + i).getBytes()));
        }
        broker.produce(sent);
        TopicPartition place = new TopicPartition(topic, 0);
        try (var consumer = broker.assigned(topic)) {
            var found = consumer.offsetsForTimes(Map.of(place, START + 411)).get(place);
            assertEquals(42, found.offset());
            assertEquals(START + 420, found.timestamp());
            consumer.seek(place, found.offset());
            assertNumbered(Broker.take(consumer, 1), 42);
        }
    }

    private void idempotentRestart(String topic) throws Exception {
        broker.createTopic(topic, 1);
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        try (var producer = broker.producer("enable.idempotence", true)) {
            Runnable send = () ->
                    futures.add(producer.send(Broker.record(topic, 0, "" + futures.size())));
            for (int i = 0; i < 200; i++) {
                send.run();
            }
            Process restart = new ProcessBuilder("sh", "-c", System.getenv("RESTART_BROKER"))
                    .inheritIO().start();
            while (!restart.waitFor(10, TimeUnit.MILLISECONDS)) {
                send.run();
            }
            assertEquals(0, restart.exitValue());
            for (int i = 0; i < 200; i++) {
                send.run();
            }
            for (Future<RecordMetadata> future : futures) {
                Broker.get(future);
            }
        }
        assertNumbered(broker.consume(topic, BEGINNING, futures.size()), 0);
        var end = broker.produce(List.of(Broker.record(topic, 0, "end")));
        assertEquals(List.of((long) futures.size()), end);
    }

    private void autoCreate(String topic) throws Exception {
        assertEquals(List.of(0L), broker.produce(numbered(topic, 1, "")));
        assertNumbered(broker.consume(topic, BEGINNING, 1), 0);
    }

    private void tooLarge(String topic) throws Exception {
        broker.createTopic(topic, 1);
        var large = List.of(new ProducerRecord<byte[], byte[]>(topic, 0, null, random(2_000_000)));
        // The client's own limit is wide: the refusal is the broker's.
        assertThrows(RecordTooLargeException.class, () -> broker.produce(
                large, "max.request.size", 10_000_000, "buffer.memory", 50_000_000));
        assertEquals(List.of(0L), broker.produce(numbered(topic, 1, "")));
    }

    private void invalidName(String topic) {
        assertThrows(InvalidTopicException.class, () -> broker.createTopic("no blanks", 1));
    }

    private void recreate(String topic) throws Exception {
        broker.createTopic(topic, 1);
        broker.produce(numbered(topic, 3, "old "));
        broker.deleteTopic(topic);
        long end = System.nanoTime() + Broker.TIMEOUT.toNanos();
        while (broker.partitions(topic) > 0) {
            assertTrue(System.nanoTime() < end, "the topic does not go");
        }
        broker.createTopic(topic, 2);
        assertEquals(List.of(0L), broker.produce(numbered(topic, 1, "")));
        assertNumbered(broker.consume(topic, BEGINNING, 1), 0);
        assertEquals(2, broker.partitions(topic));
    }

    private void groupCommit(String topic) throws Exception {
        broker.createTopic(topic, 1);
        broker.produce(numbered(topic, 100, ""));
        for (int first : new int[] {0, 50}) {
            assertNumbered(broker.groupTake(topic, topic, 50), first);
            assertEquals(List.of(first + 50L), broker.committed(topic, topic, 1));
        }
    }

    private void groupShare(String topic) throws Exception {
        try (Group group = new Group(broker, topic, "")) {
            group.untilShared();
            group.leave(0);
            group.leave(1);
            group.checkAllProcessed();
        }
    }

    private void groupRewind(String topic, String mode) throws Exception {
        try (Group group = new Group(broker, topic, mode)) {
            group.untilShared();
            for (int i = 0; i < 4; i++) {
                group.round();
            }
            group.untilCommitted();
            int before = group.rounds();
            group.rewind("--to-offset " + (before - 3), before - 3);
            group.round();
            group.rewind("--undo", before);
            group.untilCommitted();
            group.leave(0);
            group.leave(1);
            group.checkAllProcessed();
        }
    }

    private void groupStatic(String topic) throws Exception {
        try (Group group = new Group(broker, topic, "static")) {
            List<Set<Integer>> before = group.untilShared();
            group.die(0);
            group.restart(0);
            // Whoever rejoined would have been given other partitions, or none for a while.
            List<Set<Integer>> got = group.round();
            while (!got.get(0).equals(before.get(0))) {
                assertEquals(before.get(1), got.get(1));
                got = group.round();
            }
            assertEquals(before, got);
            group.leave(0);
            group.leave(1);
            group.checkAllProcessed();
        }
    }

    private void takeover(String topic, String mode) throws Exception {
        try (Group group = new Group(broker, topic, mode)) {
            group.untilShared();
            group.die(0);
            long begun = System.nanoTime();
            while (group.round().get(1).size() != Group.PARTITIONS) {
                assertTrue(System.nanoTime() - begun < Broker.TIMEOUT.toNanos(), "no takeover");
            }
            // The session timeout, a heartbeat for the news, and a rebalance.
            long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
            assertTrue(took < Group.SESSION_MS + 6000, "it took " + took + " ms");
            group.leave(1);
            group.checkAllProcessed();
        }
    }
}
