"""Cost over who is connected and what is kept of them: held pulls, idle members, groups."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from benchmarks.growth.axis import Axis, Values
from benchmarks.growth.lines import Kind, Line
from benchmarks.growth.server import BODY_BYTES, WINDOW, Server
from benchmarks.growth.watching import disk_mb
from benchmarks.targets.brokers import RocketMQTarget

HOLDERS: Final = 10  # connections over which pulls are held
HELD_QUEUES: Final = 50  # of each topic, each with one held pull
HELD_MS: Final = 900_000
HEARTBEAT_S: Final = 30  # of RocketMQ's clients and ours
MEMBERS_PER_GROUP: Final = 3  # fixed: who joins is told to all of the group
QUEUES: Final = 4
SAVE_S_MAX: Final = 30.0
IDLE_STORE_MB_MOST: Final = 200  # of a broker that nobody sends to
TICK_S: Final = 0.02
_SEND_MESSAGE_V2, _PULL, _UPDATE_OFFSET, _HEARTBEAT, _GROUP, _GROUP_LIST = 310, 11, 15, 34, 200, 225

MEMORY: Final = ("memory_mb", "RssAnon, MB", Kind.TOTAL, 2)
REST: Final = ("resting_ms", "CPU ms of a second at rest", Kind.TOTAL, 1)


class HeldPulls(Axis):
    """Sends of which each wakes one pull; the rest goes on waiting."""

    name = "held"
    title = "Held pulls, each of its own queue; sends that wake one each"
    unit = "held pulls"
    sizes = (100, 1_000, 10_000)
    quick = (100, 250, 500)
    lines = (
        Line("wake_us", "CPU us of a send that wakes one, which is held again", resolution=2),
        Line(*REST, further="CPU us of a second at rest, a further pull", scale=1000),
        Line(*MEMORY, further="RssAnon, KB a further pull", scale=1000),
    )

    def __init__(self) -> None:
        self._ends: Counter[int] = Counter()  # by queue

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Hold more pulls, wait, then wake some that lie evenly among all, again and again."""
        if not before:
            server.wire.open(1 + HOLDERS)
            self._ends.clear()
        topics = range(before // HELD_QUEUES, size // HELD_QUEUES)
        server.make_topics((f"Held{at}" for at in topics), HELD_QUEUES)
        if not before:
            server.warm()
        for at in range(before, size):
            self._hold(server, at)
        time.sleep(1.0)
        values = {"resting_ms": server.resting_ms(), "memory_mb": server.memory_mb()}
        queues = [turn * size // WINDOW for turn in range(WINDOW)]
        windows = max(5, int(server.bench.seconds * 50))
        self._wake(server, queues, 5)
        used_us = server.cpu_us(lambda: self._wake(server, queues, windows))
        yield values | {"wake_us": used_us / (windows * len(queues))}

    def _wake(self, server: Server, queues: list[int], windows: int) -> None:
        for _ in range(windows):
            server.wire.send(0, *(self._message(server, at) for at in queues))
            server.wire.take(2 * len(queues))  # of senders and of those that waited
            for at in queues:
                self._ends[at] += 1
                self._hold(server, at)

    def _hold(self, server: Server, at: int) -> None:
        fields = {
            "consumerGroup": "GrowthHeld", "topic": f"Held{at // HELD_QUEUES}",
            "queueId": str(at % HELD_QUEUES), "queueOffset": str(self._ends[at]),
            "maxMsgNums": "32",
            "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": str(HELD_MS),
            "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        server.wire.send(1 + at % HOLDERS, server.wire.frame(_PULL, fields))

    def _message(self, server: Server, at: int) -> bytes:
        fields = {
            "a": "GrowthProducer", "b": f"Held{at // HELD_QUEUES}", "c": "TBW102", "d": "4",
            "e": str(at % HELD_QUEUES), "f": "0", "g": str(int(time.time() * 1000)), "h": "0",
            "i": "TAGS\x01TagA\x02", "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return server.wire.frame(_SEND_MESSAGE_V2, fields, b"x" * BODY_BYTES)


class Members(Axis):
    """Consumers that do nothing but say every 30 s that they are there."""

    name = "members"
    title = f"Idle members, {MEMBERS_PER_GROUP} a group, a heartbeat every {HEARTBEAT_S} s"
    unit = "members"
    sizes = (1_000, 3_000, 9_000)
    quick = (60, 180, 540)
    lines = (
        Line(*REST, further="CPU us of a second at rest, a further member", scale=1000),
        Line("join_us", "CPU us to connect and join", resolution=20),
        Line(*MEMORY, further="RssAnon, KB a further member", scale=1000),
        Line("store_mb", "disk space of the store, MB", Kind.SHOWN, most=IDLE_STORE_MB_MOST),
    )

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Let more join, a window at a time, and then send heartbeats as they come due."""
        if not before:
            server.make_topics(iter(["GrowthIdle"]), QUEUES)
            server.hang_up()
        joined_us = server.cpu_us(lambda: self._join(server, before, size))
        values = {"join_us": joined_us / (size - before)}
        self._beat(server, size, 1.0)
        values["memory_mb"] = server.memory_mb()
        seconds = server.bench.rest_s
        used_us = server.cpu_us(lambda: self._beat(server, size, seconds))
        values["store_mb"] = disk_mb(server.target.cluster.store)
        yield values | {"resting_ms": used_us / 1000 / seconds}

    def _join(self, server: Server, before: int, size: int) -> None:
        wire = server.wire
        for begin in range(before, size, WINDOW):
            wave = range(begin, min(size, begin + WINDOW))
            wire.open(len(wave))
            for at in wave:
                wire.send(at, self._heartbeat(server, at))
            wire.take(len(wave))

    def _beat(self, server: Server, members: int, seconds: float) -> None:
        wire, began, sent, answered = server.wire, time.monotonic(), 0, 0
        while (passed := time.monotonic() - began) < seconds:
            while sent < passed * members / HEARTBEAT_S:
                wire.send(sent % members, self._heartbeat(server, sent % members))
                sent += 1
            time.sleep(TICK_S)
            answered += wire.poll(0)
        wire.take(sent - answered)

    def _heartbeat(self, server: Server, at: int) -> bytes:
        subscription = {
            "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
            "subVersion": 1, "tagsSet": [], "topic": "GrowthIdle",
        }  # fmt: skip
        consumer = {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
            "groupName": f"GrowthGroup{at // MEMBERS_PER_GROUP}", "messageModel": "CLUSTERING",
            "subscriptionDataSet": [subscription], "unitMode": False,
        }  # fmt: skip
        body = {
            "clientID": f"127.0.0.1@{at}", "consumerDataSet": [consumer],
            "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
        }  # fmt: skip
        return server.wire.frame(_HEARTBEAT, {}, json.dumps(body).encode())


class Groups(Axis):
    """Consumer groups with committed offsets, of which some commit."""

    name = "groups"
    title = f"Consumer groups with offsets of {QUEUES} queues"
    unit = "groups"
    sizes = (25, 250, 2_500, 25_000)
    quick = (25, 100, 400)
    settings = {"flushConsumerOffsetInterval": "1000"}  # noqa: RUF012
    lines = (
        Line("commit_us", "CPU us of a commit", resolution=0.5),
        Line("make_us", "CPU us to make a group", resolution=20),
        Line("save_ms", "CPU ms until one commit is saved", Kind.TOTAL, 10,
             further="CPU us of saving, a further group", scale=1000),
        Line(*MEMORY, further="RssAnon, KB a further group", scale=1000),
        Line("start_s", "start, s", Kind.TOTAL, 0.02,
             further="start, us a further group", scale=1e6),
    )  # fmt: skip

    def __init__(self) -> None:
        self._turn = 0

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Have more groups commit, then some of all of them, and one whose commit is waited for."""
        if not before:
            server.make_topics(iter(["GrowthRead"]), QUEUES)
            server.send(["send", "--topic", "GrowthRead", "--queues", "4", "--body", "16"], 400)
        made_us = server.cpu_us(lambda: self._make_groups(server, before, size))
        values = {"make_us": made_us / (size - before)}
        server.warm()
        server.pipeline(self._commits(server, range(before, size), 1))
        count = max(500, int(server.bench.seconds * 10_000)) // QUEUES
        some = [turn * size // count for turn in range(count)]
        used_us = server.cpu_us(lambda: server.pipeline(self._commits(server, some, 2)))
        values["commit_us"] = used_us / (count * QUEUES)
        self._saved(server)
        values["save_ms"] = server.cpu_us(lambda: self._saved(server)) / 1000
        values["memory_mb"] = server.memory_mb()
        values["start_s"] = server.restart()
        yield values

    def _saved(self, server: Server) -> None:
        """Commit once and wait until the table's file is another one."""
        path = server.target.cluster.store / "config" / "consumerOffset.json"
        before = path.stat() if path.exists() else None
        deadline = time.monotonic() + SAVE_S_MAX
        self._turn = self._turn % 50 + 1  # what is committed already is not saved again
        server.pipeline(self._commits(server, [0], self._turn + 2))
        while not path.exists() or (before and path.stat().st_mtime_ns == before.st_mtime_ns):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path.name} is not written after {SAVE_S_MAX:.0f} s")
            time.sleep(TICK_S)
        time.sleep(0.2)  # for what comes after the rename

    def _commits(self, server: Server, groups: "range | list[int]", offset: int) -> Iterator[bytes]:
        for group in groups:
            for queue in range(QUEUES):
                fields = {
                    "consumerGroup": f"GrowthGroup{group}", "topic": "GrowthRead",
                    "queueId": str(queue), "commitOffset": str(offset),
                }  # fmt: skip
                yield server.wire.frame(_UPDATE_OFFSET, fields)

    def _make_groups(self, server: Server, before: int, size: int) -> None:
        """Have the broker know the groups, for it refuses commits of others.

        RocketMQ writes all groups down for each request: it gets them in one.
        """
        made = [{"groupName": f"GrowthGroup{at}"} for at in range(before, size)]
        if isinstance(server.target, RocketMQTarget):
            body = json.dumps({"groupConfigList": made}).encode()
            server.pipeline(iter([server.wire.frame(_GROUP_LIST, {}, body)]))
            return
        server.pipeline(server.wire.frame(_GROUP, {}, json.dumps(each).encode()) for each in made)
