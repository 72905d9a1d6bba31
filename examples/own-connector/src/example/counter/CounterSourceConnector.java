package example.counter;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** A source that counts: 1, 2, 3 … Its position is the last number that it has sent. */
public final class CounterSourceConnector extends SourceConnector {
    static final String VERSION = "1.0.0";

    private Map<String, String> properties;

    @Override
    public String version() {
        return VERSION;
    }

    @Override
    public ConfigDef config() {
        return CounterConfig.DEFINITION;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return CounterSourceTask.class;
    }

    @Override
    public void start(Map<String, String> given) {
        // A config that can't be used fails here, and not in the task.
        new CounterConfig(given);
        properties = Map.copyOf(given);
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        // One counter can't be counted by two: however many tasks are allowed, there is one.
        return List.of(properties);
    }

    @Override
    public void stop() {
        // Nothing is held here.
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        // The position goes into the same transaction as the records, and nothing else is remembered.
        return ExactlyOnceSupport.SUPPORTED;
    }

    /** Connect asks this before it changes offsets (from 3.6 on); what the task could not read is refused here. */
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        Map<String, String> known = CounterSourceTask.partitionOf(new CounterConfig(config));
        offsets.forEach((partition, offset) -> {
            // A null offset forgets a partition, and that is always fine.
            if (offset == null) {
                return;
            }
            if (!known.equals(partition)) {
                throw new ConnectException("the partition of this counter is " + known + ", not " + partition);
            }
            Object count = offset.get(CounterSourceTask.COUNT);
            if (!(count instanceof Number) || ((Number) count).longValue() < 0 || offset.size() != 1) {
                throw new ConnectException("an offset is {\"count\": N} with N >= 0, not " + offset);
            }
        });
        return true;
    }
}
