import java.util.TreeMap;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What `mqadmin resetOffsetByTime` does: `Reset NAMESRV TOPIC GROUP TIMESTAMP` prints the queues with
 * their new offsets.
 */
public class Reset {
    public static void main(String[] args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args[0]);
        admin.start();
        TreeMap<String, Long> offsets = new TreeMap<>();
        try {
            admin.resetOffsetByTimestamp(args[1], args[2], Long.parseLong(args[3]), true)
                .forEach((queue, offset) -> offsets.put(String.valueOf(queue.getQueueId()), offset));
            Peer.OUT.println("{\"offsets\":" + Peer.quoted(offsets.toString()) + "}");
        } catch (Exception e) {
            Peer.OUT.println("{\"failed\":" + Peer.quoted(e.toString()) + "}");
        }
        admin.shutdown();
        System.exit(0);
    }
}
