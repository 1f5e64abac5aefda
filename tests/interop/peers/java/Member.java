import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** One open consumer of a session, and what its handler does with a message. */
abstract class Member {
    final String name;

    Member(String name) {
        this.name = name;
    }

    static Member open(String namesrv, Map<String, String> fields) throws Exception {
        return fields.get("kind").equals("lite") ? new LiteMember(namesrv, fields) : new PushMember(namesrv, fields);
    }

    /** Answers a command about this consumer with the rest of a JSON object. */
    abstract String steer(String word, Map<String, String> fields) throws Exception;

    abstract void close();

    /** Prints a message and takes as long as its body says; false if it says that it fails. */
    boolean handle(MessageExt message) {
        Peer.OUT.println(Peer.received(message, ",\"consumer\":" + Peer.quoted(name)));
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        int millis = number(body, "take=");
        if (millis > 0) {
            try {
                Thread.sleep(millis);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        return message.getReconsumeTimes() >= number(body, "fail=");
    }

    /** Returns the number behind a word of the body, 0 if the word is not there. */
    static int number(String body, String word) {
        int at = body.indexOf(word);
        if (at < 0) {
            return 0;
        }
        int from = at + word.length();
        int end = from;
        while (end < body.length() && Character.isDigit(body.charAt(end))) {
            end++;
        }
        return Integer.parseInt(body.substring(from, end));
    }
}
