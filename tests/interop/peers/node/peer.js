'use strict';

// The Node peer: sends what its standard input lists, or prints what it receives, one JSON object a
// line.

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };

function options(namesrv, group) {
  // an address server would be asked through httpclient; nameSrv is given, yet it must be there
  return { nameSrv: namesrv, httpclient: {}, logger: quiet, ...group };
}

function printLine(fields) {
  process.stdout.write(JSON.stringify(fields) + '\n');
}

async function produce(namesrv, topic, group) {
  const producer = new Producer(options(namesrv, { producerGroup: group }));
  producer.on('error', error => console.error(error));
  await producer.ready();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [ tags, keys, body ] = line.split('\t');
    const message = new Message(topic, tags, Buffer.from(body, 'base64'));
    message.keys = [ keys ];
    const result = await producer.send(message);
    printLine({
      status: result.sendStatus,
      msgId: result.msgId,
      queueId: result.messageQueue.queueId,
      queueOffset: Number(result.queueOffset),
    });
  }
  await producer.close();
}

async function consume(namesrv, topic, group, expression) {
  const consumer = new Consumer(options(namesrv, {
    consumerGroup: group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  }));
  consumer.on('error', error => console.error(error));
  consumer.subscribe(topic, expression, async message => {
    printLine({
      body: message.body.toString('base64'),
      topic: message.topic,
      tags: message.tags,
      keys: message.keys,
      msgId: message.msgId,
      queueId: message.queueId,
      queueOffset: Number(message.queueOffset),
    });
  });
  await consumer.ready();
  printLine({ event: 'started' });
  process.stdin.resume();
  await new Promise(resolve => process.stdin.on('end', resolve));
  await consumer.close();
}

const [ command, ...rest ] = process.argv.slice(2);
({ produce, consume })[command](...rest)
  .then(() => process.exit(0))
  .catch(error => {
    console.error(error);
    process.exit(1);
  });
