"""The C++ peer: librocketmq through its Python binding, one JSON object a line.

Sends what its standard input lists, or prints what it receives.
"""

import base64
import json
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer

printing = threading.Lock()


def print_line(**fields):
    line = json.dumps(fields) + "\n"
    with printing:
        sys.stdout.write(line)
        sys.stdout.flush()


def produce(namesrv, topic, group):
    producer = Producer(group)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    for line in sys.stdin:
        tags, keys, body = line.rstrip("\n").split("\t")
        message = Message(topic)
        message.set_tags(tags)
        message.set_keys(keys)
        message.set_body(base64.b64decode(body))
        result = producer.send_sync(message)
        status = "SEND_OK" if result.status == 0 else result.status.name
        print_line(status=status, msgId=result.msg_id, queueOffset=result.offset)
    producer.shutdown()


def consume(namesrv, topic, group, expression):
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, received, expression)
    consumer.start()
    print_line(event="started")
    sys.stdin.read()
    consumer.shutdown()


def received(message):
    print_line(
        body=base64.b64encode(message.body).decode(),
        topic=message.topic,
        tags=message.tags.decode(),
        keys=message.keys.decode(),
        msgId=message.id,
        queueId=message.queue_id,
        queueOffset=message.queue_offset,
    )


{"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:])
