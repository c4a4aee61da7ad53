import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A reader with kafka-clients; see ../reader/reader.go. Usage: Reader HOST:PORT GROUP TOPIC PROTOCOL [key=value ...] */
public class Reader {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final ConcurrentLinkedQueue<String[]> commands = new ConcurrentLinkedQueue<>();
    private boolean running = true;

    private Reader(Properties settings) {
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] args) {
        Reader reader = new Reader(settings(args));
        Thread commands = new Thread(reader::listen);
        commands.setDaemon(true);
        commands.start();
        reader.run(args[2]);
    }

    private static Properties settings(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("group.protocol", args[3]);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("metadata.max.age.ms", "1000");
        for (String s : Arrays.copyOfRange(args, 4, args.length)) {
            String[] setting = s.split("=", 2);
            p.put(setting[0], setting[1]);
        }
        return p;
    }

    private void listen() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                commands.add(line.split(" "));
            }
        } catch (IOException e) {
            System.err.println(e);
        }
        commands.add(new String[] {"close"});
    }

    private void run(String topic) {
        ConsumerRebalanceListener listener = new Listener();
        if (topic.startsWith("^")) {
            consumer.subscribe(Pattern.compile(topic), listener);
        } else {
            consumer.subscribe(List.of(topic), listener);
        }
        while (running) {
            try {
                for (String[] c = commands.poll(); c != null; c = commands.poll()) {
                    obey(c);
                }
                work();
            } catch (KafkaException e) {
                System.err.println(e); // a rebalance; whoever gets the partitions reads the records again
            }
        }
        consumer.close();
    }

    private void obey(String[] c) {
        switch (c[0]) {
            case "close" -> running = false;
            case "pause" -> consumer.pause(List.of(partition(c)));
            case "resume" -> consumer.resume(List.of(partition(c)));
            case "seek" -> consumer.seek(partition(c), Long.parseLong(c[3]));
            default -> System.err.println("what is " + c[0] + "?");
        }
    }

    private static TopicPartition partition(String[] c) {
        return new TopicPartition(c[1], Integer.parseInt(c[2]));
    }

    private void work() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            say("read " + r.topic() + " " + r.partition() + " " + r.offset() + " " + (r.value() == null ? 0 : r.value().length));
            next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        }
        if (!next.isEmpty()) {
            consumer.commitSync(next);
            next.forEach((p, o) -> say("committed " + p.topic() + " " + p.partition() + " " + o.offset()));
        }
    }

    private static void say(String line) {
        System.out.print(line + "\n");
        System.out.flush();
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(p -> say("assigned " + p.topic() + " " + p.partition()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(p -> say("revoked " + p.topic() + " " + p.partition()));
        }
    }
}
