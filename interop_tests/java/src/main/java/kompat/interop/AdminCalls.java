package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** The calls of the Admin client; results come back per topic or partition, each a value or an error. */
final class AdminCalls {
    static final Map<String, Host.Verb> VERBS = new HashMap<>();

    /** A call on an Admin that is opened for it and closed after it. */
    private interface Call {
        Object run(Admin admin, JsonNode request) throws Exception;
    }

    static {
        verb("create_topics", AdminCalls::createTopics);
        verb("delete_topics", AdminCalls::deleteTopics);
        verb("describe_topics", AdminCalls::describeTopics);
        verb("list_topics", (admin, request) -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
        verb("create_partitions", AdminCalls::createPartitions);
        verb("describe_configs", AdminCalls::describeConfigs);
        verb("alter_configs", AdminCalls::alterConfigs);
        verb("delete_records", AdminCalls::deleteRecords);
        verb("list_offsets", AdminCalls::listOffsets);
        verb("describe_cluster", AdminCalls::describeCluster);
        verb("describe_log_dirs", AdminCalls::describeLogDirs);
        verb("describe_producers", AdminCalls::describeProducers);
        verb("describe_features", AdminCalls::describeFeatures);
        verb("describe_quorum", AdminCalls::describeQuorum);
        verb("elect_leaders", AdminCalls::electLeaders);
        verb("reassign", AdminCalls::reassign);
        verb("list_reassignments", AdminCalls::listReassignments);
    }

    private AdminCalls() {
    }

    private static void verb(String name, Call call) {
        VERBS.put(name, request -> {
            try (Admin admin = Admin.create(Host.properties(request))) {
                return call.run(admin, request);
            }
        });
    }

    /** Waits for each future by itself, so that one failure does not hide the others' results. */
    private static <K, V> Map<String, Object> each(Map<K, ? extends KafkaFuture<V>> futures) {
        Map<String, Object> results = new TreeMap<>();
        futures.forEach((key, future) -> {
            try {
                V value = future.get();
                results.put(key.toString(), value == null ? true : value);
            } catch (Exception problem) {
                results.put(key.toString(), Map.of("error", Host.problem(problem)));
            }
        });
        return results;
    }

    private static List<String> strings(JsonNode node) {
        List<String> values = new ArrayList<>();
        node.forEach(value -> values.add(value.asText()));
        return values;
    }

    private static List<Integer> integers(JsonNode node) {
        List<Integer> values = new ArrayList<>();
        node.forEach(value -> values.add(value.asInt()));
        return values;
    }

    private static Map<String, Object> createTopics(Admin admin, JsonNode request) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (JsonNode wanted : request.get("topics")) {
            NewTopic topic = newTopic(wanted);
            if (wanted.has("configs")) {
                Map<String, String> configs = new HashMap<>();
                wanted.get("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
                topic.configs(configs);
            }
            topics.add(topic);
        }
        CreateTopicsResult result = admin.createTopics(topics, new CreateTopicsOptions().validateOnly(request.path("validate_only").asBoolean()));
        Map<String, Object> answers = each(result.values());
        for (Map.Entry<String, Object> answer : answers.entrySet()) {
            if (Boolean.TRUE.equals(answer.getValue())) {
                Map<String, Object> created = new LinkedHashMap<>();
                created.put("partitions", result.numPartitions(answer.getKey()).get());
                created.put("replication", result.replicationFactor(answer.getKey()).get());
                created.put("id", result.topicId(answer.getKey()).get().toString());
                created.put("configs", result.config(answer.getKey()).get().entries().size());
                answer.setValue(created);
            }
        }
        return answers;
    }

    private static NewTopic newTopic(JsonNode wanted) {
        String name = wanted.get("name").asText();
        if (wanted.has("assignment")) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            wanted.get("assignment").fields().forEachRemaining(entry -> assignment.put(Integer.valueOf(entry.getKey()), integers(entry.getValue())));
            return new NewTopic(name, assignment);
        }
        Optional<Integer> partitions = wanted.has("partitions") ? Optional.of(wanted.get("partitions").asInt()) : Optional.empty();
        Optional<Short> replication = wanted.has("replication") ? Optional.of((short) wanted.get("replication").asInt()) : Optional.empty();
        return new NewTopic(name, partitions, replication);
    }

