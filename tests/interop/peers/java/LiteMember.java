import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A lite pull consumer that a thread polls, subscribed or with given queues. */
class LiteMember extends Member {
    private static final int POLL_MILLIS = 200;
    private final DefaultLitePullConsumer consumer;
    private final Thread poller;
    private volatile boolean closing;

    LiteMember(String namesrv, Map<String, String> fields) throws Exception {
        super(fields.get("name"));
        consumer = new DefaultLitePullConsumer(fields.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(Peer.ROUTES_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        boolean given = fields.containsKey("assign");
        for (String topic : fields.get("topics").split(",")) {
            if (fields.containsKey("sql")) {
                consumer.subscribe(topic, MessageSelector.bySql(fields.get("sql")));
            } else if (!given) {
                consumer.subscribe(topic, fields.getOrDefault("tags", "*"));
            }
        }
        consumer.start();
        if (given) {
            Collection<MessageQueue> queues = new ArrayList<>();
            for (String queue : fields.get("assign").split(",")) {
                queues.add(queue(fields.get("topics"), queue));
            }
            consumer.assign(queues);
        }
        poller = new Thread(this::poll);
        poller.start();
    }

    @Override
    String steer(String word, Map<String, String> fields) throws Exception {
        MessageQueue queue = queue(fields.get("topic"), fields.get("queue"));
        switch (word) {
            case "seek":
                consumer.seek(queue, Long.parseLong(fields.get("offset")));
                return "";
            case "seek-begin":
                consumer.seekToBegin(queue);
                return "";
            case "seek-end":
                consumer.seekToEnd(queue);
                return "";
            case "pause":
                consumer.pause(Collections.singleton(queue));
                return "";
            case "resume":
                consumer.resume(Collections.singleton(queue));
                return "";
            case "committed":
                return ",\"offset\":" + consumer.committed(queue);
            case "offset-for":
                return ",\"offset\":" + consumer.offsetForTimestamp(queue, Long.parseLong(fields.get("time")));
            default:
                throw new IllegalArgumentException("a lite pull consumer does not know " + word);
        }
    }

    @Override
    void close() {
        closing = true;
        try {
            poller.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        consumer.commitSync();
        consumer.shutdown();
    }

    private void poll() {
        while (!closing) {
            for (MessageExt message : consumer.poll(POLL_MILLIS)) {
                handle(message);
            }
        }
    }

    private static MessageQueue queue(String topic, String number) {
        return new MessageQueue(topic, "broker-a", Integer.parseInt(number));
    }
}
