"""Our own client as a peer: a process that obeys the same commands as the foreign ones."""

import asyncio
import base64
import json
import random
import re
import sys
import time
from typing import Any, Final

from aerobee.client import (
    ClientError,
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)

BROKER: Final = "broker-a"
POLL_MS: Final = 200
ROUTES_MS: Final = 2_000  # between looks for new queues
PUMP_STEP_S: Final = 0.005
PUMP_UNDER_WAY_MAX: Final = 500
ORDERLY_PAUSE_MS: Final = 100
Fields = dict[str, str]


def print_line(**fields: object) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def print_received(name: str, message: ReceivedMessage) -> None:
    """Print a message that a consumer got."""
    print_line(
        body=base64.b64encode(message.body).decode(),
        topic=message.topic,
        tags=message.tags,
        keys=" ".join(message.keys),
        msgId=message.message_id,
        queueId=message.queue.queue_id,
        queueOffset=message.queue_offset,
        reconsumeTimes=message.reconsume_times,
        at=time.time() * 1000,
        consumer=name,
    )


async def handle(name: str, message: ReceivedMessage) -> ConsumeResult:
    """Print a message, take as long as its body says, and fail as often as it says."""
    print_received(name, message)
    if millis := number(message.body, b"take="):
        await asyncio.sleep(millis / 1000)
    failed = message.reconsume_times < number(message.body, b"fail=")
    return ConsumeResult.LATER if failed else ConsumeResult.SUCCESS


def number(body: bytes, word: bytes) -> int:
    """Return the number behind a word of the body, 0 if the word is not there."""
    found = re.search(word + rb"(\d+)", body)
    return int(found[1]) if found else 0


