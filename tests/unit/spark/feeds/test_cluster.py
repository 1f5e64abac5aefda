"""A stream's view of a cluster: what is asked when, and brokers that are away for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from aerobee.remoting.errors import CallTimedOut
from aerobee.spark.errors import ClusterUnreachable, OptionError
from aerobee.spark.feeds import cluster as cluster_feed
from aerobee.spark.feeds.cluster import IDLE_PAUSE_S, ROUTES_S, UNKNOWN_BYTES, ClusterFeed
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.feeds.open import open_feed
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import Use, parse_options
from aerobee.spark.options.values import PARTITIONS_MAX
from aerobee.spark.planning.asked import Asked
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.selection import EVERYTHING
from aerobee.spark.streams.steps import Steps, TriggerLimits
from aerobee.spark.topics import TopicChoice

A, B = BrokerQueue("a", "orders", 0), BrokerQueue("b", "orders", 0)


class FakeCluster:
    """Brokers with a number of messages in each queue, and a clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: Offsets = {A: 3, B: 5}
        self.silent = self.mute = False
        self.life = 1  # of the topic
        self.clock_ms = 0
        self.gone: set[BrokerQueue] = set()  # of which their broker knows no topic
        self.asked: list[str] = []
        self.now_s = 100.0
        self.closed = False
        monkeypatch.setattr(cluster_feed, "Network", self._network)
        monkeypatch.setattr("aerobee.spark.feeds.cluster.time.monotonic", lambda: self.now_s)
        monkeypatch.setattr("aerobee.spark.feeds.cluster.time.sleep", self._sleep)

    def brokers(self) -> list[str]:
        """Their names."""
        return sorted({key.broker for key in self.ends})

    def bounds(
        self, choice: TopicChoice, *, missing_fails: bool = True
    ) -> dict[BrokerQueue, QueueRange]:
        """All that there is."""
        self._ask("bounds")
        if (
            missing_fails
            and choice.names
            and not any(key.topic in choice.names for key in self.ends)
        ):
            raise OptionError("option subscribe: no such topic")
        return {key: QueueRange(key, 0, end) for key, end in self.ends.items()}

    def latest(self, keys: Iterable[BrokerQueue]) -> Offsets:
        """The ends of some queues."""
        self._ask("latest")
        return {key: self.ends[key] for key in keys}

    def offsets_at(self, keys: Iterable[BrokerQueue], timestamp_ms: int) -> Offsets:
        """One message a millisecond."""
        return {key: min(timestamp_ms, self.ends[key]) for key in keys}

    def record_sizes(self, key: BrokerQueue, start: int) -> Ints:
        """Two messages, longer from one to the next."""
        self._ask("sizes")
        return np.array([100 + 10 * start, 110 + 10 * start])

    def record_bytes(self, _: object) -> int:
        """As long as most."""
        return 1000

    def messages_at(self, offsets: Offsets) -> dict[BrokerQueue, tuple[int, int]]:
        """A hundred bytes and a millisecond for each message, of the queue's life."""
        if offsets:
            self.asked.append(f"messages of {len(offsets)}")
        if self.mute:
            return {}
        return {
            key: (1000 * self.life + 100 * at, 5000 * self.life + at + self.clock_ms)
            for key, at in offsets.items()
            if at < self.ends[key]
        }

    def deleted(self, keys: Iterable[BrokerQueue]) -> frozenset[BrokerQueue]:
        """Those of a topic that was deleted."""
        self._ask("deleted")
        return frozenset(key for key in keys if key in self.gone)

    def close(self) -> None:
        """Remember it."""
        self.closed = True

    def _network(self, address: NetworkAddress) -> FakeCluster:
        assert address.namesrv == ("10.0.0.5:9876",)
        self.address = address
        return self

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.silent:
            raise ClusterUnreachable("broker b does not answer") from CallTimedOut("no reply")

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Two brokers."""
    return FakeCluster(monkeypatch)


def feed_of(**options: Any) -> ClusterFeed:
    """The feed of a query."""
    given = {"namesrv": "10.0.0.5:9876", **options}
    feed = open_feed(parse_options(given, Use.STREAM))
    assert isinstance(feed, ClusterFeed)
    return feed


def test_routes_are_asked_for_now_and_then_and_ends_always(cluster: FakeCluster) -> None:
    """A look costs one question for each queue; new queues are found within seconds."""
    feed = feed_of()
    assert feed.look() == {A: QueueRange(A, 0, 3), B: QueueRange(B, 0, 5)}
    cluster.ends[A] = 9
    cluster.ends[A._replace(queue_id=1)] = 1
    assert feed.look() == {A: QueueRange(A, 0, 9), B: QueueRange(B, 0, 5)}
    assert cluster.asked == ["bounds", "latest"]
    cluster.now_s += ROUTES_S
    assert len(feed.look()) == 3
    assert cluster.asked == ["bounds", "latest", "bounds"]
    assert feed.brokers() == ["a", "b"]
    feed.close()
    assert cluster.closed


def test_looks_that_find_nothing_new_are_paced(cluster: FakeCluster) -> None:
    """Spark asks at once again; brokers are not to be busy with that."""
    feed = feed_of()
    began_s = cluster.now_s
    for _ in range(11):
        feed.look()
    assert cluster.now_s - began_s == pytest.approx(9 * IDLE_PAUSE_S)
    cluster.ends[A] += 1
    before_s = cluster.now_s
    feed.look()
    feed.look()
    assert cluster.now_s - before_s <= IDLE_PAUSE_S * 1.001, "what is new is taken at once"


def test_broker_that_is_away_is_waited_for(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its queues stay as they were for as long as an option says; then the query ends."""
    feed = feed_of(networkTimeout="20000")
    known = feed.look()
    cluster.silent = True
    with caplog.at_level(logging.WARNING):
        assert feed.look() == known
        cluster.now_s += 19
        assert feed.look() == known
        assert caplog.text.count("does not answer") == 1
        cluster.now_s += 2
        with pytest.raises(ClusterUnreachable):
            feed.look()
    cluster.silent = False
    assert feed.look() == known
    cluster.silent = True
    assert feed.look() == known, "the waiting begins anew"


