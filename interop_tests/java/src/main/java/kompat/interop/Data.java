package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producing, consuming and asking for offsets, with partitions assigned by hand. */
final class Data {
    static final Map<String, Host.Verb> VERBS = Map.of(
        "produce", Data::produce, "consume", Data::consume, "watermarks", Data::watermarks, "offset_for_time", Data::offsetForTime);

    private Data() {
    }

    private static ArrayNode produce(JsonNode request) throws Exception {
        Properties properties = Host.properties(request);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode message : request.get("messages")) {
                sent.add(producer.send(record(request.get("topic").asText(), message)));
            }
            producer.flush();
        }
        ArrayNode results = Host.JSON.createArrayNode();
        for (Future<RecordMetadata> future : sent) {
            try {
                RecordMetadata metadata = future.get();
                results.addObject().put("offset", metadata.hasOffset() ? metadata.offset() : -1L).put("timestamp", metadata.timestamp());
            } catch (Exception problem) {
                results.add(Host.problem(problem));
            }
        }
        return results;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode message) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : message.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), Host.bytes(header.get(1))));
        }
        JsonNode timestamp = message.get("timestamp");
        return new ProducerRecord<>(topic, message.get("partition").asInt(), timestamp.isNull() ? null : timestamp.asLong(),
            Host.bytes(message.get("key")), Host.bytes(message.get("value")), headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return new KafkaConsumer<>(Host.properties(request), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private static ArrayNode consume(JsonNode request) {
        TopicPartition partition = partition(request);
        int count = request.get("count").asInt();
        long deadline = System.nanoTime() + Duration.ofMillis(request.get("timeout_ms").asLong()).toNanos();
        ArrayNode records = Host.JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, request.get("start").asLong());
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    records.add(fetched(record));
                }
            }
        }
        return records;
    }

    private static ObjectNode fetched(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = Host.JSON.createObjectNode();
        node.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        node.put("timestamp_type", record.timestampType().id);
        node.put("key", Host.text(record.key())).put("value", Host.text(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(Host.text(header.value()));
        }
        return node;
    }

    private static List<Long> watermarks(JsonNode request) {
        TopicPartition partition = partition(request);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            return List.of(consumer.beginningOffsets(List.of(partition)).get(partition), consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private static Long offsetForTime(JsonNode request) {
        TopicPartition partition = partition(request);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, request.get("timestamp").asLong())).get(partition);
            return found == null ? null : found.offset();
        }
    }
}
