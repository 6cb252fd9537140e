package compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the scenarios ask of the client; only calls that 2.8 has as well. */
final class Broker {
    static final Duration TIMEOUT = Duration.ofSeconds(30);
    private final String bootstrap;

    Broker(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** A client's configuration: the broker, and pairs of key and value. */
    private Map<String, Object> config(Object... pairs) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int i = 0; i < pairs.length; i += 2) {
            config.put((String) pairs[i], pairs[i + 1]);
        }
        return config;
    }

    /** The result, or what the broker refused with. */
    static <T> T get(Future<T> future) throws Exception {
        try {
            return future.get(120, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    interface AdminWork<T> {
        T run(Admin admin) throws Exception;
    }

    <T> T admin(AdminWork<T> work) throws Exception {
        try (Admin admin = Admin.create(config())) {
            return work.run(admin);
        }
    }

    void createTopic(String topic, int partitions) throws Exception {
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1);
        admin(admin -> get(admin.createTopics(List.of(wanted)).all()));
    }

    void deleteTopic(String topic) throws Exception {
        admin(admin -> get(admin.deleteTopics(List.of(topic)).all()));
    }

    /** How many partitions have a leader; 0 for a topic that does not exist. */
    int partitions(String topic) throws Exception {
        Set<String> topics = admin(admin -> get(admin.listTopics().names()));
        if (!topics.contains(topic)) {
            return 0;
        }
        // The call of the admin client that describes topics is another one in old versions.
        try (var consumer = consumer("allow.auto.create.topics", false)) {
            var found = consumer.partitionsFor(topic);
            return (int) found.stream().filter(p -> p.leader() != null).count();
        }
    }

    KafkaProducer<byte[], byte[]> producer(Object... pairs) {
        Map<String, Object> config = config("acks", "all");
        config.putAll(config(pairs));
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes());
    }

    /** Sends, waits for all acknowledgements, and returns the offsets. */
    List<Long> produce(List<ProducerRecord<byte[], byte[]>> records, Object... pairs)
            throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(pairs)) {
            for (var record : records) {
                futures.add(producer.send(record));
            }
            for (var future : futures) {
                offsets.add(get(future).offset());
            }
        }
        return offsets;
    }

    KafkaConsumer<byte[], byte[]> consumer(Object... pairs) {
        Map<String, Object> config =
                config("enable.auto.commit", false, "auto.offset.reset", "earliest");
        config.putAll(config(pairs));
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(config, bytes, new ByteArrayDeserializer());
    }

    /** A consumer without a group, on partition 0. */
    KafkaConsumer<byte[], byte[]> assigned(String topic) {
        KafkaConsumer<byte[], byte[]> consumer = consumer();
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        return consumer;
    }

    /** Takes `count` records. */
    static List<ConsumerRecord<byte[], byte[]>> take(
            KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> taken = new ArrayList<>();
        long end = System.nanoTime() + TIMEOUT.toNanos();
        while (taken.size() < count) {
            if (System.nanoTime() > end) {
                throw new AssertionError(taken.size() + " of " + count + " records came");
            }
            consumer.poll(Duration.ofMillis(200)).forEach(taken::add);
        }
        return taken.subList(0, count);
    }

    /** Takes `count` records from an offset; -1 is the beginning. */
    List<ConsumerRecord<byte[], byte[]>> consume(String topic, long from, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = assigned(topic)) {
            TopicPartition place = new TopicPartition(topic, 0);
            if (from < 0) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, from);
            }
            return take(consumer, count);
        }
    }

    /** Takes records as a member, commits them and leaves. */
    List<ConsumerRecord<byte[], byte[]>> groupTake(String group, String topic, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer =
                consumer("group.id", group, "max.poll.records", count)) {
            consumer.subscribe(List.of(topic));
            var records = take(consumer, count);
            long next = records.get(count - 1).offset() + 1;
            consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(next)));
            return records;
        }
    }

    /** The committed offsets of the topic's partitions, -1 where nothing is. */
    List<Long> committed(String group, String topic, int partitions) throws Exception {
        var found = admin(admin ->
                get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()));
        List<Long> offsets = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            OffsetAndMetadata offset = found.get(new TopicPartition(topic, partition));
            offsets.add(offset == null ? -1 : offset.offset());
        }
        return offsets;
    }

    static List<Long> offsets(Collection<ConsumerRecord<byte[], byte[]>> records) {
        List<Long> offsets = new ArrayList<>();
        records.forEach(record -> offsets.add(record.offset()));
        return offsets;
    }
}
