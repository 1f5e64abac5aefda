import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** RocketMQ's Java client; it obeys the orders that `meter.py` describes. */
public final class RocketMQLoad {
    private static final int BODY_BYTES = 1024;
    private static final int STAMP_BYTES = 16; // hexadecimal digits
    private static final byte[] DIGITS = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final int WARM_MESSAGES = 512;
    private static final int UNDER_WAY_MAX = 1024;
    private static final int SAMPLE_MASK = 255;
    private static final int SECONDS_MAX = 60;
    private static final long SETTLE_MILLIS = 100;
    private static final BufferedReader INPUT =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private final String namesrv;
    private final byte[] pool;
    private String topic;
    private String group;
    private double seconds;
    private int count;
    private long first;
    private long acked;
    private long beganNanos;
    private long beganCpuNanos;
    private double tookSeconds;
    private double cpuSeconds;
    private long[] latencies;
    private final AtomicReference<String> error = new AtomicReference<>();

    private RocketMQLoad(String namesrv, byte[] pool) {
        this.namesrv = namesrv;
        this.pool = pool;
    }

    public static void main(String[] words) throws Exception {
        byte[] pool = Files.readAllBytes(Path.of(words[1]));
        for (String line = INPUT.readLine(); line != null; line = INPUT.readLine()) {
            RocketMQLoad load = new RocketMQLoad(words[0], pool);
            long messages = 0;
            try {
                messages = load.obey(line.split("\t"));
            } catch (Exception exception) {
                load.fail(exception.toString());
            }
            System.out.println(load.answer(messages));
            System.out.flush();
        }
        System.exit(0); // threads of the client would keep the JVM
    }

    private long obey(String[] words) throws Exception {
        topic = words[1];
        group = words[2];
        seconds = Double.parseDouble(words[3]);
        count = Integer.parseInt(words[4]);
        first = Long.parseLong(words[5]);
        switch (words[0]) {
            case "send":
                return send(UNDER_WAY_MAX);
            case "send-64":
                return send(64);
            case "lone":
                return lone();
            case "trip":
                return trip();
            case "batches":
                return consume(32);
            case "singles":
                return consume(1);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private DefaultMQProducer warmProducer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("clients");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int at = 0; at < WARM_MESSAGES; at++) {
            producer.send(message(first + at));
            acked++;
        }
        return producer;
    }