def test_cluster_that_never_answered_is_an_error_at_once(cluster: FakeCluster) -> None:
    """A wrong address is not waited for."""
    cluster.silent = True
    with pytest.raises(ClusterUnreachable):
        feed_of().look()


def test_queues_without_a_route_are_away(cluster: FakeCluster) -> None:
    """A broker that restarts leaves the routes too; what is not asked for is not missed."""
    feed = feed_of(subscribe="orders")
    feed.look()
    del cluster.ends[B]
    cluster.now_s += ROUTES_S
    assert list(feed.look()) == [A]
    other = BrokerQueue("a", "payments", 0)
    assert feed.missing({B, other}) == Missing(away=frozenset({B}))


def test_what_became_of_absent_queues_is_asked_with_the_routes(cluster: FakeCluster) -> None:
    """Not at each look; a broker that tells nothing has deleted nothing."""
    feed = feed_of(subscribe="orders")
    feed.look()
    del cluster.ends[B]
    cluster.now_s += ROUTES_S
    feed.look()
    for _ in range(3):
        assert feed.missing({B}) == Missing(away=frozenset({B}))
        feed.look()
    cluster.gone.add(B)
    cluster.now_s += ROUTES_S
    feed.look()
    assert feed.missing({B}) == Missing(deleted=frozenset({B}))
    assert cluster.asked.count("deleted") == 2
    cluster.now_s += ROUTES_S
    feed.look()
    cluster.silent = True
    assert feed.missing({B}) == Missing(away=frozenset({B}))


def test_offsets_that_went_back_are_looked_at_in_full(cluster: FakeCluster) -> None:
    """A topic made anew begins again."""
    feed = feed_of()
    feed.look()
    cluster.ends[B] = 1
    assert feed.look()[B] == QueueRange(B, 0, 1)
    assert cluster.asked == ["bounds", "latest", "bounds"]


@pytest.mark.parametrize("ends", [{A: 2, B: 4}, {A: 3, B: 5}, {A: 9, B: 9}])
def test_topic_made_anew_is_told(cluster: FakeCluster, ends: Offsets) -> None:
    """However far it has grown: another message stands before the offset, or a later one."""
    feed = feed_of()
    read = {key: there.end for key, there in feed.look().items()}
    marks = feed.marks(read, {})
    assert marks == {A: "1200@5002", B: "1400@5004"}
    assert feed.changed(read, marks) == {}
    cluster.life, cluster.ends = 2, dict(ends)
    cluster.now_s += ROUTES_S
    feed.look()
    again = feed_of()  # as after a restart
    again.look()
    assert again.changed(read, marks) == {A: 0, B: 0}
    assert again.marks({A: 0, B: 0}, {}) == {}
    assert feed.changed(read, marks) == {A: 0, B: 0}, "with the routes also what has no news"


def test_queues_without_news_are_looked_at_in_turns(cluster: FakeCluster) -> None:
    """Some with each look at the routes, so that many cost no more."""
    cluster.ends = {A._replace(queue_id=number): 3 for number in range(100)}
    feed = feed_of()
    read = {key: there.end for key, there in feed.look().items()}
    marks = feed.marks(read, {})
    cluster.asked.clear()
    found: set[BrokerQueue] = set()
    cluster.life = 2
    for _ in range(4):
        cluster.now_s += ROUTES_S
        feed.look()
        changed = feed.changed({key: 3 for key in read if key not in found}, marks)
        found.update(changed)
    looked = [each for each in cluster.asked if each.startswith("messages")]
    assert looked == ["messages of 32"] * 3 + ["messages of 4"]
    assert found == set(read)


