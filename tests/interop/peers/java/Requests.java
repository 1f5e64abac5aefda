import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Asks by a message and waits for the reply, or replies to all requests of a topic. */
class Requests {
    static String request(DefaultMQProducer producer, Map<String, String> fields) throws Exception {
        byte[] body = Base64.getDecoder().decode(fields.get("body"));
        Message message = new Message(fields.get("topic"), "TagA", "k", body);
        Message reply = producer.request(message, Long.parseLong(fields.get("timeout")));
        return ",\"topic\":" + Peer.quoted(reply.getTopic())
            + ",\"tags\":" + Peer.quoted(String.valueOf(reply.getTags()))
            + ",\"body\":" + Peer.quoted(Base64.getEncoder().encodeToString(reply.getBody()));
    }

    static DefaultMQPushConsumer serve(String namesrv, DefaultMQProducer producer, Map<String, String> fields)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(fields.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(fields.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] mark = "java:".getBytes(StandardCharsets.UTF_8);
                    byte[] body = new byte[mark.length + message.getBody().length];
                    System.arraycopy(mark, 0, body, 0, mark.length);
                    System.arraycopy(message.getBody(), 0, body, mark.length, message.getBody().length);
                    producer.send(MessageUtil.createReplyMessage(message, body), 5000);
                } catch (Exception e) {
                    System.err.println(e);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
