import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Commands of mqadmin in one process. A line of standard input is a time limit in ms and the words
 * of a command, separated by tabs; it is answered by one line: whether the command has ended, and
 * what it printed, as base64. Two words more: `consume NAMESRV GROUP TOPIC` has a consumer connected
 * from then on, `produce NAMESRV GROUP TOPIC QUEUES` a producer that has sent one message to each
 * of so many queues of each broker, with the key k and the number of the message.
 */
public class MqAdmin {
    static final PrintStream ANSWERS = System.out;
    static final List<Object> CONNECTED = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            long limit = Long.parseLong(words[0]);
            String[] command = Arrays.copyOfRange(words, 1, words.length);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(printed, true, "UTF-8");
            System.setOut(to);
            System.setErr(to);
            Thread thread = new Thread(() -> run(command));
            thread.setDaemon(true);
            thread.start();
            await(thread, limit);
            boolean ended = !thread.isAlive();
            if (!ended) {
                thread.interrupt();
                await(thread, 10_000);
            }
            to.flush();
            ANSWERS.println(ended + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            ANSWERS.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Wait for a command to end, for so many ms at most. */
    static void await(Thread command, long limit) throws InterruptedException {
        long until = System.currentTimeMillis() + limit;
        while (command.isAlive() && System.currentTimeMillis() < until) {
            command.join(20);
            if (shutsDown(command)) {
                wakeListeners();
            }
        }
    }

    /** Whether a command waits for threads of its client, some of which look every 3 s whether to end. */
    static boolean shutsDown(Thread command) {
        for (StackTraceElement frame : command.getStackTrace()) {
            if (frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    /** Have those threads look now; the others' go on. */
    static void wakeListeners() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("NettyEventExecutor")) {
                thread.interrupt();
            }
        }
    }

    static void run(String[] command) {
        try {
            String word = command.length == 0 ? "" : command[0];
            if (word.equals("consume")) {
                consume(command[1], command[2], command[3]);
            } else if (word.equals("produce")) {
                produce(command[1], command[2], command[3], Integer.parseInt(command[4]));
            } else {
                MQAdminStartup.main0(command, null);
            }
        } catch (Throwable error) {
            error.printStackTrace();
        }
    }

    static void consume(String namesrv, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("member");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        CONNECTED.add(consumer);
    }

    static void produce(String namesrv, String group, String topic, int queues) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("maker");
        producer.setSendMsgTimeout(30000);
        producer.start();
        CONNECTED.add(producer);
        int number = 0;
        for (var queue : producer.fetchPublishMessageQueues(topic)) {
            if (queue.getQueueId() < queues) {
                Message message = new Message(topic, "TagA", "k" + number, ("body " + number).getBytes());
                var sent = producer.send(message, queue);
                System.out.println(queue.getBrokerName() + " " + queue.getQueueId() + " " + sent.getMsgId()
                    + " " + sent.getOffsetMsgId() + " " + sent.getSendStatus());
                number++;
            }
        }
    }
}
