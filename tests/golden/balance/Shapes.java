// Prints the table in shapes.txt: tests/golden/capture_balance.py runs this.
import java.util.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;
public class Shapes {
  static final String[] BROKERS = {"broker-a", "broker-b", "room1@b", "room2@b", "room0@a", "a@b@c", "@x", "x@", "room1@b@@", "Ünï", "中文", "😀b", "Ａb", "b 1", "b|;:", "%RETRY%x", "broker-a10", "broker-a9"};
  static final String[] CLIENTS = {"pid#1", "DEFAULT", "é", "😀", "Ａ", "", "@STREAM", "unit@x", "9", "10"};
  static final String OWNERS = "0123456789abcdefghijklmnopqrstuvwxyz";
  public static void main(String[] a) throws Exception {
    java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
    for (int seed = 0; seed < 3000; seed++) {
      Random r = new Random(seed);
      Set<String> names = new TreeSet<>(); Set<MessageQueue> queues = new TreeSet<>(); Set<String> ids = new TreeSet<>();
      String topic = r.nextInt(4) == 0 ? "%RETRY%g" : "t" + r.nextInt(50);
      for (int n = 1 + r.nextInt(4); n > 0; n--) {
        String name = BROKERS[r.nextInt(BROKERS.length)];
        for (int q = 1 + r.nextInt(9); q > 0; q--) queues.add(new MessageQueue(topic, name, q - 1));
      }
      for (int n = 1 + r.nextInt(16); n > 0; n--) ids.add("10.0.0." + r.nextInt(300) + "@" + CLIENTS[r.nextInt(CLIENTS.length)] + r.nextInt(1000));
      int nodes = r.nextInt(30);
      List<MessageQueue> mqs = new ArrayList<>(queues); List<String> cids = new ArrayList<>(ids);
      AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
      rooms.setConsumeridcs(new HashSet<>(Arrays.asList("room1", "room2", "", "a")));
      AllocateMachineRoomNearby.MachineRoomResolver where = new AllocateMachineRoomNearby.MachineRoomResolver() {
        public String brokerDeployIn(MessageQueue q) { return q.getBrokerName().startsWith("room") ? q.getBrokerName().substring(0, 5) : "else"; }
        public String consumerDeployIn(String id) { return "room" + id.length() % 3; }
      };
      StringBuilder row = new StringBuilder();
      for (AllocateMessageQueueStrategy s : List.of(new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(),
          new AllocateMessageQueueConsistentHash(), new AllocateMessageQueueConsistentHash(nodes), rooms,
          new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), where),
          new AllocateMachineRoomNearby(new AllocateMessageQueueConsistentHash(), where))) {
        char[] owners = new char[mqs.size()]; Arrays.fill(owners, '-');
        for (int i = 0; i < cids.size(); i++)
          for (MessageQueue m : s.allocate("g", cids.get(i), mqs, cids)) {
            if (owners[mqs.indexOf(m)] != '-') throw new IllegalStateException("two owners");
            owners[mqs.indexOf(m)] = OWNERS.charAt(i);
          }
        if (!s.allocate("g", "nobody", mqs, cids).isEmpty()) throw new IllegalStateException("a share for nobody");
        row.append(row.length() == 0 ? "" : " ").append(owners);
      }
      out.println(row);
    }
  }
}
