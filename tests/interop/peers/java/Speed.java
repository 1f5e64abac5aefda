import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * How fast the client is: `blast` sends, a listener of this class counts and prints one line when it
 * has had as many messages as it was told. A body begins with the time it was sent at. Messages to
 * `skip` come first and are not counted; a line says when they have come.
 */
class Speed implements MessageListenerConcurrently {
    private static final int STAMP_DIGITS = 16; // microseconds since 1970
    private final String name;
    private final long[] latencies;
    private final AtomicInteger toSkip;
    private final AtomicInteger got = new AtomicInteger();
    private volatile long beganNanos;

    Speed(Map<String, String> fields, String name) {
        this.name = name;
        this.toSkip = new AtomicInteger(Integer.parseInt(fields.getOrDefault("skip", "0")));
        this.latencies = new long[Integer.parseInt(fields.get("count"))];
    }

    /** Sends `count` messages of `size` bytes, `inflight` at a time or `rate` a second. */
    static String blast(DefaultMQProducer producer, Map<String, String> fields) throws Exception {
        int count = Integer.parseInt(fields.get("count"));
        int inflight = Integer.parseInt(fields.get("inflight"));
        double gapNanos = fields.containsKey("rate") ? 1e9 / Integer.parseInt(fields.get("rate")) : 0;
        char[] padding = new char[Integer.parseInt(fields.get("size")) - STAMP_DIGITS];
        Arrays.fill(padding, 'x');
        String rest = new String(padding);
        Semaphore free = new Semaphore(inflight);
        AtomicLong failed = new AtomicLong();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                free.release();
            }

            @Override
            public void onException(Throwable error) {
                failed.incrementAndGet();
                free.release();
            }
        };
        long began = System.nanoTime();
        for (int at = 0; at < count; at++) {
            while (System.nanoTime() - began < at * gapNanos) {
                java.util.concurrent.locks.LockSupport.parkNanos(50_000);
            }
            free.acquire();
            byte[] body = (nowMicros() + rest).getBytes("ISO-8859-1");
            producer.send(new Message(fields.get("topic"), "TagA", "key", body), callback);
        }
        free.acquire(inflight);
        double seconds = (System.nanoTime() - began) / 1e9;
        return ",\"seconds\":" + seconds + ",\"failures\":" + failed.get();
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            int left = toSkip.get() > 0 ? toSkip.getAndDecrement() : 0;
            if (left > 0) {
                if (left == 1) {
                    Peer.OUT.println("{\"consumer\":" + Peer.quoted(name) + ",\"event\":\"ready\"}");
                }
                continue;
            }
            int at = got.getAndIncrement();
            if (at == 0) {
                beganNanos = System.nanoTime();
            }
            if (at < latencies.length) {
                String stamp = new String(message.getBody(), 0, STAMP_DIGITS, java.nio.charset.StandardCharsets.ISO_8859_1);
                latencies[at] = nowMicros() - Long.parseLong(stamp);
            }
            if (at == latencies.length - 1) {
                report((System.nanoTime() - beganNanos) / 1e9);
            }
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private void report(double seconds) {
        long[] sorted = latencies.clone();
        Arrays.sort(sorted);
        Peer.OUT.println("{\"consumer\":" + Peer.quoted(name) + ",\"event\":\"counted\",\"seconds\":" + seconds
            + ",\"p50Micros\":" + sorted[sorted.length / 2]
            + ",\"p99Micros\":" + sorted[(int) (sorted.length * 0.99)] + "}");
    }

    private static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }
}
