import java.io.File;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Every field of every message, one JSON object a line.
 *
 * `Records receive NAMESRV TOPIC=COUNT...`: what a consumer of these topics gets, each pulled from its
 * queues' earliest offsets until as many messages have come. `Records decode COMMITLOG PACKED`: what
 * MessageDecoder makes of all records of a log, with bodies as stored if PACKED is `true`.
 */
public class Records {
    static final long MILLIS_MAX = 60_000;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("decode")) {
            decode(new File(args[1]), Boolean.parseBoolean(args[2]));
        } else {
            receive(args[1], Arrays.asList(args).subList(2, args.length));
        }
        System.exit(0);
    }

    static void decode(File log, boolean packed) throws Exception {
        File[] files = log.listFiles((folder, name) -> name.matches("\\d{20}"));
        Arrays.sort(files);
        for (File file : files) {
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
            while (bytes.remaining() > 8) {
                int start = bytes.position();
                int size = bytes.getInt(start);
                if (size == 0 || bytes.getInt(start + 4) == 0xCBD43194) {
                    break; // nothing was written here, or the file's end is filled up
                }
                ByteBuffer record = ByteBuffer.wrap(bytes.array(), start, size);
                print(MessageDecoder.decode(record, true, !packed, false, false, packed));
                bytes.position(start + size);
            }
        }
    }

    @SuppressWarnings("deprecation")
    static void receive(String namesrv, List<String> wanted) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("records");
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(Peer.ROUTES_MILLIS);
        consumer.start();
        for (String word : wanted) {
            int equals = word.lastIndexOf('=');
            receive(consumer, word.substring(0, equals), Integer.parseInt(word.substring(equals + 1)));
        }
        consumer.shutdown();
    }

    @SuppressWarnings("deprecation")
    static void receive(DefaultMQPullConsumer consumer, String topic, int count) throws Exception {
        Map<MessageQueue, Long> offsets = new TreeMap<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            offsets.put(queue, consumer.minOffset(queue));
        }
        long deadline = System.currentTimeMillis() + MILLIS_MAX;
        int received = 0;
        while (received < count) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException(topic + " has " + received + " messages, not " + count);
            }
            for (MessageQueue queue : new ArrayList<>(offsets.keySet())) {
                PullResult result = consumer.pull(queue, "*", offsets.get(queue), 32);
                offsets.put(queue, result.getNextBeginOffset());
                if (result.getPullStatus() == PullStatus.FOUND) {
                    result.getMsgFoundList().forEach(Records::print);
                    received += result.getMsgFoundList().size();
                }
            }
        }
    }

    static void print(MessageExt message) {
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> pair : new TreeMap<>(message.getProperties()).entrySet()) {
            properties.append(properties.length() == 0 ? "" : ",");
            properties.append(Peer.quoted(pair.getKey())).append(':').append(Peer.quoted(pair.getValue()));
        }
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        Peer.OUT.println("{\"topic\":" + Peer.quoted(message.getTopic())
            + ",\"queue_id\":" + message.getQueueId()
            + ",\"queue_offset\":" + message.getQueueOffset()
            + ",\"store_timestamp\":" + message.getStoreTimestamp()
            + ",\"born_timestamp\":" + message.getBornTimestamp()
            + ",\"tags\":" + Peer.quoted(message.getTags())
            + ",\"keys\":" + Peer.quoted(message.getKeys())
            + ",\"properties\":{" + properties + "}"
            + ",\"body\":" + Peer.quoted(Base64.getEncoder().encodeToString(body))
            + ",\"born_host\":" + host((InetSocketAddress) message.getBornHost())
            + ",\"store_host\":" + host((InetSocketAddress) message.getStoreHost())
            + ",\"sys_flag\":" + message.getSysFlag()
            + ",\"reconsume_times\":" + message.getReconsumeTimes()
            + ",\"commit_log_offset\":" + message.getCommitLogOffset()
            + ",\"flag\":" + message.getFlag()
            + ",\"body_crc\":" + message.getBodyCRC()
            + ",\"body_bytes\":" + body.length
            + ",\"record_bytes\":" + message.getStoreSize()
            + ",\"prepared_transaction_offset\":" + message.getPreparedTransactionOffset() + "}");
    }

    static String host(InetSocketAddress host) {
        return "[" + Peer.quoted(host.getAddress().getHostAddress()) + "," + host.getPort() + "]";
    }
}
