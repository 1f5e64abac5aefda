import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A push consumer: concurrent, orderly or broadcasting. */
class PushMember extends Member {
    private static final int ORDERLY_PAUSE_MILLIS = 100;
    private static final int LEAVE_MILLIS = 10_000; // running handlers end and are committed
    private final DefaultMQPushConsumer consumer;

    PushMember(String namesrv, Map<String, String> fields) throws Exception {
        super(fields.get("name"));
        consumer = new DefaultMQPushConsumer(fields.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(Peer.ROUTES_MILLIS);
        consumer.setAwaitTerminationMillisWhenShutdown(LEAVE_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (fields.containsKey("instance")) {
            consumer.setInstanceName(fields.get("instance"));
        }
        if (fields.containsKey("retries")) {
            consumer.setMaxReconsumeTimes(Integer.parseInt(fields.get("retries")));
        }
        if (fields.containsKey("threads")) {
            int threads = Integer.parseInt(fields.get("threads"));
            consumer.setConsumeThreadMax(Math.max(threads, consumer.getConsumeThreadMin()));
            consumer.setConsumeThreadMin(threads);
        }
        if (fields.get("kind").equals("broadcast")) {
            broadcast();
        }
        for (String topic : fields.get("topics").split(",")) {
            if (fields.containsKey("sql")) {
                consumer.subscribe(topic, MessageSelector.bySql(fields.get("sql")));
            } else {
                consumer.subscribe(topic, fields.getOrDefault("tags", "*"));
            }
        }
        listen(fields);
        consumer.start();
    }

    /** The enumeration lies in another package in client 4 than in client 5. */
    private void broadcast() throws ReflectiveOperationException {
        Class<?> models = consumer.getMessageModel().getDeclaringClass();
        for (Object model : models.getEnumConstants()) {
            if (model.toString().equals("BROADCASTING")) {
                DefaultMQPushConsumer.class.getMethod("setMessageModel", models).invoke(consumer, model);
            }
        }
    }

    private void listen(Map<String, String> fields) {
        if (fields.get("kind").equals("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(ORDERLY_PAUSE_MILLIS);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                handle(messages.get(0)) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                handle(messages.get(0)) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
    }

    @Override
    String steer(String word, Map<String, String> fields) {
        throw new IllegalArgumentException("a push consumer does not know " + word);
    }

    @Override
    void close() {
        consumer.shutdown();
    }
}
