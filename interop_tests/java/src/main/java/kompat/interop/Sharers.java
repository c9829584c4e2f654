package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Hosts share group members, as Members does those of consumer groups. What a member does with a record is written in it:
 * "reject…", "release…" (the first time), "again…" (release always), "hold…" (nothing more is done at all); others are
 * accepted. In implicit mode all are.
 */
public final class Sharers {
    private Sharers() {
    }

    public static void main(String[] args) throws Exception {
        Members.serve(Sharer::new);
    }

    private static final class Sharer extends Members.Member {
        private KafkaShareConsumer<String, String> consumer;
        private boolean isExplicit;

        Sharer(String name, JsonNode order) {
            super(name, order);
        }

        @Override
        void live() {
            Properties properties = Host.properties(order);
            properties.put("group.id", order.get("group").asText());
            isExplicit = "explicit".equals(properties.get("share.acknowledgement.mode"));
            try (var opened = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                consumer = opened;
                consumer.subscribe(topics());
                while (!isLeaving) {
                    step();
                }
            }
        }

        private void step() {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            for (ConsumerRecord<String, String> record : records) {
                tell(event("record").put("topic", record.topic()).put("partition", record.partition())
                    .put("offset", record.offset()).put("value", record.value())
                    .put("deliveries", record.deliveryCount().orElse((short) 0)));
                while (record.value().startsWith("hold") && !isLeaving) {
                    LockSupport.parkNanos(50_000_000);
                }
                if (isExplicit) {
                    consumer.acknowledge(record, judged(record));
                }
            }
            if (isExplicit && !records.isEmpty()) {
                consumer.commitSync().forEach((place, problem) -> problem.ifPresent(this::problem));
                tell(event("acknowledged").put("count", records.count()));
            }
        }

        private static AcknowledgeType judged(ConsumerRecord<String, String> record) {
            boolean isFirst = record.deliveryCount().orElse((short) 1) == 1;
            if (record.value().startsWith("reject")) {
                return AcknowledgeType.REJECT;
            }
            boolean isReleased = record.value().startsWith("release") && isFirst || record.value().startsWith("again");
            return isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
        }
    }
}