    private static Map<String, Object> deleteTopics(Admin admin, JsonNode request) {
        if (request.has("ids")) {
            Set<Uuid> ids = new HashSet<>();
            strings(request.get("ids")).forEach(id -> ids.add(Uuid.fromString(id)));
            return each(admin.deleteTopics(TopicCollection.ofTopicIds(ids)).topicIdValues());
        }
        return each(admin.deleteTopics(TopicCollection.ofTopicNames(strings(request.get("names")))).topicNameValues());
    }

    private static Map<String, Object> describeTopics(Admin admin, JsonNode request) {
        Map<String, Object> found;
        if (request.has("ids")) {
            Set<Uuid> ids = new HashSet<>();
            strings(request.get("ids")).forEach(id -> ids.add(Uuid.fromString(id)));
            found = each(admin.describeTopics(TopicCollection.ofTopicIds(ids)).topicIdValues());
        } else {
            found = each(admin.describeTopics(TopicCollection.ofTopicNames(strings(request.get("names")))).topicNameValues());
        }
        found.replaceAll((name, value) -> value instanceof TopicDescription ? described((TopicDescription) value) : value);
        return found;
    }

    private static Map<String, Object> described(TopicDescription topic) {
        List<Map<String, Object>> partitions = new ArrayList<>();
        for (TopicPartitionInfo info : topic.partitions()) {
            partitions.add(Map.of("partition", info.partition(), "leader", info.leader().id(),
                "replicas", ids(info.replicas()), "isr", ids(info.isr())));
        }
        return Map.of("name", topic.name(), "id", topic.topicId().toString(), "internal", topic.isInternal(), "partitions", partitions);
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    private static Map<String, Object> createPartitions(Admin admin, JsonNode request) {
        int count = request.get("count").asInt();
        NewPartitions wanted = NewPartitions.increaseTo(count);
        if (request.has("assignments")) {
            List<List<Integer>> assignments = new ArrayList<>();
            request.get("assignments").forEach(replicas -> assignments.add(integers(replicas)));
            wanted = NewPartitions.increaseTo(count, assignments);
        }
        CreatePartitionsOptions options = new CreatePartitionsOptions().validateOnly(request.path("validate_only").asBoolean());
        return each(admin.createPartitions(Map.of(request.get("topic").asText(), wanted), options).values());
    }

    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(ConfigResource.Type.valueOf(request.get("type").asText()), request.get("name").asText());
    }

    private static Map<String, Object> describeConfigs(Admin admin, JsonNode request) throws Exception {
        ConfigResource resource = resource(request);
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Config config = admin.describeConfigs(List.of(resource), options).values().get(resource).get();
        Map<String, Object> entries = new TreeMap<>();
        for (ConfigEntry entry : config.entries()) {
            Map<String, Object> node = new LinkedHashMap<>();
            node.put("value", entry.value());
            node.put("source", entry.source().name());
            node.put("type", entry.type().name());
            node.put("read_only", entry.isReadOnly());
            node.put("sensitive", entry.isSensitive());
            node.put("documented", entry.documentation() != null && !entry.documentation().isEmpty());
            List<String> synonyms = new ArrayList<>();
            entry.synonyms().forEach(synonym -> synonyms.add(synonym.source() + ":" + synonym.name() + "=" + synonym.value()));
            node.put("synonyms", synonyms);
            entries.put(entry.name(), node);
        }
        return entries;
    }

