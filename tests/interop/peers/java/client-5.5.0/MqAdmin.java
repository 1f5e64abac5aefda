import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin, a command for each line of the input; a line `--- STATUS` ends the output of each. */
public class MqAdmin {
    public static void main(String[] args) throws Exception {
        System.setErr(System.out); // where it prints what was refused
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String status = "done";
            try {
                MQAdminStartup.main(line.split(" "));
            } catch (Throwable error) {
                status = "failed " + error;
            }
            System.out.println("--- " + status);
            System.out.flush();
        }
        System.exit(0);
    }
}
