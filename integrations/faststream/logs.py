"""How FastStream's own lines of the log look."""

from functools import partial
from typing import Any

from faststream._internal.context import ContextRepo
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger

__all__ = ["AerobeeParamsStorage", "logger_state"]

MESSAGE_ID_SHOWN = 32
COLUMNS = {"topic": 4, "group": 5}


class AerobeeParamsStorage(DefaultLoggerStorage):
    """Makes columns as wide as the longest topic and group are."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = dict(COLUMNS)

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Make room for a subscriber's names."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name) or ""))

    def get_logger(self, *, context: ContextRepo) -> Any:
        """Return the logger, made when it is first needed."""
        if (logger := self._get_logger_ref()) is None:
            columns = "".join(f"%({name})-{width}s | " for name, width in self._widths.items())
            logger = get_broker_logger(
                name="aerobee",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=MESSAGE_ID_SHOWN,
                fmt=f"%(asctime)s %(levelname)-8s - {columns}%(message_id)s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger


logger_state = partial(make_logger_state, default_storage_cls=AerobeeParamsStorage)
