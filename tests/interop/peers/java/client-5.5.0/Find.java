import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * `Find NAMESRV TOPIC KEY UNIQUE_KEY TAGS` asks for messages as a producer, as the admin client and as
 * `mqadmin`'s commands do, and prints the bodies that each finds.
 */
public class Find {
    interface Ask {
        List<MessageExt> messages() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        DefaultMQProducer producer = new DefaultMQProducer("find-producer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args[0]);
        admin.start();
        long end = System.currentTimeMillis() + 60_000;
        say("queryMessage", () -> of(producer.queryMessage(topic, args[2], 32, 0, end)));
        say("queryMessageOfNothing", () -> of(producer.queryMessage(topic, "no-such-key", 32, 0, end)));
        say("viewMessage", () -> Collections.singletonList(producer.viewMessage(topic, args[3])));
        say("byUniqueKey", () -> of(admin.queryMessageByUniqKey("DefaultCluster", topic, args[3], 32, 0L, end)));
        say("adminQuery", () -> of(admin.queryMessage(topic, args[2], 32, 0, end)));
        MessageExt one = producer.viewMessage(topic, args[3]);
        String[][] commands = {
            {"queryMsgByKey", "-n", args[0], "-t", topic, "-k", args[2]},
            {"queryMsgByUniqueKey", "-n", args[0], "-t", topic, "-i", args[3]},
            {"queryMsgById", "-n", args[0], "-t", topic, "-i", idOf(one)},
        };
        System.setProperty("rocketmq.client.logUseSlf4j", "false");
        for (String[] words : commands) {
            java.io.PrintStream before = System.out;
            java.io.ByteArrayOutputStream text = new java.io.ByteArrayOutputStream();
            System.setOut(new java.io.PrintStream(text, true));
            MQAdminStartup.main0(words, null);
            System.setOut(before);
            Peer.OUT.println("{\"ask\":\"" + words[0] + "\",\"text\":" + Peer.quoted(text.toString()) + "}");
        }
        producer.shutdown();
        admin.shutdown();
        System.exit(0);
    }

    static String idOf(MessageExt message) {
        return ((org.apache.rocketmq.common.message.MessageClientExt) message).getOffsetMsgId();
    }

    static List<MessageExt> of(QueryResult result) {
        return result.getMessageList();
    }

    static void say(String ask, Ask asked) {
        try {
            List<String> bodies = new ArrayList<>();
            for (MessageExt message : asked.messages()) {
                bodies.add(new String(message.getBody()));
            }
            Collections.sort(bodies);
            Peer.OUT.println("{\"ask\":\"" + ask + "\",\"text\":" + Peer.quoted(bodies.toString()) + "}");
        } catch (Exception e) {
            Peer.OUT.println("{\"ask\":\"" + ask + "\",\"text\":" + Peer.quoted(e.toString()) + "}");
        }
    }
}
