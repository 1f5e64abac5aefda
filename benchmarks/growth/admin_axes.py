"""Cost over topics of what a broker does beside messages: administrators, dashboards, scrapes."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.growth.axis import Axis, Values
from benchmarks.growth.client_axes import REST
from benchmarks.growth.lines import Kind, Line
from benchmarks.growth.server import Server
from benchmarks.growth.watching import scraped
from benchmarks.targets.brokers import AerobeeTarget

QUEUES: Final = 4
CHANGED: Final = 20  # topics that come, and go, one after the other
TIMES: Final = 5  # each answer
TOPICS_PER_GROUP: Final = 10
_DELETE, _SEND, _COMMIT, _GROUP = 215, 310, 15, 200
_ANSWERS: Final = (21, 201, 43, 28)  # all topics, groups, offsets, the counters


class Administration(Axis):
    """One more topic, one less, the tables as answers, a scrape."""

    name = "admin"
    title = f"Topics of {QUEUES} queues, what is done beside messages"
    unit = "topics"
    sizes = (100, 1_000, 10_000)
    quick = (100, 250, 625)
    lines = (
        Line("more_ms", "CPU ms of one more topic", Kind.TOTAL, 1,
             further="CPU us of one more, a further topic", scale=1000),
        Line("less_ms", "CPU ms of deleting one", Kind.TOTAL, 2,
             further="CPU us of deleting one, a further topic", scale=1000),
        Line("answer_ms", "CPU ms of 21, 201, 43 and 28", Kind.TOTAL, 2,
             further="CPU us of these, a further topic", scale=1000),
        Line("scrape_ms", "CPU ms of a scrape", Kind.TOTAL, 20,
             further="CPU us of a scrape, a further topic", scale=1000),
        Line(*REST, further="CPU us of a second at rest, a further topic", scale=1000),
    )  # fmt: skip

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Have more topics, each with a message and a group's offset; then do each a few times."""
        names = [f"Admin{at}" for at in range(before, size)]
        server.make_topics(iter(names), QUEUES)
        groups = range(before, size, TOPICS_PER_GROUP)
        server.pipeline(server.wire.frame(_GROUP, {}, _group(at)) for at in groups)
        server.pipeline(self._message(server, name) for name in names)
        server.pipeline(self._commit(server, at) for at in range(before, size))
        server.warm()
        time.sleep(server.bench.rest_s)  # until files are made
        some = [f"Some{size}x{at}" for at in range(CHANGED)]
        values = {"more_ms": self._each(server, lambda name: self._make(server, name), some)}
        server.pipeline(self._message(server, name) for name in some)
        values["less_ms"] = self._each(server, lambda name: self._delete(server, name), some)
        values["answer_ms"] = self._each(server, lambda _: self._answers(server), some[:TIMES])
        if isinstance(server.target, AerobeeTarget):
            port = server.target.http_port
            scraped(port)  # the first one imports what makes it
            values["scrape_ms"] = self._each(server, lambda _: scraped(port), some[:TIMES])
        yield values | {"resting_ms": server.resting_ms()}

    def _each(self, server: Server, work: Callable[[str], object], names: list[str]) -> float:
        def all_of_them() -> None:
            for name in names:
                work(name)

        return server.cpu_us(all_of_them) / 1000 / len(names)

    def _make(self, server: Server, name: str) -> None:
        server.make_topics(iter([name]), QUEUES)

    def _delete(self, server: Server, name: str) -> None:
        server.pipeline(iter([server.wire.frame(_DELETE, {"topic": name})]))

    def _answers(self, server: Server) -> None:
        server.pipeline(server.wire.frame(code, {}) for code in _ANSWERS)

    def _message(self, server: Server, topic: str) -> bytes:
        fields = {
            "a": "GrowthProducer", "b": topic, "c": "TBW102", "d": str(QUEUES), "e": "0", "f": "0",
            "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false",
            "m": "false",
        }  # fmt: skip
        return server.wire.frame(_SEND, fields, b"x")

    def _commit(self, server: Server, at: int) -> bytes:
        fields = {
            "consumerGroup": f"AdminGroup{at // TOPICS_PER_GROUP}", "topic": f"Admin{at}",
            "queueId": "0", "commitOffset": "0",
        }  # fmt: skip
        return server.wire.frame(_COMMIT, fields)


def _group(topic: int) -> bytes:
    """Return the body that makes the group of some topics."""
    return json.dumps({"groupName": f"AdminGroup{topic // TOPICS_PER_GROUP}"}).encode()
