package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Hosts consumer group members: takes orders (join, leave) as JSON lines on stdin and tells what happens to each member
 * as JSON lines on stdout. A member commits each batch before it asks for the next.
 */
public final class Members {
    private static PrintStream events;

    private Members() {
    }

    public static void main(String[] args) throws Exception {
        serve(Reader::new);
    }

    /** Gives each member that is ordered a thread, until stdin ends; then lets all leave. */
    static void serve(BiFunction<String, JsonNode, Member> kind) throws Exception {
        events = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<String, Member> members = new HashMap<>();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = Host.JSON.readTree(line);
            String name = order.get("member").asText();
            if (order.get("do").asText().equals("leave")) {
                members.get(name).isLeaving = true;
            } else {
                Member member = kind.apply(name, order);
                members.put(name, member);
                member.start();
            }
        }
        for (Member member : members.values()) {
            member.isLeaving = true;
        }
        for (Member member : members.values()) {
            member.join();
        }
        System.exit(0);
    }

    /** One member: its life in a thread, and its voice. */
    abstract static class Member extends Thread {
        volatile boolean isLeaving;
        final JsonNode order;
        private Set<String> assignment;

        Member(String name, JsonNode order) {
            super(name);
            this.order = order;
        }

        /** Ends when the member is to leave, or cannot go on. */
        abstract void live();

        @Override
        public void run() {
            try {
                live();
            } catch (Exception problem) {
                problem(problem);
            }
            tell(event("left"));
        }

        Properties consumerProperties() {
            Properties properties = Host.properties(order);
            properties.putIfAbsent("auto.offset.reset", "earliest");
            properties.putIfAbsent("enable.auto.commit", "false");
            properties.putIfAbsent("fetch.max.wait.ms", "100");
            properties.putIfAbsent("group.id", order.get("group").asText());
            properties.putIfAbsent("reconnect.backoff.max.ms", "500");
            return properties;
        }

        List<String> topics() {
            List<String> topics = new ArrayList<>();
            order.get("topics").forEach(topic -> topics.add(topic.asText()));
            return topics;
        }

        void tellAssignment(Set<TopicPartition> places) {
            Set<String> now = new TreeSet<>();
            places.forEach(place -> now.add(place.toString()));
            if (!now.equals(assignment)) {
                assignment = now;
                tell(withPlaces(event("assignment"), places));
            }
        }

        void tellCommitted(Map<TopicPartition, OffsetAndMetadata> offsets) {
            ObjectNode event = event("committed");
            ArrayNode list = event.putArray("offsets");
            offsets.forEach((place, offset) -> list.addArray().add(place.topic()).add(place.partition()).add(offset.offset()));
            tell(event);
        }

        void problem(Exception problem) {
            tell(event("problem").put("text", problem.getClass().getSimpleName() + ": " + problem.getMessage()));
        }

        ObjectNode event(String kind) {
            // The clock that Python's time.monotonic() reads, so that times of all processes compare.
            return Host.JSON.createObjectNode().put("member", getName()).put("event", kind).put("at", System.nanoTime() / 1e9);
        }

        static ObjectNode withPlaces(ObjectNode event, Collection<TopicPartition> places) {
            ArrayNode list = event.putArray("places");
            places.forEach(place -> list.addArray().add(place.topic()).add(place.partition()));
            return event;
        }

        static void tell(ObjectNode event) {
            events.println(event);
        }
    }

    /** Reads, and commits each batch before it asks for the next. */
    private static final class Reader extends Member implements ConsumerRebalanceListener {
        private final Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        private KafkaConsumer<String, String> consumer;

        Reader(String name, JsonNode order) {
            super(name, order);
        }

        @Override
        void live() {
            Properties properties = consumerProperties();
            try (var opened = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                consumer = opened;
                subscribe(properties);
                while (!isLeaving) {
                    step();
                }
            }
        }

        private void subscribe(Properties properties) {
            JsonNode pattern = order.get("pattern");
            if (pattern.isNull()) {
                consumer.subscribe(topics(), this);
            } else if ("consumer".equals(properties.get("group.protocol"))) {
                consumer.subscribe(new SubscriptionPattern(pattern.asText()), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern.asText()), this);
            }
        }

        private void step() {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            tellAssignment(consumer.assignment());
            for (ConsumerRecord<String, String> record : records) {
                tell(event("record").put("topic", record.topic()).put("partition", record.partition())
                    .put("offset", record.offset()).put("value", record.value()));
                done.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            commit(Map.copyOf(done));
        }

        /** What cannot be committed now, as in the middle of a rebalance, is tried again. */
        private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            if (offsets.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(offsets);
            } catch (KafkaException problem) {
                problem(problem);
                return;
            }
            tellCommitted(offsets);
            done.keySet().removeAll(offsets.keySet());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            tell(withPlaces(event("revoked"), places));
            Map<TopicPartition, OffsetAndMetadata> last = new HashMap<>(done);
            last.keySet().retainAll(places);
            commit(last);
            done.keySet().removeAll(places);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            tell(withPlaces(event("lost"), places));
            done.keySet().removeAll(places);
        }
    }
}
