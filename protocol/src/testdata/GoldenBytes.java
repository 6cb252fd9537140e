// Prints the golden bytes of this folder, as Apache Kafka's own client library writes them.
//
//   java -cp kafka-clients-4.4.0.jar:slf4j-api.jar:snappy-java.jar:lz4-java.jar:zstd-jni.jar \
//       GoldenBytes.java > kafka_clients_4_4_0.hex
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ApiVersionsRequestData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.ApiVersionsRequest;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestHeader;

public class GoldenBytes {
    static void print(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    static MemoryRecords records(Compression compression) {
        Header[] headers = {new RecordHeader("h", new byte[] {1}), new RecordHeader("h", null)};
        return MemoryRecords.withIdempotentRecords(compression, 4000L, (short) 3, 17,
            new SimpleRecord(1700000000000L, "k1".getBytes(), "v1".getBytes()),
            new SimpleRecord(1700000000005L, null, "a value a value a value a value".getBytes()),
            new SimpleRecord(1699999999990L, "k3".getBytes(), null, headers));
    }

    static void printRequest(String name, AbstractRequest request) {
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "golden", 7);
        print(name, request.serializeWithHeader(header));
    }

    public static void main(String[] args) {
        print("batch_none", records(Compression.NONE).buffer());
        print("batch_gzip", records(Compression.gzip().build()).buffer());
        print("batch_snappy", records(Compression.snappy().build()).buffer());
        print("batch_lz4", records(Compression.lz4().build()).buffer());
        print("batch_zstd", records(Compression.zstd().build()).buffer());
        print("marker_commit", MemoryRecords.withEndTransactionMarker(42L, 1700000000000L, 5, 9L,
            (short) 2, new EndTransactionMarker(ControlRecordType.COMMIT, 11)).buffer());
        printRequest("request_api_versions", new ApiVersionsRequest(
            new ApiVersionsRequestData().setClientSoftwareName("apache-kafka-java")
                .setClientSoftwareVersion("4.4.0"), (short) 4));
        printRequest("request_metadata",
            new MetadataRequest.Builder(List.of("orders"), true).build((short) 13));
        ProduceRequestData.PartitionProduceData partition =
            new ProduceRequestData.PartitionProduceData().setIndex(2)
                .setRecords(records(Compression.NONE));
        ProduceRequestData.TopicProduceData topic = new ProduceRequestData.TopicProduceData()
            .setTopicId(new Uuid(1L, 2L)).setPartitionData(List.of(partition));
        ProduceRequestData produce =
            new ProduceRequestData().setAcks((short) -1).setTimeoutMs(30000);
        produce.topicData().add(topic);
        printRequest("request_produce", new ProduceRequest(produce, (short) 13));
        print("subscription", ConsumerProtocol.serializeSubscription(new Subscription(
            List.of("orders"), ByteBuffer.wrap(new byte[] {9}),
            List.of(new TopicPartition("orders", 1)), 6, java.util.Optional.of("r1"))));
    }
}
