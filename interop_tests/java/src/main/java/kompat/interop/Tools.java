package kompat.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command line tools, each run through its own main method inside this JVM, with its output and exit code kept. */
final class Tools {
    static final Map<String, Host.Verb> VERBS = Map.of("tool", Tools::run);

    /** Stands for the end of the process that a tool asked for. */
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    private Tools() {
    }

    private static ObjectNode run(JsonNode request) throws Exception {
        List<String> args = new ArrayList<>();
        request.get("args").forEach(arg -> args.add(arg.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        InputStream oldIn = System.in;
        // A tool may catch the exception that stands for exit, or end twice: the first status is the one that counts.
        Integer[] status = new Integer[1];
        Exit.Procedure end = (code, message) -> {
            status[0] = status[0] == null ? code : status[0];
            throw new Ended(code);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(request.get("class").asText()).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            if (status[0] == null) {
                thrown.getCause().printStackTrace();
                status[0] = 1;
            }
        } finally {
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        ObjectNode node = Host.JSON.createObjectNode();
        return node.put("status", status[0] == null ? 0 : status[0])
            .put("out", out.toString(StandardCharsets.UTF_8)).put("err", err.toString(StandardCharsets.UTF_8));
    }
}
