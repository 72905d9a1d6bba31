import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.Exit;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

/** Runs Kafka's own command line programs, one after the other in one JVM: a JSON line in, a JSON line out. */
public final class RunTools {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    /** A program that would have ended. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final int code;

        Ended(int code, String message) {
            super(message);
            this.code = code;
        }
    }

    private static Ended first;

    private RunTools() {
    }

    /** Takes calls until the input ends. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        Exit.setExitProcedure((code, message) -> {
            Ended end = new Ended(code, message);
            // TopicCommand catches what is thrown here, takes it for a failure and ends once more.
            first = first == null ? end : first;
            throw end;
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(MAPPER.writeValueAsString(run(MAPPER.readTree(line))));
            out.flush();
        }
    }

    private static ObjectNode run(JsonNode call) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        int code = 0;
        String trouble = "";
        first = null;
        try {
            String[] arguments = MAPPER.convertValue(call.get("arguments"), String[].class);
            Class.forName(call.get("program").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            Throwable cause = failure.getCause();
            code = cause instanceof Ended ? first.code : 1;
            trouble = cause instanceof Ended ? String.valueOf(first.getMessage()) : spell(cause);
        } catch (ReflectiveOperationException failure) {
            code = 1;
            trouble = spell(failure);
        }
        ObjectNode answer = MAPPER.createObjectNode();
        answer.put("code", code);
        answer.put("out", said.toString(StandardCharsets.UTF_8));
        answer.put("err", complained.toString(StandardCharsets.UTF_8) + trouble);
        return answer;
    }

    private static String spell(Throwable failure) {
        StringWriter text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
