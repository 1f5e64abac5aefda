"""The C++ peer: librocketmq through its Python binding, one JSON object a line.

Sends what its standard input lists, prints what it receives, or obeys commands.
"""

import base64
import json
import re
import sys
import threading
import time

from rocketmq.client import Message, MessageModel, Producer, PushConsumer, RecvMessage
from rocketmq.ffi import dll

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


def received(message, **more):
    print_line(
        body=base64.b64encode(message.body).decode(),
        topic=message.topic,
        tags=message.tags.decode(),
        keys=message.keys.decode(),
        msgId=message.id,
        queueId=message.queue_id,
        queueOffset=message.queue_offset,
        reconsumeTimes=message.reconsume_times,
        at=time.time() * 1000,
        **more,
    )


class Session:
    """Commands from standard input, one a line, each answered by one line."""

    def __init__(self, namesrv):
        self.namesrv = namesrv
        self.members = {}
        self.sender = None

    def run(self):
        print_line(event="started")
        for line in sys.stdin:
            word, *pairs = line.rstrip("\n").split("\t")
            fields = dict(pair.split("=", 1) for pair in pairs)
            try:
                print_line(done=word, **(getattr(self, word)(fields) or {}))
            except Exception as error:  # noqa: BLE001 - whatever it is, who asked must hear it
                print_line(failed=repr(error))
        for member in self.members.values():
            member.shutdown()
        if self.sender is not None:
            self.sender.shutdown()

    def open(self, fields):
        member = PushConsumer(
            fields["group"],
            orderly=fields["kind"] == "orderly",
            message_model=(
                MessageModel.BROADCASTING
                if fields["kind"] == "broadcast"
                else MessageModel.CLUSTERING
            ),
        )
        member.set_namesrv_addr(self.namesrv)
        member.set_instance_name(fields["instance"])
        member.set_message_batch_max_size(1)  # else one failure is the whole batch's
        if "threads" in fields:
            member.set_thread_count(int(fields["threads"]))
        handler = self.handler(fields["name"], fields["kind"] == "orderly")
        for topic in fields["topics"].split(","):
            dll.Subscribe(member._handle, topic.encode(), fields.get("tags", "*").encode())
        # the binding's own callback turns every failure into a success
        member._register_callback(lambda _, message: int(not handler(RecvMessage(message))))
        member.start()
        self.members[fields["name"]] = member

    def handler(self, name, orderly):
        tries = {}  # in order, the client does not count how often a message failed

        def handle(message):
            received(message, consumer=name)
            body, place = message.body, (message.queue_id, message.queue_offset)
            tries[place] = tries.get(place, -1) + 1
            if millis := number(body, b"take="):
                time.sleep(millis / 1000)
            failed = tries[place] if orderly else message.reconsume_times
            return failed >= number(body, b"fail=")

        return handle

    def close(self, fields):
        self.members.pop(fields["name"]).shutdown()

    def producer(self):
        if self.sender is None:
            self.sender = Producer("session-producer")
            self.sender.set_namesrv_addr(self.namesrv)
            self.sender.start()
        return self.sender

    def send(self, fields):
        message = Message(fields["topic"])
        message.set_tags(fields["tags"])
        message.set_keys(fields["keys"])
        message.set_body(base64.b64decode(fields["body"]))
        for key, value in fields.items():
            if key.startswith("p."):
                message.set_property(key[2:], value)
        if "level" in fields:
            message.set_delay_time_level(int(fields["level"]))
        result = self.producer().send_sync(message)
        return {"status": "SEND_OK" if result.status == 0 else result.status.name}


def number(body, word):
    """The number behind a word of the body, 0 if the word is not there."""
    found = re.search(word + rb"(\d+)", body)
    return int(found[1]) if found else 0


def session(namesrv):
    Session(namesrv).run()


{"produce": produce, "consume": consume, "session": session}[sys.argv[1]](*sys.argv[2:])
