import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a consumer group with kafka-clients; see ../member/member.go. Usage: Member HOST:PORT GROUP TOPIC PROTOCOL */
public class Member {
    private static volatile boolean running = true;

    public static void main(String[] args) throws InterruptedException {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(args[0], args[1], args[3]), new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            running = false;
            consumer.wakeup();
            try {
                main.join(); // the process ends when the hook does
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(args[2]));
        while (running) {
            try {
                work(consumer);
            } catch (WakeupException e) {
                // the end
            } catch (KafkaException e) {
                System.err.println(e); // a rebalance; whoever gets the partitions reads the records again
            }
        }
        consumer.close(); // leaves
    }

    private static Properties settings(String address, String group, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", address);
        p.put("group.id", group);
        p.put("group.protocol", protocol);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("max.poll.records", "50");
        if (protocol.equals("classic")) { // in the consumer protocol the broker says
            p.put("session.timeout.ms", "6000");
            p.put("heartbeat.interval.ms", "500");
        }
        return p;
    }

    private static void work(KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<String, String> r : records) {
            say("read " + r.partition() + " " + r.offset() + " " + r.value());
            next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        }
        if (next.isEmpty()) {
            return;
        }
        consumer.commitSync(next);
        next.forEach((p, o) -> say("committed " + p.partition() + " " + o.offset()));
    }

    private static void say(String line) {
        System.out.print(line + "\n");
        System.out.flush();
    }
}
