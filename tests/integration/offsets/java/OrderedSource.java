package seamark.test;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source that counts to a limit, and keeps the fields of its partition in an order of its own.
 *
 * A LinkedHashMap gives them back as they were put in; Connect's REST API gives them back as a HashMap does. So the task
 * and REST spell the key of the same position in two ways.
 */
public final class OrderedSource extends SourceConnector {
    private Map<String, String> properties;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the numbers go.")
            .define("limit", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "The last number.");
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(properties);
    }

    @Override
    public void stop() {
        // Nothing is held here.
    }

    /** Counts on from where the last one ended. */
    public static final class Counter extends SourceTask {
        private final CountDownLatch stopped = new CountDownLatch(1);
        private final Map<String, Object> partition = new LinkedHashMap<>();
        private String topic;
        private long limit;
        private long count;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> given) {
            topic = given.get("topic");
            limit = Long.parseLong(given.get("limit"));
            partition.put("topic", topic);
            partition.put("shard", 1);
            partition.put("area", "north");
            Map<String, Object> held = context.offsetStorageReader().offset(partition);
            count = held == null ? 0 : ((Number) held.get("count")).longValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (stopped.await(50, TimeUnit.MILLISECONDS)) {
                return null;
            }
            List<SourceRecord> records = new ArrayList<>();
            while (count < limit) {
                count++;
                records.add(new SourceRecord(partition, Map.of("count", count), topic, Schema.INT64_SCHEMA, count));
            }
            return records.isEmpty() ? null : records;
        }

        @Override
        public void stop() {
            stopped.countDown();
        }
    }
}
