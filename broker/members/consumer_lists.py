"""The answers to 38 as they go out: a thousand members that ask after one change get one text."""

from collections.abc import Sequence
from typing import Final

from aerobee.remoting.bodies import ConsumerListReply, encode_body

KEPT_BYTES_MAX: Final = 4 << 20  # of all groups; members ask within a second or two of a change


class ConsumerLists:
    """The body of each group's latest answer, with the clients that it names.

    It is used again only for a list that is equal to these, so that no change can be missed. Bodies
    of KEPT_BYTES_MAX in all are kept, those asked for last; a larger one is made for each question.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[list[str], bytes]] = {}
        self.kept_bytes = 0

    def body(self, group: str, client_ids: Sequence[str]) -> bytes:
        """Return the body of a reply that lists a group's clients."""
        kept = self._kept.pop(group, None)
        if kept is not None and kept[0] == client_ids:
            self._kept[group] = kept  # now the one that was asked for last
            return kept[1]
        if kept is not None:
            self.kept_bytes -= len(kept[1])
        body = encode_body(ConsumerListReply(consumer_id_list=list(client_ids)))
        if len(body) <= KEPT_BYTES_MAX:
            self._kept[group] = list(client_ids), body
            self.kept_bytes += len(body)
            while self.kept_bytes > KEPT_BYTES_MAX:
                self.forget(next(iter(self._kept)))
        return body

    def forget(self, group: str) -> None:
        """Nobody is left in a group."""
        kept = self._kept.pop(group, None)
        if kept is not None:
            self.kept_bytes -= len(kept[1])
