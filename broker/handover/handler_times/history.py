"""What one member has fetched and finished of its queues, and since when its oldest are at work."""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from aerobee.broker.members.group import GroupQueue

KEPT_MS: Final = 10_000  # what is older says no more of handlers that a hand-over might wait for
MARGIN_MS: Final = 100  # answers that are sent within it may reach the pool in another order
LOST_MS: Final = 1_200  # after which handlers of queues that were lost keep no thread busy


class Seen(NamedTuple):
    """One queue at one moment: the offsets before which all is fetched, and finished.

    `whole` says that the group filters nothing, so that all that is fetched is handled.
    """

    fetched: int
    done: int
    whole: bool


class Span(msgspec.Struct):
    """From when to when a member was seen to have fetched up to an offset and no further."""

    fetched: int
    first_ms: int
    last_ms: int


class Track(msgspec.Struct):
    """One queue of a member; `own` tells that it has fetched itself what was fetched."""

    spans: deque[Span]
    seen: Seen
    own: bool = False

    def note(self, seen: Seen, now_ms: int) -> None:
        """Take in how far it is now."""
        self.own = self.own or seen.done > self.seen.done or seen.done >= seen.fetched
        self.seen = seen
        spans = self.spans
        if spans[-1].fetched == seen.fetched:
            spans[-1].last_ms = now_ms
        else:
            spans.append(Span(seen.fetched, now_ms, now_ms))
        while len(spans) > 1 and spans[0].last_ms < now_ms - KEPT_MS:
            spans.popleft()

    def unfetched_ms(self, offset: int) -> int | None:
        """Return the last moment at which a message was seen not to be fetched yet."""
        last = None
        for span in self.spans:
            if span.fetched > offset:
                break
            last = span.last_ms
        return last

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest unfinished message was seen to be fetched; None where there is none."""
        if not self.own or self.seen.done >= self.seen.fetched:
            return None
        return next((span.first_ms for span in self.spans if span.fetched > self.seen.done), None)


class History(msgspec.Struct):
    """One member of one group; times in ms of the steady clock.

    `begun` are pairs: at the first time it was known that what was fetched before the second had
    begun. `asked_ms` is when it was last asked, `lost_ms` when it was last seen to have a queue
    less, `moved_ms` when anything was finished.
    """

    tracks: dict[GroupQueue, Track] = msgspec.field(default_factory=dict)
    begun: deque[tuple[int, int]] = msgspec.field(default_factory=deque)
    asked_ms: int | None = None
    lost_ms: int | None = None
    moved_ms: int | None = None

    @property
    def unfinished(self) -> int:
        """How many messages are fetched and not finished, at most."""
        return sum(track.seen.fetched - track.seen.done for track in self.tracks.values())

    def look(self, queues: Mapping[GroupQueue, Seen], now_ms: int) -> None:
        """Note how far a member is in its queues."""
        for key in self.tracks.keys() - queues.keys():
            del self.tracks[key]
            self.lost_ms = now_ms
        for key, seen in queues.items():
            track = self.tracks.get(key)
            if track is None or seen.fetched < track.seen.fetched or seen.done < track.seen.done:
                spans = deque([Span(seen.fetched, now_ms, now_ms)])
                self.tracks[key] = Track(spans, seen, own=seen.done >= seen.fetched)
                continue
            if seen.done > track.seen.done:
                self.moved_ms = now_ms
            track.note(seen, now_ms)
        unfetched_ms = [
            track.unfetched_ms(track.seen.done - 1)
            for track in self.tracks.values()
            if track.own and track.seen.whole
        ]
        latest_ms = max((each for each in unfetched_ms if each is not None), default=None)
        if latest_ms is not None:
            self._note_begun(now_ms, latest_ms - MARGIN_MS)

    def all_at_work(self, asked_ms: int, now_ms: int) -> None:
        """A member that was asked has said that it holds no more messages than it has threads.

        Handlers of queues that it has just lost may keep some threads busy; then it says nothing.
        """
        if self.lost_ms is None or asked_ms - self.lost_ms >= LOST_MS:
            self._note_begun(now_ms, asked_ms - MARGIN_MS)

    def at_work_ms(self, key: GroupQueue, now_ms: int) -> int | None:
        """Return for how long at least the oldest unfinished message of a queue is at work.

        None where that is not known, or nothing is unfinished.
        """
        track = self.tracks.get(key)
        fetched_ms = None if track is None else track.oldest_ms
        if fetched_ms is None:
            return None
        return next((now_ms - at for at, before in self.begun if before >= fetched_ms), None)

    def lags_ms(self, now_ms: int) -> int:
        """Return how long ago at least the oldest message was fetched that is unfinished."""
        oldest_ms = [track.oldest_ms for track in self.tracks.values()]
        return max((now_ms - each for each in oldest_ms if each is not None), default=0)

    def _note_begun(self, now_ms: int, before_ms: int) -> None:
        if not self.begun or before_ms > self.begun[-1][1]:
            self.begun.append((now_ms, before_ms))
        while self.begun[0][0] < now_ms - KEPT_MS:
            self.begun.popleft()