class Session:
    """Commands from standard input, one a line, each answered by one line."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.members: dict[str, PushConsumer | LiteMember] = {}
        self.sender: Producer | None = None

    async def run(self) -> None:
        """Obey until the input ends, then close everything."""
        print_line(event="started")
        lines = asyncio.StreamReader(limit=1 << 24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := (await lines.readline()).decode():
            word, *pairs = line.rstrip("\n").split("\t")
            fields = dict(pair.split("=", 1) for pair in pairs)
            try:
                print_line(done=word, **await self.obey(word, fields))
            except Exception as error:  # noqa: BLE001 - whatever it is, who asked must hear it
                print_line(failed=repr(error))
        for member in self.members.values():
            await member.close()
        if self.sender is not None:
            await self.sender.close()

    async def obey(self, word: str, fields: Fields) -> dict[str, Any]:
        """Do what a command says and return its answer."""
        if word == "open":
            await self.open(fields)
        elif word == "close":
            await self.members.pop(fields["name"]).close()
        elif word == "send":
            return await self.send(fields)
        elif word == "pump":
            self.pump = Pump(self.namesrv, fields)
            self.pumping = asyncio.create_task(self.pump.run())
        elif word == "pump-stop":
            self.pump.stopping = True
            return {"sent": await self.pumping}
        else:
            member = self.members[fields["name"]]
            assert isinstance(member, LiteMember), f"a push consumer does not know {word}"
            return await member.steer(word, fields)
        return {}

    async def open(self, fields: Fields) -> None:
        """Start a consumer."""
        name, topics = fields["name"], fields["topics"].split(",")
        instance = fields.get("instance", "")
        client = ClientSettings(instance_name=instance, route_interval_ms=ROUTES_MS)
        if fields["kind"] == "lite":
            member = LiteMember(self.namesrv, fields, client)
            await member.start()
            self.members[name] = member
            return
        consumer = PushConsumer(
            fields["group"],
            namesrv=self.namesrv,
            client=client,
            settings=PushSettings(
                concurrency=int(fields.get("threads", 20)),
                max_reconsume_times=int(fields.get("retries", -1)),
                suspend_ms=ORDERLY_PAUSE_MS,
            ),
            consume_from=ConsumeFrom.FIRST,
            model=(
                MessageModel.BROADCASTING
                if fields["kind"] == "broadcast"
                else MessageModel.CLUSTERING
            ),
            ordered=fields["kind"] == "orderly",
        )
        handler = named(name)
        for topic in topics:
            consumer.subscribe(topic, handler, tags=fields.get("tags", "*"), sql=fields.get("sql"))
        await consumer.start()
        self.members[name] = consumer

    async def producer(self) -> Producer:
        """Return the sender, started."""
        if self.sender is None:
            self.sender = Producer("session-producer", namesrv=self.namesrv)
            await self.sender.start()
        return self.sender

    async def send(self, fields: Fields) -> dict[str, Any]:
        """Send one message."""
        message = Message(
            fields["topic"],
            base64.b64decode(fields["body"]),
            tags=fields["tags"],
            keys=fields["keys"],
            delay_level=int(fields.get("level", 0)),
            properties={key[2:]: value for key, value in fields.items() if key[:2] == "p."},
        )
        result = await (await self.producer()).send(message)
        return {"status": result.status.name, "queueId": result.queue.queue_id}


def named(name: str) -> Any:
    """Return the handler of the consumer of this name."""

    async def handler(message: ReceivedMessage) -> ConsumeResult:
        return await handle(name, message)

    return handler


class LiteMember:
    """A lite pull consumer that a task polls."""

    def __init__(self, namesrv: str, fields: Fields, client: ClientSettings) -> None:
        self.name, self.fields = fields["name"], fields
        self.consumer = LitePullConsumer(
            fields["group"], namesrv=namesrv, client=client, consume_from=ConsumeFrom.FIRST
        )
        self.closing = False

    async def start(self) -> None:
        """Subscribe or assign, and poll."""
        given = self.fields.get("assign")
        for topic in self.fields["topics"].split(",") if given is None else ():
            tags, sql = self.fields.get("tags", "*"), self.fields.get("sql")
            self.consumer.subscribe(topic, tags=tags, sql=sql)
        await self.consumer.start()
        if given is not None:
            topic = self.fields["topics"]
            queues = [MessageQueue(topic, BROKER, int(queue)) for queue in given.split(",")]
            await self.consumer.assign(queues)
        self.poller = asyncio.create_task(self.poll())

    async def poll(self) -> None:
        """Hand every batch to the handler."""
        while not self.closing:
            for message in await self.consumer.poll(POLL_MS):
                await handle(self.name, message)

    async def close(self) -> None:
        """Stop polling and leave."""
        self.closing = True
        await self.poller
        await self.consumer.close()

    async def steer(self, word: str, fields: Fields) -> dict[str, Any]:
        """Seek, pause and tell offsets."""
        queue = MessageQueue(fields["topic"], BROKER, int(fields["queue"]))
        if word == "seek":
            await self.consumer.seek(queue, int(fields["offset"]))
        elif word == "seek-begin":
            await self.consumer.seek_to_begin(queue)
        elif word == "seek-end":
            await self.consumer.seek_to_end(queue)
        elif word == "pause":
            self.consumer.pause([queue])
        elif word == "resume":
            self.consumer.resume([queue])
        elif word == "committed":
            offset = await self.consumer.committed(queue)
            return {"offset": -1 if offset is None else offset}
        elif word == "offset-for":
            time_ms = int(fields["time"])
            return {"offset": await self.consumer.offset_for_timestamp(queue, time_ms)}
        else:
            raise ValueError(f"a lite pull consumer does not know {word}")
        return {}


class Pump:
    """Sends numbered messages at a steady rate until it is stopped; each is stored in the end.

    A message lasts `take_ms_max` at most in its handler, each `slow_every`th `slow_ms`. A broker
    that does not keep up gets them more slowly: PUMP_UNDER_WAY_MAX are sent at a time.
    """

    def __init__(self, namesrv: str, fields: Fields) -> None:
        self.topics = fields["topics"].split(",")
        self.rate = int(fields["rate"])
        self.take_ms_max = int(fields["take"])
        self.slow_every, self.slow_ms = int(fields["slow_every"]), int(fields["slow"])
        client = ClientSettings(route_interval_ms=ROUTES_MS)
        self.producer = Producer("pump", namesrv=namesrv, client=client)
        self.random = random.Random(self.rate)
        self.stopping = False
        self.free = asyncio.Semaphore(PUMP_UNDER_WAY_MAX)

    async def run(self) -> int:
        """Send until told to stop; return how many messages are stored."""
        async with self.producer, asyncio.TaskGroup() as sends:
            due, number, last = 0.0, 0, time.perf_counter()
            while not self.stopping:
                now = time.perf_counter()
                due, last = due + (now - last) * self.rate, now
                while number < due and not self.free.locked():
                    await self.free.acquire()
                    sends.create_task(self.send(number))
                    number += 1
                due = min(due, number + 1)  # what could not be sent in time is left out
                await asyncio.sleep(PUMP_STEP_S)
        return number

    async def send(self, number: int) -> None:
        """Send one message until it is stored."""
        take_ms = self.random.randint(0, self.take_ms_max)
        if number % self.slow_every == self.slow_every - 1:
            take_ms = self.slow_ms
        message = Message(
            self.topics[number % len(self.topics)], b"%d take=%d" % (number, take_ms), tags="T"
        )
        while True:
            try:
                await self.producer.send(message)
            except ClientError:
                await asyncio.sleep(PUMP_STEP_S)
                continue
            self.free.release()
            return


if __name__ == "__main__":
    import uvloop

    uvloop.run(Session(sys.argv[2]).run())
