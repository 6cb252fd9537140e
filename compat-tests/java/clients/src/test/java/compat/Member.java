package compat;

import java.time.Duration;
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
 * leaves the group on SIGTERM, and dies without a word on SIGKILL.
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
        // Of a KIP-848 group the broker says both times.
        Object[] settings = arguments[2].equals("consumer")
                ? new Object[] {"group.id", topic, "group.protocol", "consumer"}
                : new Object[] {"group.id", topic, "session.timeout.ms", Group.SESSION_MS,
                    "heartbeat.interval.ms", 500};
        try (KafkaConsumer<byte[], byte[]> consumer = broker.consumer(settings)) {
            consumer.subscribe(List.of(topic));
            while (!done.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    process(consumer, record);
                }
            }
        }
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
