// Prints bytes that RocketMQ 5.5.0 writes, one per line: name, tab, hex. README.md says how to run it.
import java.util.*; import java.net.*; import java.nio.ByteBuffer;
import org.apache.rocketmq.common.message.*; import org.apache.rocketmq.common.sysflag.*; import org.apache.rocketmq.common.compression.*; import org.apache.rocketmq.remoting.protocol.*; import org.apache.rocketmq.remoting.protocol.header.*;
public class JavaBytes {
  static String hex(byte[] b){ StringBuilder s=new StringBuilder(); for(byte x:b) s.append(String.format("%02x",x)); return s.toString(); }
  static void p(String n, byte[] b){ System.out.println(n+"\t"+hex(b)); }
  static MessageExt msg(String topic, String ip) throws Exception { MessageExt m=new MessageExt(); m.setTopic(topic); m.setQueueId(3); m.setFlag(7); m.setQueueOffset(11L); m.setCommitLogOffset(123456789012L); m.setBornTimestamp(1700000000000L); m.setStoreTimestamp(1700000000123L); m.setBornHost(new InetSocketAddress(InetAddress.getByName(ip),54321)); m.setStoreHost(new InetSocketAddress(InetAddress.getByName(ip),10911)); int sf=0; if (ip.contains(":")) sf=48; m.setSysFlag(sf); m.setReconsumeTimes(2); m.setPreparedTransactionOffset(99L); m.setBody("héllo".getBytes("UTF-8")); m.setBodyCRC(org.apache.rocketmq.common.UtilAll.crc32(m.getBody())); m.putUserProperty("k","v"); m.setTags("TagA"); return m; }
  public static void main(String[] a) throws Exception {
    p("record_v4", MessageDecoder.encode(msg("TopicTest","10.1.2.3"),false));
    p("record_v6", MessageDecoder.encode(msg("TopicTest","2001:db8::1"),false));
    List<Message> ms=new ArrayList<>(); for(int i=0;i<3;i++){ Message m=new Message("t",("body"+i).getBytes()); m.setFlag(i); m.putUserProperty("n",""+i); ms.add(m);} 
    byte[] batch=MessageDecoder.encodeMessages(ms); p("batch",batch);
    byte[] text="aerobee aerobee aerobee aerobee".getBytes();
    for (CompressionType t: CompressionType.values()) p("compressed_"+t.name().toLowerCase(), CompressorFactory.getCompressor(t).compress(text,5));
    RemotingCommand c=RemotingCommand.createRequestCommand(105,null); c.addExtField("topic","TopicTest"); c.addExtField("empty",""); c.setRemark("r\u00e9mark"); c.setOpaque(77); c.setVersion(513); c.setSerializeTypeCurrentRPC(SerializeType.ROCKETMQ); ByteBuffer bb=c.encode(); p("frame_rocketmq",bb.array());
    RemotingCommand j=RemotingCommand.createRequestCommand(105,null); j.addExtField("topic","TopicTest"); j.setRemark("r\u00e9mark"); j.setOpaque(77); j.setVersion(513); j.setSerializeTypeCurrentRPC(SerializeType.JSON); j.setBody("body".getBytes()); p("frame_json",j.encode().array());
    System.out.println("message_id_v4\t"+MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName("10.1.2.3"),10911),123456789012L));
    System.out.println("message_id_v6\t"+MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName("2001:db8::1"),10911),123456789012L));
    System.out.println("unique_id\t"+MessageClientIDSetter.createUniqID());
    for (String s: new String[]{"","TagA","é😀","polygenelubricants"}) System.out.println("hash\t"+s+"\t"+s.hashCode());
    System.out.println("properties\t"+hex(MessageDecoder.messageProperties2String(new TreeMap<>(Map.of("a","1","b","x y","c","é"))).getBytes("UTF-8")));
    for (String s: new String[]{"a\u0001b","a\u0001b\u0002","a\u0001\u0002b\u0001c\u0002","\u0001x\u0002","a\u0002b\u0001c","a\u0001b\u0001c\u0002","a\u00011\u0002a\u00012\u0002"}) System.out.println("parse\t"+hex(s.getBytes("UTF-8"))+"\t"+new TreeMap<>(MessageDecoder.string2messageProperties(s)));
  }
}
