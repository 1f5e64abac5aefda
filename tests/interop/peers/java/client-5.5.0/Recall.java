import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages with a time of their own: `Recall NAMESRV TOPIC` takes the second of three back, and
 * prints one JSON line for each: its body, its unique key, and what taking it back returned.
 */
public class Recall {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("recall");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(30000);
        producer.start();
        for (String body : new String[] {"delay", "recalled", "deliver"}) {
            Message message = new Message(args[1], body.getBytes(StandardCharsets.UTF_8));
            if (body.equals("deliver")) {
                message.setDeliverTimeMs(System.currentTimeMillis() + 12345);
            } else {
                message.setDelayTimeMs(12345);
            }
            SendResult sent = producer.send(message);
            String recalled = "";
            if (body.equals("recalled")) {
                recalled = producer.recallMessage(args[1], sent.getRecallHandle());
            }
            Peer.OUT.println("{\"body\":" + Peer.quoted(body) + ",\"key\":" + Peer.quoted(sent.getMsgId())
                + ",\"recalled\":" + Peer.quoted(recalled) + "}");
        }
        producer.shutdown();
        System.exit(0);
    }
}
