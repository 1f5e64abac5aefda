import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * `Mapped NAMESRV TOPIC GROUP` sends numbers to the queues of a static topic in turn and consumes them, until a
 * line comes; then it consumes on until its input ends. Routes are looked at every second.
 */
public class Mapped {
    static volatile boolean sending = true;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("consumer");
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((List<MessageExt> messages, org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext context) -> {
            for (MessageExt message : messages) {
                say("got", new String(message.getBody()), message.getBrokerName(), message.getQueueId(), message.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer("producer-of-" + args[2]);
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("producer");
        producer.setPollNameServerInterval(1000);
        producer.start();
        consumer.start();
        Thread sender = new Thread(() -> send(producer, topic));
        sender.start();
        System.in.read();
        sending = false;
        sender.join();
        Peer.OUT.println("{\"event\":\"stopped\"}");
        while (System.in.read() >= 0) {
            Thread.sleep(1);
        }
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }

    static void send(DefaultMQProducer producer, String topic) {
        int number = 0;
        while (sending) {
            try {
                List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
                MessageQueue queue = queues.get(number % queues.size());
                SendResult sent = producer.send(new Message(topic, ("" + number).getBytes()), queue);
                say("sent", "" + number, queue.getBrokerName(), sent.getMessageQueue().getQueueId(), sent.getQueueOffset());
                number++;
                Thread.sleep(5);
            } catch (MQBrokerException refused) {
                say("refused", "" + refused.getResponseCode(), "", 0, number);
                pause(200);
            } catch (Exception failed) {
                say("failed", failed.toString(), "", 0, number);
                pause(200);
            }
        }
    }

    static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void say(String what, String text, String broker, int queue, long offset) {
        Peer.OUT.println("{\"what\":\"" + what + "\",\"text\":" + Peer.quoted(text) + ",\"broker\":\"" + broker
            + "\",\"queue\":" + queue + ",\"offset\":" + offset + "}");
    }
}
