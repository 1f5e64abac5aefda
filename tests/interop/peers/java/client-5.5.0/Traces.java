import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Message traces: `Traces send NAMESRV TOPIC GROUP` sends and consumes one message with them, commits
 * another in a transaction, recalls a third one, and prints their ids; `Traces query NAMESRV ID` is
 * `mqadmin queryMsgTraceById`.
 */
public class Traces {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("query")) {
            MQAdminStartup.main0(new String[] {"queryMsgTraceById", "-i", args[2], "-n", args[1]}, null);
            System.exit(0);
        }
        System.setProperty("com.rocketmq.recall.default.trace.enable", "true");
        TransactionMQProducer producer = new TransactionMQProducer(args[3] + "-p");
        producer.setNamesrvAddr(args[1]);
        producer.setEnableTrace(true);
        producer.setSendMsgTimeout(30000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3]);
        consumer.setNamesrvAddr(args[1]);
        consumer.setEnableTrace(true);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            done.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Message message = new Message(args[2], "TagA", "key-1", "hello".getBytes(StandardCharsets.UTF_8));
        SendResult result = producer.send(message, 30000);
        Message half = new Message(args[2], "TagA", "key-2", "paid".getBytes(StandardCharsets.UTF_8));
        String halfId = producer.sendMessageInTransaction(half, null).getMsgId();
        Message later = new Message(args[2], "TagA", "key-3", "later".getBytes(StandardCharsets.UTF_8));
        later.setDelayTimeMs(60000);
        SendResult waits = producer.send(later, 30000);
        producer.recallMessage(args[2], waits.getRecallHandle());
        boolean consumed = done.await(60, TimeUnit.SECONDS);
        Thread.sleep(6000); // a trace waits up to 5 s for others
        consumer.shutdown();
        producer.shutdown();
        Peer.OUT.println("{\"id\":" + Peer.quoted(result.getMsgId())
            + ",\"half\":" + Peer.quoted(halfId)
            + ",\"later\":" + Peer.quoted(waits.getMsgId()) + ",\"consumed\":" + consumed + "}");
        System.exit(0);
    }
}
