"""Servers and peer programs that stay up while many cases use them, each with names of its own."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, Self

from support.interop.cluster import Cluster
from support.interop.peers import OURS, Content, Peer
from support.interop.raw_messages import create_group, create_topic, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.sessions import Session

DELAYS_S: Final = (1, 2)  # of the first two delay levels; retries, from the third on, wait 1 s
SETTINGS: Final[Mapping[str, str]] = {
    "messageDelayLevel": " ".join(["1s", "2s", *["1s"] * 16]),
    "enablePropertyFilter": "true",
}


def is_all_foreign(case: Mapping[str, object]) -> bool:
    """Whether a case of `meeting` has RocketMQ's broker and a client that is not ours."""
    foreign_client = isinstance(client := case.get("client"), Peer) and client is not OURS
    return case.get("meeting") == "rocketmq" and foreign_client


class Meeting:
    """A cluster and, for each peer that is asked for, one running session."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._sessions: dict[str, Session] = {}
        self._topics = Counter[str]()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.broker = RawClient(self.cluster.broker)
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()
        self._stack.close()

    def session(self, peer: Peer) -> Session:
        """Return the peer's program, started when first asked for."""
        if peer.name not in self._sessions:
            session = Session(peer, self.cluster.namesrv)
            self._sessions[peer.name] = self._stack.enter_context(session)
        return self._sessions[peer.name]

    def topic(self, word: str, peer: Peer, queues: int = 4) -> str:
        """Make a topic of this case's own and return its name.

        The case has a connection of its own too: every broker closes one that is idle for two
        minutes, and the case before may have been as long ago as that.
        Who asks for the same one again has a second try: nothing is left of the first one, neither
        messages nor a session that may still owe it answers.
        """
        self.broker.close()
        self.broker = RawClient(self.cluster.broker)
        name = f"{word}-{peer.name.replace('.', '_')}"
        self._topics[name] += 1
        if self._topics[name] > 1:
            name = f"{name}-{self._topics[name]}"
            if peer.name in self._sessions:
                self._sessions.pop(peer.name).stop()
        create_topic(self.cluster.broker, name, queues)
        wait_for_route(self.cluster.namesrv, name)
        return name

    def group(self, topic: str, retries: int = 16) -> str:
        """Make a group and its retry topic, whose route clients else look up after 30 s only."""
        name = f"{topic}-group"
        create_group(self.broker, name, retries)
        create_topic(self.cluster.broker, f"%RETRY%{name}", 1)
        wait_for_route(self.cluster.namesrv, f"%RETRY%{name}")
        return name

    def send(
        self, topic: str, queue: int, body: bytes, tags: str = "TagA", keys: str = "k"
    ) -> None:
        """Send one message to a queue, by no client at all."""
        answer = send(self.broker, topic, queue, body, {"TAGS": tags, "KEYS": keys})
        assert answer.code == 0, answer

    def committed(self, topic: str, group: str, queue: int = 0) -> int:
        """Return the committed offset of a group, -1 if it has none."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
        fields["setZeroIfNotFound"] = "false"
        answer = self.broker.call(14, fields)
        return int(answer.ext["offset"]) if answer.code == 0 else -1


def content(body: bytes, tags: str = "TagA", keys: str = "k") -> Content:
    """Return a message whose body matters."""
    return Content(tags, keys, body)
