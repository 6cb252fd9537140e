package compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;

/**
 * A member of a group as a process: it prints `PARTITION VALUE` for each record before it commits,
 * leaves the group on SIGTERM, and dies without a word on SIGKILL. GROUP_MODE says how it is a
 * member: static (as GROUP_INSTANCE), cooperative, or kip848.
 */
final class Member {
    private Member() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        AtomicBoolean done = new AtomicBoolean();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            done.set(true);
            try {
                main.join();
            } catch (InterruptedException ignored) {
                // The process ends anyway.
            }
        }));
        Broker broker = new Broker(arguments[0]);
        try (KafkaConsumer<byte[], byte[]> consumer = broker.consumer(options(topic))) {
            consumer.subscribe(List.of(topic));
            while (!done.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    process(consumer, record);
                }
            }
        }
    }

    private static Object[] options(String topic) {
        List<Object> options = new ArrayList<>(List.of("group.id", topic));
        String mode = System.getenv("GROUP_MODE");
        if (mode.equals("kip848")) {
            // The broker says how long a session is.
            options.addAll(List.of("group.protocol", "consumer"));
            return options.toArray();
        }
        options.addAll(List.of(
                "session.timeout.ms", Group.SESSION_MS, "heartbeat.interval.ms", 500));
        if (mode.equals("static")) {
            options.addAll(List.of("group.instance.id", System.getenv("GROUP_INSTANCE")));
        } else if (mode.equals("cooperative")) {
            String assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
            options.addAll(List.of("partition.assignment.strategy", assignor));
        }
        return options.toArray();
    }

    private static void process(
            KafkaConsumer<byte[], byte[]> consumer, ConsumerRecord<byte[], byte[]> record) {
        System.out.println(record.partition() + " " + new String(record.value()));
        System.out.flush();
        TopicPartition place = new TopicPartition(record.topic(), record.partition());
        try {
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(record.offset() + 1)));
        } catch (CommitFailedException
                | RebalanceInProgressException
                | RetriableException error) {
            System.err.println("who has the partition now commits: " + error.getMessage());
        }
    }
}
