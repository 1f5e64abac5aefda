import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * `Dashboard NAMESRV BROKER` makes a topic, a group, eight messages of which one ends as a dead letter, and then the
 * calls by which RocketMQ's dashboard shows each of its pages, in its client's version. A line is a call and what it
 * returned, as JSON.
 */
public class Dashboard {
    static final String TOPIC = "shown";
    static final String GROUP = "showing";
    static final String PRODUCERS = "shown-producers";
    static DefaultMQAdminExt admin;

    public static void main(String[] args) {
        int code = 0;
        try {
            show(args);
        } catch (Exception e) {
            e.printStackTrace();
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    static void show(String[] args) throws Exception {
        String broker = args[1];
        long begin = System.currentTimeMillis() - 60_000;
        admin = new DefaultMQAdminExt(10_000);
        admin.setNamesrvAddr(args[0]);
        admin.start();
        String id = prepare(args[0], broker);
        cluster(broker);
        topics(broker);
        groups(broker);
        messages(args[0], id, begin);
    }

    static String prepare(String namesrv, String broker) throws Exception {
        TopicConfig topic = new TopicConfig(TOPIC, 2, 2, 6);
        topic.getAttributes().put("+message.type", "NORMAL");
        admin.createAndUpdateTopicConfig(broker, topic);
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(GROUP);
        group.setRetryMaxTimes(0);
        admin.createAndUpdateSubscriptionGroupConfig(broker, group);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientIP("10.0.0.1");
        consumer.setInstanceName("shown");
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setMaxReconsumeTimes(0);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "good || bad");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            return messages.get(0).getTags().equals("bad")
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer(PRODUCERS);
        producer.setNamesrvAddr(namesrv);
        producer.setClientIP("10.0.0.2");
        producer.setInstanceName("shown");
        producer.start();
        String id = null;
        for (int number = 0; number < 8; number++) {
            Message message = new Message(TOPIC, number == 5 ? "bad" : "good", "key-" + number, ("body " + number).getBytes());
            message.putUserProperty("number", "" + number);
            id = producer.send(message, new MessageQueue(TOPIC, brokerName(), number % 2)).getOffsetMsgId();
        }
        consumer.start();
        await("the group to be done", () -> {
            ConsumeStats stats = admin.examineConsumeStats(GROUP, TOPIC);
            return stats.getOffsetTable().size() >= 2 && stats.computeTotalDiff() == 0;
        });
        await("the dead letter", () -> admin.examineTopicStats("%DLQ%" + GROUP).getOffsetTable().values().stream()
            .anyMatch(offset -> offset.getMaxOffset() == 1));
        await("statistics", () -> admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", TOPIC).getStatsMinute().getSum() > 0);
        return id;
    }

    static String brokerName() throws Exception {
        return admin.examineBrokerClusterInfo().getBrokerAddrTable().keySet().iterator().next();
    }

    static void cluster(String broker) {
        say("cluster", () -> admin.examineBrokerClusterInfo());
        say("cluster.status", () -> new TreeMap<>(admin.fetchBrokerRuntimeStats(broker).getTable()));
        say("cluster.config", () -> new TreeMap<>(admin.getBrokerConfig(broker)));
        say("ops.namesrv", () -> admin.getNameServerAddressList().size());
    }

    static void topics(String broker) {
        say("topic.list", () -> sorted(admin.fetchAllTopicList().getTopicList()));
        say("topic.types", () -> admin.getAllTopicConfig(broker, 10_000L).getTopicConfigTable().get(TOPIC));
        say("topic.config", () -> admin.examineTopicConfig(broker, TOPIC));
        say("topic.route", () -> admin.examineTopicRouteInfo(TOPIC));
        say("topic.stats", () -> rows(admin.examineTopicStats(TOPIC).getOffsetTable()));
        say("topic.consumers", () -> sorted(admin.queryTopicConsumeByWho(TOPIC).getGroupList()));
        say("topic.puts", () -> admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", TOPIC).getStatsMinute().getSum());
        say("topic.gets", () -> admin.viewBrokerStatsData(broker, "GROUP_GET_NUMS", TOPIC + "@" + GROUP).getStatsMinute().getSum());
        say("topic.unknown", () -> admin.examineTopicRouteInfo("nothing-of-that-name"));
    }

    static void groups(String broker) {
        say("group.list", () -> admin.getAllSubscriptionGroup(broker, 30_000L).getSubscriptionGroupTable().get(GROUP));
        say("group.config", () -> admin.examineSubscriptionGroupConfig(broker, GROUP));
        say("group.progress", () -> progress(admin.examineConsumeStats(GROUP)));
        say("group.progress.topic", () -> progress(admin.examineConsumeStats(GROUP, TOPIC)));
        say("group.progress.broker", () -> progress(admin.examineConsumeStats(broker, GROUP, null, 3_000)));
        say("group.connection", () -> connection(admin.examineConsumerConnectionInfo(GROUP)));
        say("group.connection.broker", () -> connection(admin.examineConsumerConnectionInfo(GROUP, broker)));
        say("group.running", () -> {
            String client = admin.examineConsumerConnectionInfo(GROUP).getConnectionSet().iterator().next().getClientId();
            return admin.getConsumerRunningInfo(GROUP, client, false).getSubscriptionSet();
        });
        say("group.offline", () -> admin.examineConsumerConnectionInfo("nobody"));
        say("producer", () -> admin.examineProducerConnectionInfo(PRODUCERS, TOPIC).getConnectionSet());
        say("producer.unknown", () -> admin.examineProducerConnectionInfo("nobody", TOPIC));
    }

    static void messages(String namesrv, String id, long begin) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        say("message.byId", () -> shown(admin.viewMessage(TOPIC, id)));
        String unique = admin.viewMessage(TOPIC, id).getMsgId();
        say("message.byUniqueKey", () -> shown(admin.viewMessage(TOPIC, unique)));
        say("message.byKey", () -> shown(admin.queryMessage(TOPIC, "key-3", 64, 0, end).getMessageList()));
        say("message.byNoKey", () -> shown(admin.queryMessage(TOPIC, "no-key", 64, 0, end).getMessageList()));
        say("message.track", () -> admin.messageTrackDetail(admin.viewMessage(TOPIC, id)));
        say("message.again", () -> admin.consumeMessageDirectly(GROUP, "10.0.0.1@shown", TOPIC, id).getConsumeResult());
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("TOOLS_CONSUMER");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("pages");
        consumer.start();
        say("message.byTime", () -> shown(between(consumer, TOPIC, begin, end)));
        say("message.beforeAll", () -> shown(between(consumer, TOPIC, begin - 3_600_000, begin)));
        say("dlq", () -> shown(between(consumer, "%DLQ%" + GROUP, begin, end)));
        say("dlq.route", () -> admin.examineTopicRouteInfo("%DLQ%" + GROUP));
    }

    /** As the dashboard reads the messages of a span of time. */
    static List<MessageExt> between(DefaultMQPullConsumer consumer, String topic, long begin, long end) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long last = consumer.searchOffset(queue, end);
            for (long offset = consumer.searchOffset(queue, begin); offset <= last; ) {
                PullResult pulled = consumer.pull(queue, "*", offset, 32);
                offset = pulled.getNextBeginOffset();
                if (pulled.getPullStatus() != PullStatus.FOUND) {
                    break;
                }
                for (MessageExt message : pulled.getMsgFoundList()) {
                    if (message.getStoreTimestamp() >= begin && message.getStoreTimestamp() <= end) {
                        found.add(message);
                    }
                }
            }
        }
        return found;
    }

