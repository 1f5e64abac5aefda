// Prints the table in allocate.txt, which says how to run this.
import java.util.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;
public class Allocate {
  public static void main(String[] a) {
    for (AllocateMessageQueueStrategy s : List.of(new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle()))
      for (int q : new int[]{1,2,3,4,5,7,8,12,16,17,31}) for (int c = 1; c <= 9; c++) {
        List<MessageQueue> mqs = new ArrayList<>(); List<String> cids = new ArrayList<>();
        for (int i = 0; i < q; i++) mqs.add(new MessageQueue("t", i % 3 == 0 ? "broker-b" : "broker-a", i));
        for (int i = 0; i < c; i++) cids.add("10.0.0." + (i * 7 + 3) + "@" + (1000 - i));
        Collections.sort(mqs); Collections.sort(cids);
        StringBuilder b = new StringBuilder(s.getName() + " " + q + " " + c + " ");
        for (int i = 0; i < c; i++) {
          if (i > 0) b.append('|');
          StringJoiner j = new StringJoiner(",");
          for (MessageQueue m : s.allocate("g", cids.get(i), mqs, cids)) j.add(m.getBrokerName().substring(7) + m.getQueueId());
          b.append(j);
        }
        System.out.println(b);
      }
  }
}
