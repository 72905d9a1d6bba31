package example.counter;

import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;

/** What the connector can be told. Connect checks a config against this before anything is started. */
public final class CounterConfig extends AbstractConfig {
    public static final String TOPIC = "topic";
    public static final String BATCH_SIZE = "batch.size";
    public static final String INTERVAL_MS = "interval.ms";
    public static final String LIMIT = "limit";

    public static final ConfigDef DEFINITION = new ConfigDef()
        .define(TOPIC, Type.STRING, ConfigDef.NO_DEFAULT_VALUE, new ConfigDef.NonEmptyString(), Importance.HIGH,
            "The topic that the numbers go to.")
        .define(BATCH_SIZE, Type.INT, 10, Range.between(1, 10_000), Importance.MEDIUM,
            "How many records one poll gives.")
        .define(INTERVAL_MS, Type.LONG, 1_000L, Range.between(0, 3_600_000), Importance.MEDIUM,
            "The time between two polls.")
        .define(LIMIT, Type.LONG, Long.MAX_VALUE, Range.between(0, Long.MAX_VALUE), Importance.LOW,
            "The last number. Then the task has nothing more to do.");

    public CounterConfig(Map<String, String> properties) {
        super(DEFINITION, properties);
    }
}
