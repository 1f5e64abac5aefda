// Reads a table of property strings and expressions, prints what RocketMQ's filters make of them.
// Run by tests/golden/capture_filters.py, which says how.
import java.io.*;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.*;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.SqlFilter;
import org.apache.rocketmq.filter.expression.*;

public class EvaluateFilters {
  public static void main(String[] a) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
    List<EvaluationContext> messages = new ArrayList<>();
    int count = Integer.parseInt(in.readLine());
    for (int i = 0; i < count; i++) {
      String properties = URLDecoder.decode(in.readLine(), "UTF-8");
      messages.add(new MessageEvaluationContext(MessageDecoder.string2messageProperties(properties)));
    }
    SqlFilter filter = new SqlFilter();
    for (String line; (line = in.readLine()) != null; ) {
      Expression expression;
      try {
        expression = filter.compile(URLDecoder.decode(line, "UTF-8"));
      } catch (MQFilterException e) {
        out.println("refused " + URLEncoder.encode(String.valueOf(e.getMessage()), "UTF-8"));
        continue;
      }
      StringBuilder answers = new StringBuilder();
      for (EvaluationContext message : messages) {
        try {
          Object value = expression.evaluate(message);
          answers.append(value == null ? '?' : value.equals(true) ? 'T' : value.equals(false) ? 'F' : 'X');
        } catch (Throwable e) {
          answers.append('!');
        }
      }
      out.println("answers " + answers);
    }
    out.flush();
  }
}
