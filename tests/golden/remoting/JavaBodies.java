// Prints the JSON of RocketMQ 5.5.0's bodies, one per line: name, tab, text. README.md says how to run it.
import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*;
import org.apache.rocketmq.common.*; import org.apache.rocketmq.common.message.*; import org.apache.rocketmq.common.consumer.*;
import org.apache.rocketmq.remoting.protocol.*; import org.apache.rocketmq.remoting.protocol.body.*; import org.apache.rocketmq.remoting.protocol.route.*; import org.apache.rocketmq.remoting.protocol.heartbeat.*; import org.apache.rocketmq.remoting.protocol.admin.*; import org.apache.rocketmq.remoting.protocol.subscription.*;
import com.alibaba.fastjson2.JSONWriter;
public class JavaBodies {
  static void p(String n, Object o){ System.out.println(n+"\t"+RemotingSerializable.toJson(o,false)); }
  public static void main(String[] a) throws Exception {
    TopicRouteData r=new TopicRouteData(); QueueData q=new QueueData(); q.setBrokerName("broker-a"); q.setReadQueueNums(4); q.setWriteQueueNums(4); q.setPerm(6); q.setTopicSysFlag(0);
    r.setQueueDatas(new ArrayList<>(List.of(q))); BrokerData b=new BrokerData("c","broker-a",new HashMap<>(Map.of(0L,"10.0.0.1:10911",1L,"10.0.0.2:10911"))); r.setBrokerDatas(new ArrayList<>(List.of(b))); r.setFilterServerTable(new HashMap<>());
    p("TopicRouteData",r);
    System.out.println("TopicRouteDataStrict\t"+new String(r.encode(JSONWriter.Feature.BrowserCompatible, JSONWriter.Feature.MapSortField)));
    ClusterInfo ci=new ClusterInfo(); ci.setBrokerAddrTable(new HashMap<>(Map.of("broker-a",b))); ci.setClusterAddrTable(new HashMap<>(Map.of("c",new HashSet<>(Set.of("broker-a"))))); p("ClusterInfo",ci);
    KVTable kv=new KVTable(); kv.setTable(new HashMap<>(Map.of("k","v\u000b\u0001\u0085é😀'\"/<>\u2028"))); p("KVTable",kv);
    HeartbeatData h=new HeartbeatData(); h.setClientID("c@1"); ProducerData pd=new ProducerData(); pd.setGroupName("pg"); h.getProducerDataSet().add(pd); ConsumerData cd=new ConsumerData(); cd.setGroupName("cg"); cd.setConsumeType(ConsumeType.CONSUME_PASSIVELY); cd.setMessageModel(MessageModel.CLUSTERING); cd.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET); SubscriptionData sd=new SubscriptionData("t","a || b"); sd.getTagsSet().add("a"); sd.getCodeSet().add(97); sd.setSubVersion(123L); cd.getSubscriptionDataSet().add(sd); h.getConsumerDataSet().add(cd); p("HeartbeatData",h);
    h.setHeartbeatFingerprint(5); h.setWithoutSub(true); p("HeartbeatDataV2",h);
    DataVersion dv=new DataVersion(); dv.setCounter(new AtomicLong(3)); dv.setTimestamp(1700000000000L); dv.setStateVersion(7); p("DataVersion",dv);
    TopicConfig tc=new TopicConfig("t",4,4,6); p("TopicConfig",tc); tc.setAttributes(new HashMap<>(Map.of("message.type","FIFO"))); p("TopicConfigAttr",tc); System.out.println("TopicConfig.encode\t"+tc.encode());
    TopicConfig t0=new TopicConfig("t0",4,4,6); System.out.println("TopicConfig.encode0\t"+t0.encode());
    TopicConfigSerializeWrapper w=new TopicConfigSerializeWrapper(); w.setDataVersion(dv); w.getTopicConfigTable().put("t",tc); p("TopicConfigSerializeWrapper",w);
    RegisterBrokerBody rb=new RegisterBrokerBody(); rb.getTopicConfigSerializeWrapper().setDataVersion(dv); rb.getTopicConfigSerializeWrapper().getTopicConfigTable().put("t",tc); rb.getTopicConfigSerializeWrapper().getTopicConfigTable().put("t0",t0); p("RegisterBrokerBody",rb);
    System.out.println("RegisterBrokerBodyCompressed\t"+Base64.getEncoder().encodeToString(rb.encode(true)));
    SubscriptionGroupConfig g=new SubscriptionGroupConfig(); g.setGroupName("cg"); p("SubscriptionGroupConfig",g);
    SubscriptionGroupWrapper gw=new SubscriptionGroupWrapper(); gw.getSubscriptionGroupTable().put("cg",g); gw.setDataVersion(dv); p("SubscriptionGroupWrapper",gw);
    consumerList(); 
    CheckClientRequestBody cc=new CheckClientRequestBody(); cc.setClientId("c"); cc.setGroup("g"); cc.setSubscriptionData(sd); cc.setNamespace("n"); p("CheckClientRequestBody",cc);
    MessageQueue mq=new MessageQueue("t","broker-a",1); p("MessageQueue",mq);
    LockBatchRequestBody lb=new LockBatchRequestBody(); lb.setConsumerGroup("g"); lb.setClientId("c"); lb.getMqSet().add(mq); p("LockBatchRequestBody",lb);
    UnlockBatchRequestBody ub=new UnlockBatchRequestBody(); ub.setConsumerGroup("g"); ub.setClientId("c"); ub.getMqSet().add(mq); p("UnlockBatchRequestBody",ub);
    LockBatchResponseBody lr=new LockBatchResponseBody(); lr.getLockOKMQSet().add(mq); p("LockBatchResponseBody",lr);
    ConsumeStats cs=new ConsumeStats(); OffsetWrapper ow=new OffsetWrapper(); ow.setBrokerOffset(10); ow.setConsumerOffset(5); ow.setPullOffset(6); ow.setLastTimestamp(9); cs.getOffsetTable().put(mq,ow); cs.setConsumeTps(1.5); p("ConsumeStats",cs);
    TopicStatsTable ts=new TopicStatsTable(); TopicOffset to=new TopicOffset(); to.setMinOffset(1); to.setMaxOffset(2); to.setLastUpdateTimestamp(3); ts.getOffsetTable().put(mq,to); p("TopicStatsTable",ts);
    ResetOffsetBody ro=new ResetOffsetBody(); ro.setOffsetTable(new HashMap<>(Map.of(mq,7L))); p("ResetOffsetBody",ro);
    ResetOffsetBodyForC rc=new ResetOffsetBodyForC(); MessageQueueForC mc=new MessageQueueForC("t","broker-a",1,7L); rc.setOffsetTable(new ArrayList<>(List.of(mc))); p("ResetOffsetBodyForC",rc);
    GetConsumerStatusBody gs=new GetConsumerStatusBody(); gs.setMessageQueueTable(new HashMap<>(Map.of(mq,7L))); gs.setConsumerTable(new HashMap<>(Map.of("c",new HashMap<>(Map.of(mq,8L))))); p("GetConsumerStatusBody",gs);
    ConsumerRunningInfo ri=new ConsumerRunningInfo(); ri.getProperties().put("PROP_CONSUME_TYPE","CONSUME_PASSIVELY"); ri.getSubscriptionSet().add(sd); ProcessQueueInfo pi=new ProcessQueueInfo(); pi.setCommitOffset(3); ri.getMqTable().put(mq,pi); ri.getMqPopTable().put(mq,new PopProcessQueueInfo()); ConsumeStatus st=new ConsumeStatus(); ri.getStatusTable().put("t",st); ri.setJstack("js"); p("ConsumerRunningInfo",ri);
    ConsumeMessageDirectlyResult cr=new ConsumeMessageDirectlyResult(); cr.setConsumeResult(CMResult.CR_SUCCESS); cr.setRemark("r"); p("ConsumeMessageDirectlyResult",cr);
    ConsumerConnection ccn=new ConsumerConnection(); Connection cn=new Connection(); cn.setClientId("c"); cn.setClientAddr("1.1.1.1:1"); cn.setLanguage(LanguageCode.PYTHON); cn.setVersion(513); ccn.getConnectionSet().add(cn); ccn.getSubscriptionTable().put("t",sd); ccn.setConsumeType(ConsumeType.CONSUME_PASSIVELY); ccn.setMessageModel(MessageModel.CLUSTERING); ccn.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); p("ConsumerConnection",ccn);
    ProducerConnection pc=new ProducerConnection(); pc.getConnectionSet().add(cn); p("ProducerConnection",pc);
    TopicList tl=new TopicList(); tl.getTopicList().add("t"); p("TopicList",tl); GroupList gl=new GroupList(); gl.getGroupList().add("g"); p("GroupList",gl);
    ConsumerOffsetSerializeWrapper co=new ConsumerOffsetSerializeWrapper(); co.getOffsetTable().put("t@g",new ConcurrentHashMap<>(Map.of(0,5L,1,6L))); co.setDataVersion(dv); p("ConsumerOffset",co);
    QueryConsumeTimeSpanBody qb=new QueryConsumeTimeSpanBody(); QueueTimeSpan qs=new QueueTimeSpan(); qs.setMessageQueue(mq); qb.setConsumeTimeSpanSet(new ArrayList<>(List.of(qs))); p("QueryConsumeTimeSpanBody",qb);
    QueryCorrectionOffsetBody qc=new QueryCorrectionOffsetBody(); qc.getCorrectionOffsets().put(1,5L); p("QueryCorrectionOffsetBody",qc);
    BrokerStatsData bs=new BrokerStatsData(); BrokerStatsItem bi=new BrokerStatsItem(); bi.setSum(1); bi.setTps(2); bi.setAvgpt(3); bs.setStatsMinute(bi); p("BrokerStatsData",bs);
    RemotingCommand c=RemotingCommand.createRequestCommand(105,null); c.addExtField("topic","x\u000b\u0001\u0002\u007f\u0085é😀/<\u2028"); c.setRemark("r"); c.setLanguage(LanguageCode.PYTHON); java.nio.ByteBuffer bb=c.encode(); System.out.println("RemotingCommand\t"+new String(bb.array(),8,bb.getInt(4)&0xffffff,"UTF-8"));
    RemotingCommand c2=RemotingCommand.createResponseCommand(0,null); bb=c2.encode(); System.out.println("RemotingCommandBare\t"+new String(bb.array(),8,bb.getInt(4)&0xffffff,"UTF-8"));
    ConsumeStatsList csl=new ConsumeStatsList(); csl.setBrokerAddr("b"); csl.getConsumeStatsList().add(new HashMap<>(Map.of("g",new ArrayList<>(List.of(cs))))); p("ConsumeStatsList",csl);
    ProducerTableInfo pt=new ProducerTableInfo(new HashMap<>(Map.of("g",new ArrayList<>(List.of(new ProducerInfo("c","1.1.1.1:1",LanguageCode.JAVA,513,9L)))))); p("ProducerTableInfo",pt);
    QueryConsumeQueueResponseBody qq=new QueryConsumeQueueResponseBody(); ConsumeQueueData qd=new ConsumeQueueData(); qq.setQueueData(new ArrayList<>(List.of(qd))); p("QueryConsumeQueueResponseBody",qq);
  }
  static void consumerList() throws Exception { var x = new org.apache.rocketmq.remoting.protocol.header.GetConsumerListByGroupResponseBody(); x.setConsumerIdList(new ArrayList<>(List.of("a","b"))); p("GetConsumerListByGroupResponseBody",x); }
}
