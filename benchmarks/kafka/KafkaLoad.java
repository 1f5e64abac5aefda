import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients as a load: the same marks and the same JSON as our load generator.
 *
 *     KafkaLoad publish --port N --connections N --outstanding N --linger MS --body BYTES --warmup S --seconds S
 *     KafkaLoad consume --port N --connections N --body BYTES --warmup S --seconds S
 *     KafkaLoad fill --port N --body BYTES --messages N
 *
 * Every message has to be acknowledged with the next offset of its partition, or be read with it.
 */
public final class KafkaLoad {
    private static final String TOPIC = "bench";
    private static final int PARTITIONS = 4;

    private final Map<String, String> words = new HashMap<>();
    private final AtomicReference<String> firstError = new AtomicReference<>();
    private volatile boolean measuring;
    private volatile boolean stopping;

    /** What one client has counted while it was measured; written by one thread of its own. */
    private static final class Tally {
        volatile long answers;
        private long[] microseconds = new long[1 << 16];
        private int count;

        void add(long nanoseconds, int messages) {
            if (count == microseconds.length) {
                microseconds = Arrays.copyOf(microseconds, 2 * count);
            }
            microseconds[count++] = nanoseconds / 1000;
            answers += messages;
        }
    }

    public static void main(String[] arguments) throws Exception {
        KafkaLoad load = new KafkaLoad();
        for (int at = 1; at + 1 < arguments.length; at += 2) {
            load.words.put(arguments[at], arguments[at + 1]);
        }
        switch (arguments[0]) {
            case "publish" -> load.measure(load::publisher);
            case "consume" -> load.measure(load::consumer);
            case "fill" -> load.fill();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private String word(String name) {
        String found = words.get("--" + name);
        if (found == null) {
            throw new IllegalArgumentException("--" + name + "?");
        }
        return found;
    }

    private int number(String name) {
        return Integer.parseInt(word(name));
    }

    private Properties settings() {
        Properties made = new Properties();
        made.put("bootstrap.servers", "127.0.0.1:" + word("port"));
        made.put("key.serializer", ByteArraySerializer.class.getName());
        made.put("value.serializer", ByteArraySerializer.class.getName());
        made.put("key.deserializer", ByteArrayDeserializer.class.getName());
        made.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return made;
    }

    private interface Client {
        Thread start(int index, Tally tally) throws Exception;
    }

    private void measure(Client client) throws Exception {
        makeTopic();
        long before = stored();
        List<Thread> threads = new ArrayList<>();
        List<Tally> tallies = new ArrayList<>();
        for (int index = 0; index < number("connections"); index++) {
            Tally tally = new Tally();
            tallies.add(tally);
            threads.add(client.start(index, tally));
        }
        sleep(word("warmup"));
        mark("begin");
        long cpu = cpuNanoseconds();
        long began = System.nanoTime();
        measuring = true;
        sleep(word("seconds"));
        measuring = false;
        double seconds = (System.nanoTime() - began) / 1e9;
        double cpuSeconds = (cpuNanoseconds() - cpu) / 1e9;
        mark("end");
        stopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        long answers = tallies.stream().mapToLong(tally -> tally.answers).sum();
        if (words.containsKey("--outstanding") && stored() < before + answers) {
            fault("the topic holds fewer messages than were acknowledged");
        }
        report(tallies, answers, seconds, cpuSeconds);
    }

    private Thread publisher(int index, Tally tally) {
        Properties settings = settings();
        settings.put("linger.ms", word("linger"));
        int outstanding = number("outstanding");
        byte[] body = new byte[number("body")];
        new Random(index).nextBytes(body);
        return started(() -> {
            Semaphore room = new Semaphore(outstanding);
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
                long[] next = new long[PARTITIONS];
                Arrays.fill(next, -1);
                for (int turn = 0; !stopping; turn++) {
                    room.acquire();
                    long sent = System.nanoTime();
                    int partition = turn % PARTITIONS;
                    producer.send(new ProducerRecord<>(TOPIC, partition, null, body), (stored, error) -> {
                        room.release();
                        if (error != null) {
                            fault(error.toString());
                        } else if (stored.offset() <= next[stored.partition()]) {
                            fault("offset " + stored.offset() + " was given out twice, or out of order");
                        } else {
                            next[stored.partition()] = stored.offset();
                            if (measuring) {
                                tally.add(System.nanoTime() - sent, 1);
                            }
                        }
                    });
                }
                producer.flush();
            }
        });
    }

    private Thread consumer(int index, Tally tally) {
        Properties settings = settings();
        int body = number("body");
        List<TopicPartition> own = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            own.add(new TopicPartition(TOPIC, partition));
        }
        return started(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
                consumer.assign(own);
                consumer.seekToBeginning(own);
                Map<TopicPartition, Long> ends = consumer.endOffsets(own);
                long[] next = new long[PARTITIONS];
                while (!stopping) {
                    long asked = System.nanoTime();
                    int count = 0;
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                        if (record.value().length != body || record.offset() != next[record.partition()]++) {
                            fault("partition " + record.partition() + " gave offset " + record.offset());
                        }
                        count++;
                    }
                    if (measuring && count > 0) {
                        tally.add(System.nanoTime() - asked, count);
                    }
                    for (TopicPartition each : own) {
                        if (next[each.partition()] >= ends.get(each)) {
                            consumer.seekToBeginning(List.of(each));
                            next[each.partition()] = 0;
                        }
                    }
                }
            }
        });
    }

    private void fill() throws Exception {
        makeTopic();
        byte[] body = new byte[number("body")];
        new Random(7).nextBytes(body);
        mark("begin");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            for (int turn = 0; turn < number("messages"); turn++) {
                producer.send(new ProducerRecord<>(TOPIC, turn % PARTITIONS, null, body), (stored, error) -> {
                    if (error != null) {
                        fault(error.toString());
                    }
                });
            }
            producer.flush();
        }
        mark("end");
        report(List.of(), stored(), 1, 0);
    }

    private void makeTopic() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(TOPIC, PARTITIONS, (short) 1))).all().get();
        } catch (java.util.concurrent.ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
    }

    private long stored() throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            asked.put(new TopicPartition(TOPIC, partition), OffsetSpec.latest());
        }
        try (Admin admin = Admin.create(settings())) {
            return admin.listOffsets(asked).all().get().values().stream().mapToLong(each -> each.offset()).sum();
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private Thread started(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                fault(error.toString());
            }
        });
        thread.start();
        return thread;
    }

    private void fault(String text) {
        firstError.compareAndSet(null, text);
    }

    private static void sleep(String seconds) throws InterruptedException {
        Thread.sleep((long) (Double.parseDouble(seconds) * 1000));
    }

    private static void mark(String name) throws Exception {
        System.out.println(name);
        System.out.flush();
        while (System.in.read() != '\n') {
            // whoever measures takes a sample meanwhile
        }
    }

    private static long cpuNanoseconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    private void report(List<Tally> tallies, long answers, double seconds, double cpuSeconds) {
        long[] all = tallies.stream().flatMapToLong(tally -> Arrays.stream(tally.microseconds, 0, tally.count))
            .sorted().toArray();
        String error = firstError.get();
        System.out.printf(
            "{\"messages\": %d, \"seconds\": %.6f, \"generator_cpu_s\": %.6f, \"p50_us\": %d, \"p99_us\": %d, "
                + "\"p999_us\": %d, \"max_us\": %d, \"errors\": %d, \"first_error\": \"%s\"}%n",
            answers, seconds, cpuSeconds, at(all, 0.5), at(all, 0.99), at(all, 0.999), at(all, 1),
            error == null ? 0 : 1, error == null ? "" : error.replace('"', '\'').replace('\n', ' '));
    }

    private static long at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (share * sorted.length))];
    }
}
