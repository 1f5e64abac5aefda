import java.util.Collections;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.KVTable;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What mqadmin does, in one go: every step prints one JSON line with its outcome or its error. Run
 * as `Admin NAMESRV BROKER`.
 */
public class Admin {
    interface Step {
        Object run() throws Exception;
    }

    static final String TOPIC = "admin-topic";
    static final String GROUP = "admin-group";
    static DefaultMQAdminExt admin;
    static SendResult sent;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        String broker = args[1];
        admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.start();
        topics(broker);
        messages(namesrv, broker);
        groups(broker);
        configuration(broker);
        keyValues();
        step("expiredQueuesCleaned", () -> admin.cleanExpiredConsumerQueueByAddr(broker));
        step("unusedTopicsCleaned", () -> admin.cleanUnusedTopicByAddr(broker));
        step("expiredLogDeleted", () -> admin.deleteExpiredCommitLogByAddr(broker));
        step("topicDeleted", () -> {
            admin.deleteTopicInBroker(Collections.singleton(broker), TOPIC);
            return "done";
        });
        step("topicConfigAfterDelete", () -> admin.examineTopicConfig(broker, TOPIC));
        admin.shutdown();
        System.exit(0);
    }

    static void topics(String broker) {
        step("topicCreated", () -> {
            admin.createAndUpdateTopicConfig(broker, new TopicConfig(TOPIC, 3, 3, 6));
            return "done";
        });
        step("topicConfig", () -> describe(admin.examineTopicConfig(broker, TOPIC)));
        step("topicRoute", () -> {
            TopicRouteData route = admin.examineTopicRouteInfo(TOPIC);
            QueueData queues = route.getQueueDatas().get(0);
            return route.getBrokerDatas().get(0).getBrokerAddrs() + " " + queues.getReadQueueNums()
                + " " + queues.getWriteQueueNums() + " " + queues.getPerm();
        });
        step("topicWithBadName", () -> {
            admin.createAndUpdateTopicConfig(broker, new TopicConfig("bad name!", 3, 3, 6));
            return "done";
        });
        step("unknownRoute", () -> admin.examineTopicRouteInfo("no-such-topic"));
        step("clusterInfo", () -> {
            ClusterInfo info = admin.examineBrokerClusterInfo();
            return new TreeMap<>(info.getClusterAddrTable()) + " "
                + info.getBrokerAddrTable().get("broker-a").getBrokerAddrs();
        });
    }

    static void messages(String namesrv, String broker) {
        step("messageSent", () -> {
            DefaultMQProducer producer = new DefaultMQProducer("admin-producer");
            producer.setNamesrvAddr(namesrv);
            producer.start();
            Message message = new Message(TOPIC, "TagA", "key", "for admin".getBytes("UTF-8"));
            sent = producer.send(message, new MessageQueue(TOPIC, "broker-a", 1));
            producer.shutdown();
            return sent.getSendStatus();
        });
        step("messageViewed", () -> {
            MessageExt message = admin.viewMessage(TOPIC, sent.getOffsetMsgId());
            return new String(message.getBody(), "UTF-8") + " " + message.getTags() + " "
                + message.getQueueId() + " " + message.getQueueOffset();
        });
        MessageQueue queue = new MessageQueue(TOPIC, "broker-a", 1);
        step("maxOffset", () -> admin.maxOffset(queue));
        step("minOffset", () -> admin.minOffset(queue));
        step("offsetByTime", () -> admin.searchOffset(queue, 0));
        step("earliestStoreTime", () -> admin.earliestMsgStoreTime(queue) > 0);
    }

    static void groups(String broker) {
        step("groupCreated", () -> {
            SubscriptionGroupConfig group = new SubscriptionGroupConfig();
            group.setGroupName(GROUP);
            group.setRetryMaxTimes(3);
            group.setConsumeBroadcastEnable(false);
            admin.createAndUpdateSubscriptionGroupConfig(broker, group);
            return "done";
        });
        step("groupConfig", () -> {
            SubscriptionGroupConfig group = admin.examineSubscriptionGroupConfig(broker, GROUP);
            return group.getGroupName() + " " + group.getRetryMaxTimes() + " "
                + group.isConsumeEnable() + " " + group.isConsumeBroadcastEnable() + " "
                + group.getRetryQueueNums();
        });
        step("groupDeleted", () -> {
            admin.deleteSubscriptionGroup(broker, GROUP, true);
            return "done";
        });
    }

    static void configuration(String broker) {
        step("brokerConfig", () -> {
            Properties config = admin.getBrokerConfig(broker);
            return config.getProperty("brokerName") + " " + config.getProperty("listenPort") + " "
                + config.getProperty("autoCreateTopicEnable") + " "
                + config.getProperty("flushDiskType");
        });
        step("brokerConfigUpdated", () -> {
            Properties change = new Properties();
            change.setProperty("autoCreateTopicEnable", "false");
            admin.updateBrokerConfig(broker, change);
            String changed = admin.getBrokerConfig(broker).getProperty("autoCreateTopicEnable");
            change.setProperty("autoCreateTopicEnable", "true");
            admin.updateBrokerConfig(broker, change);
            return changed;
        });
        step("forbiddenConfigUpdated", () -> {
            Properties change = new Properties();
            change.setProperty("rocketmqHome", "/tmp/elsewhere");
            admin.updateBrokerConfig(broker, change);
            return "done";
        });
        step("runtimeStats", () -> {
            KVTable stats = admin.fetchBrokerRuntimeStats(broker);
            return String.join(" ", new TreeMap<>(stats.getTable()).keySet());
        });
    }

    static void keyValues() {
        step("keyValuePut", () -> {
            admin.createAndUpdateKvConfig("admin-space", "admin-key", "a value");
            return admin.getKVConfig("admin-space", "admin-key");
        });
        step("keyValueList", () -> new TreeMap<>(admin.getKVListByNamespace("admin-space").getTable()));
        step("keyValueDeleted", () -> {
            admin.deleteKvConfig("admin-space", "admin-key");
            return admin.getKVListByNamespace("admin-space").getTable();
        });
    }

    static String describe(TopicConfig config) {
        return config.getTopicName() + " " + config.getReadQueueNums() + " "
            + config.getWriteQueueNums() + " " + config.getPerm() + " " + config.getTopicFilterType()
            + " " + config.getTopicSysFlag() + " " + config.isOrder();
    }

    static void step(String name, Step step) {
        String outcome;
        try {
            outcome = ",\"result\":" + Peer.quoted(String.valueOf(step.run()));
        } catch (Exception e) {
            outcome = ",\"error\":" + Peer.quoted(e.toString());
        }
        Peer.OUT.println("{\"step\":\"" + name + "\"" + outcome + "}");
    }
}
