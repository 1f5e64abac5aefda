"""How groups get messages, PULL or POP, by topic: messageRequestMode.json, RocketMQ's own."""

import logging
from functools import partial
from pathlib import Path
from typing import Final

from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import RequestModeBody, RequestModes, encode_body

log = logging.getLogger(__name__)

PULL: Final = "PULL"


class RequestModeTable:
    """The modes that administrators have set (MessageRequestModeManager).

    The file is read when this is made. One that RocketMQ wrote may say POP: that is kept, but what
    is not served is not assigned.
    """

    def __init__(self, folder: Path) -> None:
        self._modes: dict[str, dict[str, RequestModeBody]] = {}
        self.file = TableFile(folder / "messageRequestMode.json", self.encode)
        stored = self.file.load(partial(decode_table, RequestModes))
        if stored is not None:
            self._modes = stored.message_request_mode_map
        for groups in self._modes.values():
            for mode in groups.values():
                if mode.mode != PULL:
                    log.warning(
                        "request mode not served, PULL instead topic=%s group=%s mode=%s",
                        mode.topic,
                        mode.consumer_group,
                        mode.mode,
                    )

    def set(self, mode: RequestModeBody) -> None:
        """Remember how a group gets a topic's messages."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.file.mark()

    def encode(self) -> bytes:
        """Return the text of messageRequestMode.json."""
        return encode_body(RequestModes(message_request_mode_map=self._modes))
