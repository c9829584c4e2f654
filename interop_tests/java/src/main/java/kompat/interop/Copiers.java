package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Members that copy what they read to another topic, in transactions; some of them they abort and do again. */
public final class Copiers {
    private static final int ABORT_EVERY = 5;

    private Copiers() {
    }

    public static void main(String[] args) throws Exception {
        Members.serve(Copier::new);
    }

    private static final class Copier extends Members.Member {
        private KafkaProducer<String, String> producer;
        private KafkaConsumer<String, String> consumer;
        private int number;

        Copier(String name, JsonNode order) {
            super(name, order);
        }

        /** Starts again after an error that ends the producer, as whoever runs such a program does. */
        @Override
        void live() {
            while (!isLeaving) {
                try {
                    liveOnce();
                } catch (KafkaException problem) {
                    problem(problem);
                }
            }
        }

        private void liveOnce() {
            Properties reading = consumerProperties();
            String output = (String) reading.remove("copy.output");
            reading.put("isolation.level", "read_committed");
            reading.put("max.poll.records", "25");
            Properties writing = new Properties();
            writing.put("bootstrap.servers", order.get("bootstrap").asText());
            writing.put("transactional.id", reading.remove("copy.transactional.id"));
            writing.put("transaction.timeout.ms", "60000");
            writing.put("reconnect.backoff.max.ms", "500");
            try (var openedProducer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
                 var openedConsumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
                producer = openedProducer;
                consumer = openedConsumer;
                producer.initTransactions();
                consumer.subscribe(topics());
                while (!isLeaving) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    tellAssignment(consumer.assignment());
                    if (!records.isEmpty()) {
                        copy(records, output);
                    }
                }
            }
        }

        private void copy(ConsumerRecords<String, String> records, String output) {
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.partition(), null, record.value()));
                    done.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                if (++number % ABORT_EVERY == 0) {
                    producer.flush();
                    giveUp();
                    return;
                }
                producer.sendOffsetsToTransaction(done, consumer.groupMetadata());
                producer.commitTransaction();
                tellCommitted(done);
            } catch (ApplicationRecoverableException fatal) {
                throw fatal;
            } catch (KafkaException problem) {
                problem(problem);
                giveUp();
            }
        }

        /** Abort, and read again from where the last transaction ended. */
        private void giveUp() {
            producer.abortTransaction();
            Set<TopicPartition> owned = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(owned);
            for (TopicPartition place : owned) {
                OffsetAndMetadata last = committed.get(place);
                if (last == null) {
                    consumer.seekToBeginning(List.of(place));
                } else {
                    consumer.seek(place, last.offset());
                }
            }
        }
    }
}
