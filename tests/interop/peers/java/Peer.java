import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The Java peer: sends what its standard input lists, or prints what it receives, one JSON object a
 * line. The same source is compiled against client 4.9.8 and 5.5.0.
 */
public class Peer {
    static final int ROUTES_MILLIS = 2000; // a start that misses a route would cost 30 s
    static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true);

    public static void main(String[] args) throws Exception {
        String namesrv = args[1];
        if (args[0].equals("session")) {
            new Session(namesrv).run();
            System.exit(0);
        }
        String topic = args[2];
        String group = args[3];
        switch (args[0]) {
            case "produce":
                produce(namesrv, topic, group, false);
                break;
            case "batch":
                produce(namesrv, topic, group, true);
                break;
            case "consume":
                consume(namesrv, topic, group, args[4]);
                break;
            case "lite":
                litePull(namesrv, topic, group, args[4]);
                break;
            default:
                throw new IllegalArgumentException("unknown command " + args[0]);
        }
        System.exit(0);
    }

    static void produce(String namesrv, String topic, String group, boolean batch) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.start();
        List<Message> messages = readMessages(topic);
        if (batch) {
            printSent(producer.send(messages));
        } else {
            for (Message message : messages) {
                printSent(producer.send(message));
            }
        }
        producer.shutdown();
    }

    static void consume(String namesrv, String topic, String group, String expression) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                printReceived(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        OUT.println("{\"event\":\"started\"}");
        waitForEndOfInput();
        consumer.shutdown();
    }

    static void litePull(String namesrv, String topic, String group, String expression) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, expression);
        consumer.start();
        OUT.println("{\"event\":\"started\"}");
        Thread end = new Thread(Peer::waitForEndOfInput);
        end.start();
        while (end.isAlive()) {
            for (MessageExt message : consumer.poll(200)) {
                printReceived(message);
            }
        }
        consumer.commitSync();
        consumer.shutdown();
    }

    static List<Message> readMessages(String topic) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<Message> messages = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            messages.add(new Message(topic, fields[0], fields[1], Base64.getDecoder().decode(fields[2])));
        }
        return messages;
    }

    static void waitForEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // whatever is written is thrown away: only the end counts
            }
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    static void printSent(SendResult result) {
        OUT.println("{\"status\":" + quoted(result.getSendStatus().name())
            + ",\"msgId\":" + quoted(result.getMsgId())
            + ",\"queueId\":" + result.getMessageQueue().getQueueId()
            + ",\"queueOffset\":" + result.getQueueOffset() + "}");
    }

    static void printReceived(MessageExt message) {
        OUT.println(received(message, ""));
    }

    static String received(MessageExt message, String more) {
        String body = Base64.getEncoder().encodeToString(message.getBody());
        return "{\"body\":" + quoted(body) + ",\"topic\":" + quoted(message.getTopic())
            + ",\"tags\":" + quoted(message.getTags()) + ",\"keys\":" + quoted(message.getKeys())
            + ",\"msgId\":" + quoted(message.getMsgId()) + ",\"queueId\":" + message.getQueueId()
            + ",\"queueOffset\":" + message.getQueueOffset()
            + ",\"reconsumeTimes\":" + message.getReconsumeTimes()
            + ",\"at\":" + System.currentTimeMillis() + more + "}";
    }

    static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
