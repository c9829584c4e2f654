package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Runs client calls that arrive as JSON lines on stdin and answers each with a JSON line on stdout, so that the many
 * tests share one start of the JVM. A request names its verb in "do" and its broker in "bootstrap".
 */
public final class Host {
    static final ObjectMapper JSON = new ObjectMapper();

    /** One verb: takes the request, returns anything that Jackson can write. */
    interface Verb {
        Object run(JsonNode request) throws Exception;
    }

    private Host() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        System.exit(0);
    }

    private static ObjectNode answer(JsonNode request) {
        ObjectNode reply = JSON.createObjectNode();
        try {
            reply.set("ok", JSON.valueToTree(verb(request.get("do").asText()).run(request)));
        } catch (Throwable problem) {
            reply.set("error", problem(problem));
        }
        return reply;
    }

    private static Verb verb(String name) throws Exception {
        Verb verb = Data.VERBS.get(name);
        if (verb == null) {
            verb = AdminCalls.VERBS.get(name);
        }
        if (verb == null) {
            verb = Transactions.VERBS.get(name);
        }
        // The tools exist for the newest client only, so their class is not touched before it is asked for.
        return verb != null ? verb : Tools.VERBS.get(name);
    }

    static ObjectNode problem(Throwable problem) {
        Throwable cause = problem;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        ObjectNode node = JSON.createObjectNode();
        node.put("code", Errors.forException(cause).code());
        node.put("name", cause.getClass().getSimpleName());
        node.put("message", String.valueOf(cause.getMessage()));
        return node;
    }

    static Properties properties(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.get("bootstrap").asText());
        JsonNode config = request.get("config");
        if (config != null) {
            for (Iterator<Map.Entry<String, JsonNode>> it = config.fields(); it.hasNext();) {
                Map.Entry<String, JsonNode> entry = it.next();
                properties.put(entry.getKey(), entry.getValue().asText());
            }
        }
        return properties;
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
