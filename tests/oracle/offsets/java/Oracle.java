import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetStorageReaderImpl;
import org.apache.kafka.connect.storage.OffsetStorageWriter;
import org.apache.kafka.connect.storage.OffsetUtils;
import org.apache.kafka.connect.util.SafeObjectInputStream;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Answers questions about bytes with Connect's own classes: one JSON line in, one JSON line out. */
public final class Oracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final JsonConverter KEYS = converter(true);
    private static final JsonConverter VALUES = converter(false);

    private Oracle() {
    }

    /** Reads questions until the input ends. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ArrayNode answers = MAPPER.createArrayNode();
            for (JsonNode question : MAPPER.readTree(line)) {
                answers.add(tryAnswer(question));
            }
            // ASCII only: a lone surrogate must survive the way back.
            out.println(ascii(MAPPER.writeValueAsString(answers)));
            out.flush();
        }
    }

    private static JsonConverter converter(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }

    private static ObjectNode tryAnswer(JsonNode question) {
        ObjectNode answer = MAPPER.createObjectNode();
        try {
            answer(question, answer);
        } catch (Exception | StackOverflowError failure) {
            answer.removeAll();
            answer.put("error", failure.getClass().getSimpleName() + ": " + failure.getMessage());
        }
        return answer;
    }

    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        switch (question.get("ask").textValue()) {
            case "write" -> write(question, answer);
            case "read" -> read(question, answer);
            case "worker" -> worker(question, answer);
            case "hashmap" -> hashMap(question, answer);
            case "double" -> answer.put("text", Double.toString(Double.longBitsToDouble(Long.parseUnsignedLong(question.get("bits").textValue(), 16))));
            case "murmur2" -> murmur2(question, answer);
            case "write-map" -> writeMap(question, answer);
            case "read-map" -> readMap(question, answer);
            default -> throw new IllegalArgumentException("no such question");
        }
    }

    private static void read(JsonNode question, ObjectNode answer) {
        Object value = KEYS.toConnectData("", bytes(question.get("bytes"))).value();
        if (isDeep(value, 100)) {
            answer.put("deep", true);
        } else {
            answer.set("value", tagged(value));
        }
    }

    private static boolean isDeep(Object value, int left) {
        if (value instanceof List<?> list) {
            return left == 0 || list.stream().anyMatch(item -> isDeep(item, left - 1));
        } else if (value instanceof Map<?, ?> map) {
            return left == 0 || map.values().stream().anyMatch(item -> isDeep(item, left - 1));
        }
        return false;
    }

    /** What OffsetStorageWriter hands to its store for one partition and its offset. */
    private static void write(JsonNode question, ObjectNode answer) throws Exception {
        Map<ByteBuffer, ByteBuffer> written = new HashMap<>();
        MemoryOffsetBackingStore store = new Memory() {
            @Override
            public java.util.concurrent.Future<Void> set(Map<ByteBuffer, ByteBuffer> values, org.apache.kafka.connect.util.Callback<Void> callback) {
                written.putAll(values);
                callback.onCompletion(null, null);
                return null;
            }
        };
        boolean asHashMap = question.get("hashmap").booleanValue();
        OffsetStorageWriter writer = new OffsetStorageWriter(store, text(question.get("connector")), KEYS, VALUES);
        writer.offset(map(question.get("partition"), asHashMap), map(question.get("offset"), asHashMap));
        writer.beginFlush();
        Throwable[] failure = new Throwable[1];
        writer.doFlush((error, nothing) -> failure[0] = error);
        if (failure[0] != null) {
            answer.put("error", failure[0].getClass().getSimpleName() + ": " + failure[0].getMessage());
            return;
        }
        Map.Entry<ByteBuffer, ByteBuffer> entry = written.entrySet().iterator().next();
        answer.put("key", hex(entry.getKey()));
        answer.put("value", hex(entry.getValue()));
    }

    /** What a worker that reads one record lists for its connectors, and what a task with that map is given. */
    private static void worker(JsonNode question, ObjectNode answer) throws Exception {
        Map<String, Set<Map<String, Object>>> index = new HashMap<>();
        Memory store = new Memory();
        for (JsonNode record : question.get("records")) {
            byte[] key = bytes(record.get(0));
            byte[] value = bytes(record.get(1));
            OffsetUtils.processPartitionKey(key, value, KEYS, index);
            ByteBuffer buffer = key == null ? null : ByteBuffer.wrap(key);
            if (value == null) {
                store.remove(buffer);
            } else {
                store.put(buffer, ByteBuffer.wrap(value));
            }
        }
        ObjectNode listed = answer.putObject("listed");
        store.start();
        for (Map.Entry<String, Set<Map<String, Object>>> connector : index.entrySet()) {
            ArrayNode offsets = listed.putArray(connector.getKey());
            OffsetStorageReaderImpl reader = new OffsetStorageReaderImpl(store, connector.getKey(), KEYS, VALUES);
            reader.offsets((Collection<Map<String, Object>>) connector.getValue()).forEach((partition, offset) -> offsets.add(
                MAPPER.createArrayNode().add(tagged(partition)).add(tagged(offset))));
        }
        store.stop();
    }

    private static void hashMap(JsonNode question, ObjectNode answer) {
        Map<String, Boolean> map = new HashMap<>();
        for (JsonNode name : question.get("names")) {
            map.put(name.textValue(), true);
        }
        ArrayNode order = answer.putArray("order");
        map.keySet().forEach(order::add);
    }

    private static void murmur2(JsonNode question, ObjectNode answer) {
        byte[] key = bytes(question.get("bytes"));
        answer.put("hash", Utils.murmur2(key));
        answer.put("partition", BuiltInPartitioner.partitionForKey(key, question.get("partitions").intValue()));
    }

    private static void writeMap(JsonNode question, ObjectNode answer) throws IOException {
        HashMap<byte[], byte[]> map = new HashMap<>();
        for (JsonNode entry : question.get("entries")) {
            map.put(bytes(entry.get(0)), bytes(entry.get(1)));
        }
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(file)) {
            out.writeObject(map);
        }
        answer.put("file", HEX.formatHex(file.toByteArray()));
        entries(map, answer);
    }

    private static void readMap(JsonNode question, ObjectNode answer) throws Exception {
        try (SafeObjectInputStream in = new SafeObjectInputStream(new ByteArrayInputStream(bytes(question.get("file"))))) {
            Object found = in.readObject();
            if (!(found instanceof HashMap)) {
                throw new IOException("Expected HashMap but found " + found.getClass());
            }
            @SuppressWarnings("unchecked")
            HashMap<byte[], byte[]> map = (HashMap<byte[], byte[]>) found;
            entries(map, answer);
        }
    }

    private static void entries(HashMap<byte[], byte[]> map, ObjectNode answer) {
        ArrayNode entries = answer.putArray("entries");
        map.forEach((key, value) -> entries.add(MAPPER.createArrayNode()
            .add(key == null ? null : HEX.formatHex(key))
            .add(value == null ? null : HEX.formatHex(value))));
    }

    private static byte[] bytes(JsonNode node) {
        // A copy: all empty arrays of HexFormat are the same object, and Java would write references to it.
        return node.isNull() ? null : HEX.parseHex(node.textValue()).clone();
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? null : HEX.formatHex(buffer.array());
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.textValue();
    }

    /** A map from a list of [name, tag, value]. */
    private static Map<String, Object> map(JsonNode fields, boolean asHashMap) {
        if (fields.isNull()) {
            return null;
        }
        Map<String, Object> map = asHashMap ? new HashMap<>() : new LinkedHashMap<>();
        for (JsonNode field : fields) {
            map.put(field.get(0).textValue(), plain(field.get(1).textValue(), field.get(2)));
        }
        return map;
    }

    private static Object plain(String tag, JsonNode value) {
        return switch (tag) {
            case "null" -> null;
            case "text" -> value.textValue();
            case "bool" -> value.booleanValue();
            case "int" -> value.intValue();
            case "long" -> Long.parseLong(value.textValue());
            case "big" -> new java.math.BigInteger(value.textValue());
            case "double" -> Double.longBitsToDouble(Long.parseUnsignedLong(value.textValue(), 16));
            case "bytes" -> HEX.parseHex(value.textValue());
            case "list" -> List.of(value.textValue());
            case "map" -> Map.of(value.textValue(), value.textValue());
            default -> throw new IllegalArgumentException("no such tag");
        };
    }

    /** The same value with its Java type: [tag, value]. */
    private static JsonNode tagged(Object value) {
        ArrayNode node = MAPPER.createArrayNode();
        if (value == null) {
            return node.add("null").addNull();
        } else if (value instanceof String text) {
            return node.add("text").add(text);
        } else if (value instanceof Boolean bool) {
            return node.add("bool").add(bool);
        } else if (value instanceof Long number) {
            return node.add("long").add(number.toString());
        } else if (value instanceof Double number) {
            return node.add("double").add(String.format("%016x", Double.doubleToRawLongBits(number)));
        } else if (value instanceof List<?> list) {
            ArrayNode items = MAPPER.createArrayNode();
            list.forEach(item -> items.add(tagged(item)));
            return node.add("list").add(items);
        } else if (value instanceof Map<?, ?> map) {
            ArrayNode fields = MAPPER.createArrayNode();
            map.forEach((name, item) -> fields.add(MAPPER.createArrayNode().add((String) name).add(tagged(item))));
            return node.add("map").add(fields);
        }
        throw new IllegalArgumentException("no such type: " + value.getClass());
    }

    private static String ascii(String text) {
        StringBuilder plain = new StringBuilder(text.length());
        for (char unit : text.toCharArray()) {
            if (unit < 128) {
                plain.append(unit);
            } else {
                plain.append(String.format("\\u%04x", (int) unit));
            }
        }
        return plain.toString();
    }

    /** The memory of a standalone worker, which a question may fill. */
    private static class Memory extends MemoryOffsetBackingStore {
        void put(ByteBuffer key, ByteBuffer value) {
            data.put(key, value);
        }

        void remove(ByteBuffer key) {
            data.remove(key);
        }

        @Override
        public Set<Map<String, Object>> connectorPartitions(String connectorName) {
            return Collections.emptySet();
        }
    }
}