def test_topic_made_anew_on_a_clock_that_was_set_back_is_told(cluster: FakeCluster) -> None:
    """It is shorter than it was, and its messages are older; but they stand behind in the log."""
    feed = feed_of()
    read = {key: there.end for key, there in feed.look().items()}
    marks = feed.marks(read, {})
    cluster.life, cluster.clock_ms, cluster.ends = 2, -100_000, {A: 1, B: 1}
    feed.look()
    assert feed.changed(read, marks) == {A: 0, B: 0}


def test_what_is_asked_for_marks(cluster: FakeCluster) -> None:
    """A message of each queue with news, nothing where there is none; silence changes no mark."""
    feed = feed_of()
    read = {key: there.end for key, there in feed.look().items()}
    marks = feed.marks(read, {})
    assert feed.changed(read, marks) == {} and feed.marks(read, marks) == marks
    assert cluster.asked == ["bounds", "messages of 2"]
    cluster.ends[A] += 4
    feed.look()
    assert feed.changed(read, marks) == {} and feed.marks(read, marks) == marks
    assert cluster.asked[2:] == ["latest", "messages of 1"]
    cluster.mute = True
    again = feed_of()
    again.look()
    assert again.changed(read, marks) == {} and again.marks(read, marks) == marks
    assert again.marks({A: 7, B: 5}, marks) == {B: marks[B]}


def test_queue_that_lost_its_end_goes_on_there(cluster: FakeCluster) -> None:
    """Its last message is older than the mark: the queue is the one that it was."""
    feed = feed_of()
    read = {key: there.end for key, there in feed.look().items()}
    marks = feed.marks(read, {})
    cluster.ends = {A: 2, B: 5}
    feed.look()
    assert feed.changed(read, marks) == {}


def test_start_is_checked_and_found_by_time(cluster: FakeCluster) -> None:
    """As for a batch."""
    feed = feed_of(subscribe="nothing")
    feed.look()
    with pytest.raises(OptionError):
        feed.check()
    assert feed.offsets_at([A, B], 4) == {A: 3, B: 4}


def test_sizes_are_those_of_the_next_messages(cluster: FakeCluster) -> None:
    """One pull for each queue and look; what lies behind it is taken for as long."""
    feed = feed_of(maxBytesPerTrigger="1m")
    feed.look()
    assert feed.sizes(A, 1, 5).tolist() == [110, 120, 115, 115, 115]
    assert feed.sizes(A, 2, 2).tolist() == [120, 115]
    assert feed.sizes(A, 7, 2).tolist() == [115, 115]
    assert cluster.asked == ["bounds", "sizes"]
    feed.look()
    assert feed.sizes(A, 2, 2).tolist() == [120, 130]
    cluster.silent = True
    feed.look()
    assert feed.sizes(A, 4, 1).tolist() == [125], "as they were before"
    assert feed.sizes(B, 0, 1).tolist() == [UNKNOWN_BYTES]


def test_silent_broker_is_asked_once_for_sizes(cluster: FakeCluster) -> None:
    """At each look, however many queues it has; each question may take half a minute."""
    more = [A._replace(queue_id=number) for number in range(100)]
    cluster.ends |= dict.fromkeys(more, 5)
    feed = feed_of(maxBytesPerTrigger="1m")
    feed.look()
    cluster.silent = True
    feed.look()
    for key in [*more, B]:
        assert feed.sizes(key, 0, 1).tolist() == [UNKNOWN_BYTES]
    assert cluster.asked.count("sizes") == 2


def test_limit_of_bytes(cluster: FakeCluster) -> None:
    """Shared out by what is known of sizes; a broker that is away holds up nobody's messages."""
    cluster.ends = {A: 1000, B: 1000}
    feed = feed_of(maxBytesPerTrigger="40k")
    bounds = feed.look()
    steps, begin = Steps(fail_on_data_loss=True), {A: 0, B: 0}
    limits = TriggerLimits(bytes=40 << 10)
    end = steps.next(begin, bounds, Missing(), limits, feed.sizes)
    assert sum(end.values()) == pytest.approx((40 << 10) / 105, rel=0.02)
    assert all(190 < offset < 200 for offset in end.values())


def test_end_that_no_queue_has_makes_no_endless_plan(cluster: FakeCluster) -> None:
    """However many messages a broker says that there are, no more tasks than one may ask for."""
    feed = feed_of()
    options = parse_options({"namesrv": "10.0.0.5:9876"})
    ranges = [QueueRange(A, 0, (1 << 63) - 1)]
    partitions = feed.partitions(Asked(options, ["body"], EVERYTHING), ranges)
    assert len(partitions) <= PARTITIONS_MAX
    assert partitions[-1].piece.ranges[-1].end == (1 << 63) - 1
