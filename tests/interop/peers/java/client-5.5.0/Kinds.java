import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages of every kind that this client can make: `Kinds NAMESRV KIND...` sends those of each
 * kind to the topic of its name and prints one JSON line per kind: the topics that messages go to in
 * the end, with how many each of them gets.
 */
public class Kinds {
    interface Kind {
        int send(String topic) throws Exception;
    }

    static final Random CHANCE = new Random(5);
    static final int WAITING_LEVEL = 18;
    static String namesrv;
    static DefaultMQProducer producer;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        producer = started(new DefaultMQProducer("kinds"));
        for (String kind : Arrays.asList(args).subList(1, args.length)) {
            int count = kind(kind).send(kind);
            Peer.OUT.println("{\"topic\":" + Peer.quoted(kind) + ",\"count\":" + count + "}");
        }
        producer.shutdown();
        System.exit(0);
    }

    static Kind kind(String name) {
        switch (name) {
            case "plain": return Kinds::plain;
            case "properties": return Kinds::properties;
            case "bodies": return Kinds::bodies;
            case "compressed": return Kinds::compressed;
            case "batch": return Kinds::batch;
            case "inner-batch": return Kinds::innerBatch;
            case "accumulated": return Kinds::accumulated;
            case "ordered": return Kinds::ordered;
            case "delayed": return Kinds::delayed;
            case "timer": return Kinds::timer;
            case "transaction": return Kinds::transaction;
            case "request": return Kinds::request;
            case "traced": return Kinds::traced;
            case "many-queues": return Kinds::manyQueues;
            case "retry": return topic -> failing(topic, "fail=2");
            case "dead": return topic -> failing(topic, "fail=99");
            case "space%named": return Kinds::named;
            default: throw new IllegalArgumentException("unknown kind " + name);
        }
    }

    static <P extends DefaultMQProducer> P started(P producer) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("kinds-" + CHANCE.nextInt());
        producer.setSendMsgTimeout(30000);
        producer.setMaxMessageSize(8 << 20);
        producer.start();
        return producer;
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] random(int size) {
        byte[] bytes = new byte[size];
        CHANCE.nextBytes(bytes);
        return bytes;
    }

    /** With and without tags, keys and flag; acknowledged at once, later, and never. */
    static int plain(String topic) throws Exception {
        producer.send(message(topic, "neither tags nor keys"));
        Message all = new Message(topic, "Prüfung 🐝", "key-1", 0x7ABBCCDD, "é 中 🐝".getBytes("UTF-8"), false);
        producer.send(all);
        producer.send(new Message(topic, "TagA", "negative flag", -5, random(300), true));
        CountDownLatch answered = new CountDownLatch(1);
        producer.send(new Message(topic, "TagA", "async", random(20)), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                Peer.OUT.println(error);
            }
        });
        answered.await();
        producer.sendOneway(new Message(topic, "TagA", "oneway", random(20)));
        return 5;
    }

    /** What the setters make, and what only a map that is filled past them can hold. */
    static int properties(String topic) throws Exception {
        Message set = message(topic, "set");
        set.setKeys(Arrays.asList("one", "two", "three"));
        set.setBuyerId("buyer");
        set.setInstanceId("instance");
        set.putUserProperty("naïve 名前 🐝", "wert\t\n\u0000 中 🐝");
        set.putUserProperty("long", new String(new char[20000]).replace('\0', 'v'));
        producer.send(set);
        Message odd = message(topic, "odd");
        MessageAccessor.putProperty(odd, "empty", "");
        MessageAccessor.putProperty(odd, "", "no name");
        MessageAccessor.putProperty(odd, "name\u0001value", "in a name");
        MessageAccessor.putProperty(odd, "value", "with\u0001one");
        MessageAccessor.putProperty(odd, "cut", "off\u0002and on");
        MessageAccessor.putProperty(odd, "again", "last\u0002again\u0001wins");
        MessageAccessor.putProperty(odd, "half", "\ud83d is no character");
        producer.send(odd);
        Message many = message(topic, "many");
        for (int number = 0; number < 1500; number++) {
            many.putUserProperty("name-" + number, "value-" + number);
        }
        producer.send(many);
        return 3;
    }

    /** One byte, and as large as a broker takes. */
    static int bodies(String topic) throws Exception {
        producer.send(new Message(topic, new byte[] {0}));
        DefaultMQProducer plain = new DefaultMQProducer("kinds-bodies");
        plain.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        started(plain).send(new Message(topic, random(4 * 1000 * 1000)));
        plain.shutdown();
        return 2;
    }

    static int compressed(String topic) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            DefaultMQProducer packing = new DefaultMQProducer("kinds-" + type);
            packing.setCompressType(type);
            packing.setCompressMsgBodyOverHowmuch(100);
            started(packing);
            byte[] text = new String(new char[3000]).replace("\0", type.name()).getBytes("UTF-8");
            packing.send(new Message(topic, type.name(), "shrinks", text));
            packing.send(new Message(topic, type.name(), "grows", random(5000)));
            packing.send(new Message(topic, type.name(), "a megabyte", new byte[1 << 20]));
            packing.shutdown();
        }
        return 3 * CompressionType.values().length;
    }

    static List<Message> some(String topic, int count) {
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            messages.add(new Message(topic, "Tag" + number % 3, "key-" + number, random(50 * number + 1)));
        }
        return messages;
    }

    static int batch(String topic) throws Exception {
        producer.send(some(topic, 10));
        producer.send(Collections.singletonList(message(topic, "alone in its batch")));
        return 11;
    }

    /** The broker keeps the batches of such a topic as one record each. */
    static int innerBatch(String topic) throws Exception {
        producer.send(some(topic, 10));
        producer.send(some(topic, 5));
        return 15;
    }

    /** The client makes batches of what is sent at the same time. */
    static int accumulated(String topic) throws Exception {
        DefaultMQProducer gathering = new DefaultMQProducer("kinds-accumulated");
        gathering.setAutoBatch(true);
        gathering.batchMaxDelayMs(50);
        started(gathering);
        CountDownLatch answered = new CountDownLatch(20);
        for (Message message : some(topic, 20)) {
            gathering.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    Peer.OUT.println(error);
                }
            });
        }
        answered.await();
        gathering.shutdown();
        return 20;
    }

    static int ordered(String topic) throws Exception {
        for (Message message : some(topic, 9)) {
            MessageAccessor.putProperty(message, "__SHARDINGKEY", message.getKeys());
            producer.send(message, (queues, order, key) -> queues.get(key.hashCode() % queues.size()),
                message.getTags());
        }
        return 9;
    }

    /** Due at once, and in two hours. */
    static int delayed(String topic) throws Exception {
        for (int level : new int[] {1, 2, WAITING_LEVEL}) {
            Message message = new Message(topic, "TagA", "level-" + level, random(40));
            message.setDelayTimeLevel(level);
            producer.send(message);
        }
        return 2;
    }

    static int timer(String topic) throws Exception {
        Message soon = new Message(topic, "TagA", "soon", random(40));
        soon.setDelayTimeMs(1500);
        producer.send(soon);
        Message then = new Message(topic, "TagA", "then", random(40));
        then.setDeliverTimeMs(System.currentTimeMillis() + 1500);
        producer.send(then);
        Message waiting = new Message(topic, "TagA", "waiting", random(40));
        waiting.setDelayTimeSec(3600);
        producer.send(waiting);
        return 2;
    }

    /** Committed, rolled back, and left as prepared. */
    static int transaction(String topic) throws Exception {
        TransactionMQProducer deciding = new TransactionMQProducer("kinds-transaction");
        deciding.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        started(deciding);
        for (LocalTransactionState state : LocalTransactionState.values()) {
            Message message = new Message(topic, "TagA", state.name(), random(60));
            deciding.sendMessageInTransaction(message, state);
        }
        deciding.shutdown();
        return 1;
    }

    /** A question that nobody answers. */
    static int request(String topic) throws Exception {
        try {
            producer.request(new Message(topic, "TagA", "question", random(30)), 300);
        } catch (RequestTimeoutException expected) {
            return 1;
        }
        throw new IllegalStateException("somebody has answered");
    }

    /** The client sends a message about its message, to a topic of the broker's own. */
    static int traced(String topic) throws Exception {
        DefaultMQProducer telling = new DefaultMQProducer("kinds-traced", true, null);
        started(telling).send(new Message(topic, "TagA", "traced", random(30)));
        telling.shutdown();
        return 1;
    }

    /** One record in three queues: its topic's and two light ones. */
    static int manyQueues(String topic) throws Exception {
        for (Message message : some(topic, 4)) {
            MessageAccessor.putProperty(message, "INNER_MULTI_DISPATCH", "%LMQ%one,%LMQ%two");
            producer.send(message);
        }
        return 4;
    }

    /** Handled by consumers of the test's, as often as the body says without success. */
    static int failing(String topic, String text) throws Exception {
        for (int number = 0; number < 3; number++) {
            Message message = new Message(topic, "TagA", "key-" + number, (text + " " + number).getBytes("UTF-8"));
            message.putUserProperty("kept", "through all tries " + number);
            producer.send(message);
        }
        return 3;
    }

    static int named(String topic) throws Exception {
        DefaultMQProducer spaced = new DefaultMQProducer("space", "kinds-named");
        started(spaced).send(message("named", "in a namespace"));
        spaced.shutdown();
        return 1;
    }
}
