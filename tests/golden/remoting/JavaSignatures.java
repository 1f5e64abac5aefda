// Prints what RocketMQ 5.5.0's client signs, one request per line: secret, fields, body in hex, signature. README.md says how to run it.
import java.util.*;
import com.alibaba.fastjson2.JSON;
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.remoting.protocol.*;
public class JavaSignatures {
  static String hex(byte[] b){ StringBuilder s=new StringBuilder(); if (b!=null) for(byte x:b) s.append(String.format("%02x",x)); return s.toString(); }
  static void p(String ak, String sk, String token, byte[] body, String... fields) {
    RemotingCommand c=RemotingCommand.createRequestCommand(310,null);
    for (int i=0;i<fields.length;i+=2) c.addExtField(fields[i],fields[i+1]);
    c.setBody(body);
    new AclClientRPCHook(token==null ? new SessionCredentials(ak,sk) : new SessionCredentials(ak,sk,token)).doBeforeRequest("127.0.0.1:10911",c);
    String signed=c.getExtFields().remove("Signature");
    System.out.println("signature\t"+sk+"\t"+JSON.toJSONString(new TreeMap<>(c.getExtFields()))+"\t"+hex(c.getBody())+"\t"+signed);
  }
  public static void main(String[] a) throws Exception {
    p("rocketmq","12345678",null,null);
    p("rocketmq","12345678",null,new byte[0],"topic","TopicTest");
    p("rocketmq","12345678",null,"hello".getBytes("UTF-8"),"a","group","b","TopicTest","c","TBW102","d","4","e","0","f","0","g","1700000000000","h","0","i","UNIQ_KEY\u00017F00\u0002TAGS\u0001TagA\u0002","j","0","k","false","m","false","n","broker-a");
    p("rocketmq","12345678","a token","hello".getBytes("UTF-8"),"topic","TopicTest");
    p("用户","pässwörd","tökén","héllo".getBytes("UTF-8"),"topic","Topic%Test","é","1","z","","\ud83d\ude00","2","\uff5e","3");
    p("ak","sk",null,new byte[]{0,(byte)0xff,(byte)0x80,10},"Zeta","1","alpha","2","AccessKeys","3","_x","4","0","5","consumerGroup","%RETRY%g");
    p("ak","k".repeat(200),null,"x".repeat(2000).getBytes("UTF-8"),"b","t");
  }
}
