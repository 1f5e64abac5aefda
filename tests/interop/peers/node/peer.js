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

function received(message) {
  return {
    body: message.body.toString('base64'),
    topic: message.topic,
    tags: message.tags,
    keys: message.keys,
    msgId: message.msgId,
    queueId: message.queueId,
    queueOffset: Number(message.queueOffset),
    reconsumeTimes: message.reconsumeTimes,
    at: Date.now(),
  };
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
    printLine(received(message));
  });
  await consumer.ready();
  printLine({ event: 'started' });
  process.stdin.resume();
  await new Promise(resolve => process.stdin.on('end', resolve));
  await consumer.close();
}

// Commands from standard input, one a line, each answered by one line.
class Session {
  constructor(namesrv) {
    this.namesrv = namesrv;
    this.members = new Map();
    this.sender = null;
  }

  async run() {
    printLine({ event: 'started' });
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const [ word, ...pairs ] = line.split('\t');
      const fields = Object.fromEntries(pairs.map(pair => {
        const at = pair.indexOf('=');
        return [ pair.slice(0, at), pair.slice(at + 1) ];
      }));
      try {
        printLine({ done: word, ...await this[word](fields) });
      } catch (error) {
        printLine({ failed: String(error) });
      }
    }
    for (const member of this.members.values()) await member.close();
    if (this.sender) await this.sender.close();
  }

  async open(fields) {
    const member = new Consumer(options(this.namesrv, {
      consumerGroup: fields.group,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      instanceName: fields.instance,
      isBroadcast: fields.kind === 'broadcast',
      parallelConsumeLimit: Number(fields.threads || 1),
      ...(fields.retries ? { maxReconsumeTimes: Number(fields.retries) } : {}),
    }));
    member.on('error', error => console.error(error));
    for (const topic of fields.topics.split(',')) {
      member.subscribe(topic, fields.tags || '*', async message => handle(fields.name, message));
    }
    await member.ready();
    this.members.set(fields.name, member);
  }

  async close(fields) {
    const member = this.members.get(fields.name);
    this.members.delete(fields.name);
    await member.close();
  }

  async send(fields) {
    if (!this.sender) {
      this.sender = new Producer(options(this.namesrv, { producerGroup: 'session-producer' }));
      this.sender.on('error', error => console.error(error));
      await this.sender.ready();
    }
    const message = new Message(fields.topic, fields.tags, Buffer.from(fields.body, 'base64'));
    message.keys = [ fields.keys ];
    for (const [ key, value ] of Object.entries(fields)) {
      if (key.startsWith('p.')) message.properties[key.slice(2)] = value;
    }
    if (fields.level) message.delayTimeLevel = Number(fields.level);
    const result = await this.sender.send(message);
    return { status: result.sendStatus };
  }
}

async function handle(name, message) {
  printLine({ ...received(message), consumer: name });
  const body = message.body.toString();
  const millis = number(body, /take=(\d+)/);
  if (millis) await new Promise(resolve => setTimeout(resolve, millis));
  // what a handler returns is not looked at when the message has come again
  if (message.reconsumeTimes < number(body, /fail=(\d+)/)) throw new Error('as told');
}

function number(body, pattern) {
  const found = pattern.exec(body);
  return found ? Number(found[1]) : 0;
}

function session(namesrv) {
  return new Session(namesrv).run();
}

const [ command, ...rest ] = process.argv.slice(2);
({ produce, consume, session })[command](...rest)
  .then(() => process.exit(0))
  .catch(error => {
    console.error(error);
    process.exit(1);
  });