    static List<Object> shown(List<MessageExt> messages) {
        List<Object> fields = new ArrayList<>();
        messages.sort(Comparator.comparing(message -> new String(message.getBody())));
        for (MessageExt message : messages) {
            fields.add(shown(message));
        }
        return fields;
    }

    static Object shown(MessageExt message) {
        TreeMap<String, Object> fields = new TreeMap<>();
        fields.put("topic", message.getTopic());
        fields.put("body", new String(message.getBody()));
        fields.put("queueId", message.getQueueId());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("sysFlag", message.getSysFlag());
        fields.put("flag", message.getFlag());
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("storeSize", message.getStoreSize() > 0);
        fields.put("bodyCRC", message.getBodyCRC());
        fields.put("times", message.getBornTimestamp() > 0 && message.getStoreTimestamp() > 0);
        fields.put("properties", new TreeMap<>(message.getProperties()));
        return fields;
    }

    static Object progress(ConsumeStats stats) {
        TreeMap<String, Object> rows = new TreeMap<>();
        for (MessageQueue queue : stats.getOffsetTable().keySet()) {
            OffsetWrapper offsets = stats.getOffsetTable().get(queue);
            rows.put(queue.getTopic() + "-" + queue.getQueueId(), Arrays.asList(offsets.getBrokerOffset(),
                offsets.getConsumerOffset(), offsets.getPullOffset(), offsets.getLastTimestamp() > 0));
        }
        return rows;
    }

    static Object connection(ConsumerConnection connection) {
        TreeMap<String, Object> fields = new TreeMap<>();
        fields.put("type", connection.getConsumeType());
        fields.put("model", connection.getMessageModel());
        fields.put("from", connection.getConsumeFromWhere());
        fields.put("subscriptions", connection.getSubscriptionTable());
        List<String> clients = new ArrayList<>();
        for (Connection each : connection.getConnectionSet()) {
            clients.add(each.getClientId() + " " + each.getLanguage() + " " + each.getVersion());
        }
        fields.put("clients", clients);
        return fields;
    }

    static Object rows(java.util.Map<MessageQueue, ?> table) {
        TreeMap<String, Object> rows = new TreeMap<>();
        table.forEach((queue, value) -> rows.put(queue.getTopic() + "-" + queue.getQueueId(), value));
        return rows;
    }

    static List<String> sorted(Set<String> names) {
        List<String> list = new ArrayList<>(names);
        Collections.sort(list);
        return list;
    }

    static List<String> sorted(HashSet<String> names) {
        return sorted((Set<String>) names);
    }

    static void await(String what, Callable<Boolean> done) throws Exception {
        long until = System.currentTimeMillis() + 60_000;
        Exception last = null;
        while (System.currentTimeMillis() < until) {
            try {
                if (done.call()) {
                    return;
                }
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException("waited in vain for " + what, last);
    }

    static void say(String call, Callable<Object> made) {
        String text;
        try {
            text = JSON.toJSONString(made.call(), SerializerFeature.MapSortField, SerializerFeature.WriteNonStringKeyAsString);
        } catch (Exception e) {
            String reason = e.getClass().getSimpleName() + ": " + e.getMessage();
            text = JSON.toJSONString(Collections.singletonMap("failed", reason.split("\n")[0]));
        }
        System.out.println("call\t" + call + "\t" + text);
    }
}
