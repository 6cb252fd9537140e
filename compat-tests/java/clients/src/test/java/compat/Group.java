package compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Two member processes on six partitions; records come in rounds, one to each partition. */
final class Group implements AutoCloseable {
    static final int PARTITIONS = 6;
    static final int SESSION_MS = 6000;
    private final Broker broker;
    private final String topic;
    private final String mode;
    private int rounds;
    final List<Process> processes = new ArrayList<>();
    private final List<Thread> readers = new ArrayList<>();
    private final List<Map<String, Integer>> seen = new ArrayList<>();

    Group(Broker broker, String topic, String mode) throws Exception {
        this.broker = broker;
        this.topic = topic;
        this.mode = mode;
        broker.createTopic(topic, PARTITIONS);
        for (int i = 0; i < 2; i++) {
            processes.add(null);
            readers.add(null);
            seen.add(new ConcurrentHashMap<>());
            restart(i);
        }
    }

    /** Starts a member's process; what an earlier one of it has processed stays known. */
    void restart(int member) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        ProcessBuilder builder = new ProcessBuilder(java, "-Xmx128m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp", System.getProperty("java.class.path"), "compat.Member",
                System.getenv("BOOTSTRAP"), topic)
                .redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().put("GROUP_MODE", mode);
        builder.environment().put("GROUP_INSTANCE", "member-" + member);
        Process process = builder.start();
        Map<String, Integer> lines = seen.get(member);
        Thread reader = new Thread(() -> {
            var input = new BufferedReader(new InputStreamReader(process.getInputStream()));
            input.lines().forEach(line -> lines.merge(line, 1, Integer::sum));
        });
        reader.start();
        processes.set(member, process);
        readers.set(member, reader);
    }

    /** The partitions whose record of the round a member has processed. */
    private Set<Integer> partitionsOf(int member, int round) {
        Set<Integer> found = new HashSet<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            if (seen.get(member).containsKey(partition + " " + round)) {
                found.add(partition);
            }
        }
        return found;
    }

    /** Sends a record to each partition and waits until all six are processed. */
    List<Set<Integer>> round() throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            records.add(Broker.record(topic, partition, "" + rounds));
        }
        broker.produce(records);
        int round = rounds++;
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            List<Set<Integer>> got = List.of(partitionsOf(0, round), partitionsOf(1, round));
            Set<Integer> all = new HashSet<>(got.get(0));
            all.addAll(got.get(1));
            if (all.size() == PARTITIONS || System.nanoTime() > end) {
                return got;
            }
            Thread.sleep(20);
        }
    }

    /** Until each of the two processes three partitions. */
    List<Set<Integer>> untilShared() throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
        List<Set<Integer>> got = round();
        while (got.get(0).size() != 3 || got.get(1).size() != 3) {
            assertTrue(System.nanoTime() < end, "they do not share: " + got);
            got = round();
        }
        return got;
    }

    /** How often each record was processed. */
    private Map<String, Integer> counts() {
        Map<String, Integer> counts = new HashMap<>();
        seen.forEach(lines -> lines.forEach((line, n) -> counts.merge(line, n, Integer::sum)));
        return counts;
    }

    void untilCommitted() throws Exception {
        List<Long> wanted = Collections.nCopies(PARTITIONS, (long) rounds);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!broker.committed(topic, topic, PARTITIONS).equals(wanted)) {
            assertTrue(System.nanoTime() < end, "they do not commit " + rounds);
            Thread.sleep(20);
        }
    }

    /** Rewinds the group; what is processed again then is the round `from` and all behind it. */
    void rewind(String how, int from) throws Exception {
        Map<String, Integer> before = counts();
        String command = System.getenv("REWIND") + " " + topic + " " + how;
        Process rewind = new ProcessBuilder("sh", "-c", command).inheritIO().start();
        assertEquals(0, rewind.waitFor(), command);
        Set<String> wanted = new TreeSet<>();
        for (int round = from; round < rounds; round++) {
            for (int partition = 0; partition < PARTITIONS; partition++) {
                wanted.add(partition + " " + round);
            }
        }
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
        Set<String> again = new TreeSet<>();
        while (!again.containsAll(wanted)) {
            assertTrue(System.nanoTime() < end, "read again: " + again);
            Thread.sleep(20);
            counts().forEach((line, count) -> {
                if (count > before.getOrDefault(line, 0)) {
                    again.add(line);
                }
            });
        }
        assertEquals(wanted, again);
    }

    int rounds() {
        return rounds;
    }

    /** SIGTERM: the member leaves. */
    void leave(int member) throws Exception {
        processes.get(member).destroy();
        assertTrue(processes.get(member).waitFor(30, TimeUnit.SECONDS), "it does not leave");
        readers.get(member).join();
    }

    /** SIGKILL. */
    void die(int member) throws Exception {
        processes.get(member).destroyForcibly().waitFor();
        readers.get(member).join();
    }

    void checkAllProcessed() throws Exception {
        for (int round = 0; round < rounds; round++) {
            Set<Integer> all = partitionsOf(0, round);
            all.addAll(partitionsOf(1, round));
            assertEquals(PARTITIONS, all.size(), "processed of round " + round);
        }
        List<Long> wanted = Collections.nCopies(PARTITIONS, (long) rounds);
        assertEquals(wanted, broker.committed(topic, topic, PARTITIONS));
    }

    @Override
    public void close() {
        processes.forEach(Process::destroyForcibly);
    }
}