    private static Map<String, Object> alterConfigs(Admin admin, JsonNode request) {
        List<AlterConfigOp> ops = new ArrayList<>();
        for (JsonNode op : request.get("ops")) {
            String value = op.get(2).isNull() ? null : op.get(2).asText();
            ops.add(new AlterConfigOp(new ConfigEntry(op.get(1).asText(), value), AlterConfigOp.OpType.valueOf(op.get(0).asText())));
        }
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(request.path("validate_only").asBoolean());
        return each(admin.incrementalAlterConfigs(Map.of(resource(request), ops), options).values());
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private static Map<String, Object> deleteRecords(Admin admin, JsonNode request) {
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        Map<String, Object> results = each(admin.deleteRecords(Map.of(partition(request), before)).lowWatermarks());
        results.replaceAll((key, value) -> value instanceof Map ? value : ((org.apache.kafka.clients.admin.DeletedRecords) value).lowWatermark());
        return results;
    }

    private static Map<String, Object> listOffsets(Admin admin, JsonNode request) throws Exception {
        Map<String, OffsetSpec> specs = Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "max_timestamp", OffsetSpec.maxTimestamp());
        String wanted = request.get("spec").asText();
        OffsetSpec spec = specs.containsKey(wanted) ? specs.get(wanted) : OffsetSpec.forTimestamp(Long.parseLong(wanted));
        var found = admin.listOffsets(Map.of(partition(request), spec)).partitionResult(partition(request)).get();
        return Map.of("offset", found.offset(), "timestamp", found.timestamp());
    }

    private static Map<String, Object> describeCluster(Admin admin, JsonNode request) throws Exception {
        var cluster = admin.describeCluster();
        List<String> nodes = new ArrayList<>();
        cluster.nodes().get().forEach(node -> nodes.add(node.id() + "@" + node.host() + ":" + node.port()));
        return Map.of("id", cluster.clusterId().get(), "controller", cluster.controller().get().id(), "nodes", nodes);
    }

    private static List<Map<String, Object>> describeLogDirs(Admin admin, JsonNode request) throws Exception {
        List<Map<String, Object>> replicas = new ArrayList<>();
        int broker = request.get("broker").asInt();
        admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).forEach((path, dir) ->
            dir.replicaInfos().forEach((partition, info) -> {
                if (partition.topic().equals(request.get("topic").asText())) {
                    replicas.add(Map.of("partition", partition.partition(), "size", info.size(), "lag", info.offsetLag(), "dir", path));
                }
            }));
        return replicas;
    }

    private static List<Map<String, Object>> describeProducers(Admin admin, JsonNode request) throws Exception {
        List<Map<String, Object>> producers = new ArrayList<>();
        admin.describeProducers(List.of(partition(request))).partitionResult(partition(request)).get().activeProducers().forEach(state ->
            producers.add(Map.of("id", state.producerId(), "epoch", state.producerEpoch(), "sequence", state.lastSequence())));
        return producers;
    }

    private static Map<String, Object> describeFeatures(Admin admin, JsonNode request) throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        Map<String, Object> finalized = new TreeMap<>();
        features.finalizedFeatures().forEach((name, range) -> finalized.put(name, range.maxVersionLevel()));
        return finalized;
    }

    private static Map<String, Object> describeQuorum(Admin admin, JsonNode request) throws Exception {
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        List<Integer> voters = new ArrayList<>();
        quorum.voters().forEach(voter -> voters.add(voter.replicaId()));
        return Map.of("leader", quorum.leaderId(), "epoch", quorum.leaderEpoch(), "high_watermark", quorum.highWatermark(), "voters", voters);
    }

    private static Map<String, Object> electLeaders(Admin admin, JsonNode request) throws Exception {
        Map<String, Object> results = new TreeMap<>();
        admin.electLeaders(ElectionType.valueOf(request.get("election").asText()), Set.of(partition(request))).partitions().get()
            .forEach((partition, problem) -> results.put(partition.toString(), problem.isEmpty() ? true : Host.problem(problem.get())));
        return results;
    }

    private static Map<String, Object> reassign(Admin admin, JsonNode request) {
        Optional<NewPartitionReassignment> target = request.get("replicas").isNull()
            ? Optional.empty() : Optional.of(new NewPartitionReassignment(integers(request.get("replicas"))));
        return each(admin.alterPartitionReassignments(Map.of(partition(request), target)).values());
    }

    private static Set<String> listReassignments(Admin admin, JsonNode request) throws Exception {
        Set<String> partitions = new HashSet<>();
        admin.listPartitionReassignments().reassignments().get().keySet().forEach(partition -> partitions.add(partition.toString()));
        return partitions;
    }
}