    /** Sends with a callback each, so many not yet acknowledged at a time. */
    private long send(int underWay) throws Exception {
        DefaultMQProducer producer = warmProducer();
        Semaphore free = new Semaphore(underWay);
        AtomicLong good = new AtomicLong();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    good.incrementAndGet();
                } else {
                    fail(result.toString());
                }
                free.release();
            }

            @Override
            public void onException(Throwable exception) {
                fail(exception.toString());
                free.release();
            }
        };
        begin();
        long until = beganNanos + (long) (seconds * 1e9);
        long number = first + WARM_MESSAGES;
        for (; (number & 63) != 0 || System.nanoTime() < until; number++) {
            free.acquire();
            producer.send(message(number), callback);
        }
        free.acquire(underWay);
        end();
        producer.shutdown();
        long sent = number - first - WARM_MESSAGES;
        if (good.get() != sent) {
            fail(sent + " sent, " + good.get() + " acknowledged");
        }
        acked += good.get();
        return good.get();
    }

    /** Sends one after the other and notes how long each took. */
    private long lone() throws Exception {
        DefaultMQProducer producer = warmProducer();
        long[] took = new long[(int) (seconds * 50_000) + 1];
        int sent = 0;
        begin();
        long until = beganNanos + (long) (seconds * 1e9);
        long now = System.nanoTime();
        while (now < until && sent < took.length) {
            producer.send(message(first + WARM_MESSAGES + sent));
            long after = System.nanoTime();
            took[sent++] = after - now;
            now = after;
        }
        end();
        producer.shutdown();
        return keep(took, sent);
    }

    /** Sends one after the other, each when the one before was handed to the consumer. */
    private long trip() throws Exception {
        LinkedBlockingQueue<byte[]> arrived = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(1, (messages, context) -> {
            arrived.add(messages.get(0).getBody());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = warmProducer();
        for (int at = 0; at < WARM_MESSAGES; at++) {
            arrived.poll(SECONDS_MAX, TimeUnit.SECONDS);
        }
        long[] took = new long[(int) (seconds * 50_000) + 1];
        int sent = 0;
        begin();
        long until = beganNanos + (long) (seconds * 1e9);
        while (System.nanoTime() < until && sent < took.length && error.get() == null) {
            long number = first + WARM_MESSAGES + sent;
            long before = System.nanoTime();
            producer.send(message(number));
            byte[] body = arrived.poll(SECONDS_MAX, TimeUnit.SECONDS);
            took[sent++] = System.nanoTime() - before;
            if (!Arrays.equals(body, body(number))) {
                fail("message " + number + " did not come");
            }
        }
        end();
        producer.shutdown();
        consumer.shutdown();
        return keep(took, sent);
    }

    private long keep(long[] took, int sent) {
        latencies = Arrays.copyOf(took, sent);
        Arrays.sort(latencies);
        acked += sent;
        return sent;
    }

    private DefaultMQPushConsumer consumer(int batch, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(batch);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Consumes `count` messages; the clock begins with the first and ends with the last. */
    private long consume(int batch) throws Exception {
        AtomicIntegerArray seen = new AtomicIntegerArray(count);
        AtomicInteger came = new AtomicInteger();
        AtomicInteger before = new AtomicInteger();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(batch, (messages, context) -> {
            int had = came.getAndAdd(messages.size());
            if (had == 0) {
                before.set(messages.size());
                begin();
                begun.countDown();
            } else {
                await(begun);
            }
            take(messages, seen);
            if (had < count && had + messages.size() >= count) {
                end();
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (!done.await(SECONDS_MAX, TimeUnit.SECONDS)) {
            fail(came.get() + " came of " + count);
        }
        Thread.sleep(SETTLE_MILLIS);
        consumer.shutdown();
        for (int at = 0; at < count; at++) {
            if (seen.get(at) != 1) {
                fail("message " + at + " came " + seen.get(at) + " times");
            }
        }
        return count - before.get();
    }

    private void take(List<MessageExt> messages, AtomicIntegerArray seen) {
        for (MessageExt message : messages) {
            byte[] body = message.getBody();
            long number = number(body);
            if ((number & SAMPLE_MASK) == 0 && !Arrays.equals(body, body(number))) {
                fail("a body is not what was sent: message " + number);
            }
            if (number < 0 || number >= count) {
                fail("no such message: " + number);
            } else {
                seen.incrementAndGet((int) number);
            }
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
    }

    private Message message(long number) {
        return new Message(topic, "tag", "key-" + number, body(number));
    }

    private byte[] body(long number) {
        byte[] body = new byte[BODY_BYTES];
        long rest = number;
        for (int at = STAMP_BYTES - 1; at >= 0; at--) {
            body[at] = DIGITS[(int) (rest & 15)];
            rest >>>= 4;
        }
        System.arraycopy(pool, (int) (number * 61 & 0xFFFF), body, STAMP_BYTES, BODY_BYTES - STAMP_BYTES);
        return body;
    }

    private static long number(byte[] body) {
        long number = 0;
        for (int at = 0; at < STAMP_BYTES; at++) {
            number = number << 4 | Character.digit(body[at], 16);
        }
        return number;
    }

    private void fail(String what) {
        error.compareAndSet(null, what);
    }

    private void begin() {
        mark("begin");
        beganCpuNanos = cpuNanos();
        beganNanos = System.nanoTime();
    }

    private void end() {
        tookSeconds = (System.nanoTime() - beganNanos) / 1e9;
        cpuSeconds = (cpuNanos() - beganCpuNanos) / 1e9;
        mark("end");
    }

    private static void mark(String word) {
        try {
            System.out.println(word);
            System.out.flush();
            INPUT.readLine();
        } catch (java.io.IOException exception) {
            throw new java.io.UncheckedIOException(exception);
        }
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private String answer(long messages) {
        String text = "{\"messages\":" + messages + ",\"seconds\":" + tookSeconds + ",\"cpu_s\":" + cpuSeconds
            + ",\"acked\":" + acked;
        if (latencies != null && latencies.length > 0) {
            text += ",\"p50_us\":" + latencies[latencies.length / 2] / 1e3
                + ",\"p99_us\":" + latencies[(int) (latencies.length * 0.99)] / 1e3;
        }
        String failed = error.get();
        String quoted = failed == null ? "" : "\"" + failed.replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"";
        return text + ",\"errors\":[" + quoted + "]}";
    }
}
