package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producing in transactions, and what the Admin client says and does about them. */
final class Transactions {
    static final Map<String, Host.Verb> VERBS = Map.of(
        "transact", Transactions::transact, "fence", Transactions::fence,
        "list_transactions", Transactions::list, "describe_transaction", Transactions::describe,
        "describe_transactional_producers", Transactions::producers,
        "fence_producer", Transactions::fenceProducer, "abort_transaction", Transactions::abort);

    private Transactions() {
    }

    private static KafkaProducer<String, String> producer(JsonNode request) {
        Properties properties = Host.properties(request);
        properties.put("transactional.id", request.get("transactional_id").asText());
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    /** Runs transactions, each with its values and its end. */
    private static boolean transact(JsonNode request) {
        try (KafkaProducer<String, String> producer = producer(request)) {
            for (JsonNode transaction : request.get("transactions")) {
                producer.beginTransaction();
                transaction.get("values").forEach(value -> producer.send(new ProducerRecord<>(request.get("topic").asText(), 0, null, value.asText())));
                producer.flush();
                if (transaction.get("commit").asBoolean()) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return true;
    }

    /** Two producers with one transactional id: what the older one is told when it goes on. */
    private static List<String> fence(JsonNode request) {
        String topic = request.get("topic").asText();
        List<String> told = new ArrayList<>();
        try (KafkaProducer<String, String> older = producer(request)) {
            older.beginTransaction();
            older.send(new ProducerRecord<>(topic, 0, null, "older"));
            older.flush();
            try (KafkaProducer<String, String> newer = producer(request)) {
                newer.beginTransaction();
                newer.send(new ProducerRecord<>(topic, 0, null, "newer"));
                try {
                    older.commitTransaction();
                } catch (KafkaException problem) {
                    told.add(problem.getClass().getSimpleName());
                }
                newer.commitTransaction();
            }
            try {
                older.beginTransaction();
            } catch (KafkaException problem) {
                told.add(problem.getClass().getSimpleName());
            }
        }
        return told;
    }

    private static Map<String, String> list(JsonNode request) throws Exception {
        ListTransactionsOptions options = new ListTransactionsOptions();
        if (request.has("states")) {
            List<TransactionState> states = new ArrayList<>();
            request.get("states").forEach(state -> states.add(TransactionState.parse(state.asText())));
            options.filterStates(states);
        }
        if (request.has("pattern")) {
            options.filterOnTransactionalIdPattern(request.get("pattern").asText());
        }
        Map<String, String> found = new TreeMap<>();
        try (Admin admin = Admin.create(Host.properties(request))) {
            admin.listTransactions(options).all().get().forEach(listed -> found.put(listed.transactionalId(), listed.state().toString()));
        }
        return found;
    }

    private static Map<String, Object> describe(JsonNode request) throws Exception {
        String id = request.get("transactional_id").asText();
        try (Admin admin = Admin.create(Host.properties(request))) {
            TransactionDescription found = admin.describeTransactions(List.of(id)).description(id).get();
            TreeSet<String> partitions = new TreeSet<>();
            found.topicPartitions().forEach(place -> partitions.add(place.toString()));
            return Map.of("state", found.state().toString(), "producer_id", found.producerId(), "epoch", found.producerEpoch(),
                "timeout_ms", found.transactionTimeoutMs(), "has_start", found.transactionStartTimeMs().isPresent(), "partitions", partitions);
        }
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.path("partition").asInt());
    }

    private static List<Map<String, Object>> producers(JsonNode request) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        try (Admin admin = Admin.create(Host.properties(request))) {
            for (ProducerState state : admin.describeProducers(List.of(partition(request))).partitionResult(partition(request)).get().activeProducers()) {
                found.add(Map.of("id", state.producerId(), "epoch", state.producerEpoch(), "sequence", state.lastSequence(),
                    "coordinator_epoch", state.coordinatorEpoch().orElse(-1), "start", state.currentTransactionStartOffset().orElse(-1)));
            }
        }
        return found;
    }

    private static boolean fenceProducer(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Host.properties(request))) {
            admin.fenceProducers(List.of(request.get("transactional_id").asText())).all().get();
            return true;
        }
    }

    private static boolean abort(JsonNode request) throws Exception {
        AbortTransactionSpec spec = new AbortTransactionSpec(partition(request), request.get("producer_id").asLong(),
            (short) request.get("epoch").asInt(), request.get("coordinator_epoch").asInt());
        try (Admin admin = Admin.create(Host.properties(request))) {
            admin.abortTransaction(spec).all().get();
            return true;
        }
    }
}
