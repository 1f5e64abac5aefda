import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Commands from standard input, one a line, each answered by one line: consumers are opened and
 * closed by name, messages sent, lite pull consumers steered. One process can hold many consumers.
 */
class Session {
    private final String namesrv;
    private final Map<String, Member> members = new HashMap<>();
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer replier;
    private Transactions transactions;

    Session(String namesrv) {
        this.namesrv = namesrv;
    }

    void run() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Peer.OUT.println("{\"event\":\"started\"}");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            Map<String, String> fields = new HashMap<>();
            for (int at = 1; at < words.length; at++) {
                int equals = words[at].indexOf('=');
                fields.put(words[at].substring(0, equals), words[at].substring(equals + 1));
            }
            try {
                Peer.OUT.println("{\"done\":" + Peer.quoted(words[0]) + obey(words[0], fields) + "}");
            } catch (Exception e) {
                String cause = e.getCause() == null ? "" : " because of " + e.getCause();
                Peer.OUT.println("{\"failed\":" + Peer.quoted(e + cause) + "}");
            }
        }
        for (Member member : members.values()) {
            member.close();
        }
        if (replier != null) {
            replier.shutdown();
        }
        if (transactions != null) {
            transactions.close();
        }
        if (producer != null) {
            producer.shutdown();
        }
    }

    private String obey(String word, Map<String, String> fields) throws Exception {
        switch (word) {
            case "open":
                Member member = Member.open(namesrv, fields);
                members.put(fields.get("name"), member);
                return "";
            case "close":
                members.remove(fields.get("name")).close();
                return "";
            case "send":
                return send(fields);
            case "request":
                return Requests.request(producer(), fields);
            case "serve":
                replier = Requests.serve(namesrv, producer(), fields);
                return "";
            case "transact":
                if (transactions == null) {
                    transactions = new Transactions(namesrv, fields.get("group"));
                }
                return transactions.send(fields);
            case "checks":
                return transactions.checks();
            default:
                return members.get(fields.get("name")).steer(word, fields);
        }
    }

    private String send(Map<String, String> fields) throws Exception {
        byte[] body = Base64.getDecoder().decode(fields.get("body"));
        Message message = new Message(fields.get("topic"), fields.get("tags"), fields.get("keys"), body);
        for (Map.Entry<String, String> field : fields.entrySet()) {
            if (field.getKey().startsWith("p.")) {
                message.putUserProperty(field.getKey().substring(2), field.getValue());
            }
        }
        if (fields.containsKey("level")) {
            message.setDelayTimeLevel(Integer.parseInt(fields.get("level")));
        }
        SendResult result;
        if (fields.containsKey("queue")) {
            int queue = Integer.parseInt(fields.get("queue"));
            result = producer().send(message, new MessageQueue(fields.get("topic"), "broker-a", queue));
        } else {
            result = producer().send(message);
        }
        return ",\"status\":" + Peer.quoted(result.getSendStatus().name())
            + ",\"queueId\":" + result.getMessageQueue().getQueueId()
            + ",\"queueOffset\":" + result.getQueueOffset();
    }

    private DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("session-producer");
            producer.setNamesrvAddr(namesrv);
            producer.setSendMsgTimeout(30000);
            producer.start();
        }
        return producer;
    }
}
