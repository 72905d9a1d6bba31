package example.counter;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Counts on from where the last one ended. */
public final class CounterSourceTask extends SourceTask {
    static final String COUNT = "count";
    private static final long IDLE_MS = 1_000;

    // Connect calls stop() from another thread while poll() may be waiting.
    private final CountDownLatch stopped = new CountDownLatch(1);
    private CounterConfig config;
    private Map<String, String> partition;
    private long count;

    /** The key of the position. It must not change from one version to the next, or the position is lost. */
    static Map<String, String> partitionOf(CounterConfig config) {
        return Map.of("counter", config.getString(CounterConfig.TOPIC));
    }

    @Override
    public String version() {
        return CounterSourceConnector.VERSION;
    }

    @Override
    public void start(Map<String, String> properties) {
        config = new CounterConfig(properties);
        partition = partitionOf(config);
        Map<String, Object> held = context.offsetStorageReader().offset(partition);
        // JSON gives small numbers back as Integer or Long.
        count = held == null ? 0 : ((Number) held.get(COUNT)).longValue();
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        long limit = config.getLong(CounterConfig.LIMIT);
        long pause = config.getLong(CounterConfig.INTERVAL_MS);
        // Connect polls again at once: a task that is done must wait by itself, or it burns a core.
        if (stopped.await(count < limit ? pause : Math.max(pause, IDLE_MS), TimeUnit.MILLISECONDS)) {
            return null;
        }
        String topic = config.getString(CounterConfig.TOPIC);
        long last = Math.min(count + config.getInt(CounterConfig.BATCH_SIZE), limit);
        List<SourceRecord> records = new ArrayList<>();
        while (count < last) {
            count++;
            // The offset of a record says where to go on after it.
            records.add(new SourceRecord(partition, Map.of(COUNT, count), topic, Schema.INT64_SCHEMA, count));
        }
        return records.isEmpty() ? null : records;
    }

    @Override
    public void stop() {
        stopped.countDown();
    }
}
