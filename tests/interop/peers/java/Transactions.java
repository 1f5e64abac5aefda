import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer of transactions: each message says itself what is decided, at once and when asked. */
class Transactions implements TransactionListener {
    private final TransactionMQProducer producer;
    private final List<String> checked = new CopyOnWriteArrayList<>();

    Transactions(String namesrv, String group) throws Exception {
        producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.setInstanceName(group);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(this);
        producer.start();
    }

    /** Sends one message in a transaction; `local` and `later` are commit, rollback or unknown. */
    String send(Map<String, String> fields) throws Exception {
        byte[] body = Base64.getDecoder().decode(fields.get("body"));
        Message message = new Message(fields.get("topic"), "TagA", "key", body);
        message.putUserProperty("local", fields.get("local"));
        message.putUserProperty("later", fields.get("later"));
        TransactionSendResult result = producer.sendMessageInTransaction(message, null);
        return ",\"status\":" + Peer.quoted(result.getSendStatus().name())
            + ",\"state\":" + Peer.quoted(result.getLocalTransactionState().name())
            + ",\"queueOffset\":" + result.getQueueOffset()
            + ",\"transactionId\":" + Peer.quoted(result.getTransactionId());
    }

    /** Returns the bodies that the broker has asked about, in their order. */
    String checks() {
        StringBuilder text = new StringBuilder(",\"checked\":[");
        for (String body : checked) {
            text.append(text.charAt(text.length() - 1) == '[' ? "" : ",").append(Peer.quoted(body));
        }
        return text.append("]").toString();
    }

    void close() {
        producer.shutdown();
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(message.getUserProperty("local"));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        checked.add(new String(message.getBody(), StandardCharsets.UTF_8));
        return state(message.getUserProperty("later"));
    }

    private static LocalTransactionState state(String word) {
        switch (word) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
