import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * A user who signs: every step prints one JSON line. Run as `Signed NAMESRV USER SECRET TOPIC GROUP
 * COUNT`; it sends so many, one in a transaction, and waits for all of them as a push consumer, one of
 * which fails once, then as a lite pull consumer.
 */
public class Signed {
    static String namesrv;
    static RPCHook hook;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        hook = new AclClientRPCHook(new SessionCredentials(args[1], args[2]));
        String topic = args[3];
        String group = args[4];
        int count = Integer.parseInt(args[5]);
        if (produce(topic, count - 1)) {
            transact(topic);
            consume(topic, group, count);
            pull(topic, group + "-lite", count);
        }
        System.exit(0);
    }

    static void tell(String step, Object outcome) {
        System.out.println("{\"step\":\"" + step + "\",\"result\":\"" + String.valueOf(outcome).replace("\"", "'").replace("\n", " ") + "\"}");
    }

    static boolean produce(String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("p-" + topic, hook);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.start();
        try {
            for (int each = 0; each < count; each++) {
                producer.send(new Message(topic, "TagA", "key" + each, ("body" + each).getBytes()));
            }
            tell("sent", count);
            return true;
        } catch (MQClientException error) { // after all tries
            MQBrokerException cause = (MQBrokerException) error.getCause();
            tell("refused", cause.getResponseCode() + " " + cause.getErrorMessage());
            return false;
        } finally {
            producer.shutdown();
        }
    }

    static void transact(String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("tx-" + topic, hook);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        tell("committed", producer.sendMessageInTransaction(new Message(topic, "TagA", "tx", "tx".getBytes()), null).getSendStatus());
        Thread.sleep(200); // its END is one-way
        producer.shutdown();
    }

    static void consume(String topic, String group, int count) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        CountDownLatch left = new CountDownLatch(count);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        AtomicInteger again = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getKeys().equals("key0") && message.getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                again.addAndGet(message.getReconsumeTimes());
                if (seen.add(message.getKeys())) {
                    left.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        tell("consumed", left.await(60, TimeUnit.SECONDS) + " " + seen.size() + " again " + again.get());
        consumer.shutdown();
    }

    static void pull(String topic, String group, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group, hook);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        long until = System.currentTimeMillis() + 60000;
        while (seen.size() < count && System.currentTimeMillis() < until) {
            for (MessageExt message : consumer.poll(500)) {
                seen.add(message.getKeys());
            }
        }
        consumer.commitSync();
        tell("pulled", seen.size());
        consumer.shutdown();
    }
}
