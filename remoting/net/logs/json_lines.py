"""Log lines as JSON: what a line says in words, and its values by their names."""

import json
import logging
import re
import time
from math import isfinite
from typing import Any, Final

VALUE_CHARS_MAX: Final = 1000
TEXT_CHARS_MAX: Final = 8000
_CONVERSION: Final = re.compile(r"(?:([A-Za-z_][\w.]*)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_EVENT: Final = re.compile(r"[^\s:=]+(?: [^\s:=]+(?![^\s]*=))*")
_PLAIN: Final = (bool, int, float, type(None))


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with RFC 3339 times in UTC.

    Lines are written as `event name=value`: `event` is what comes before the first value, `fields`
    has the values by name, `message` is the line itself, `trace` a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; it has no control characters, whatever a peer has sent."""
        message = record.getMessage()
        seconds, milliseconds = divmod(int(record.created * 1000), 1000)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        line: dict[str, Any] = {
            "time": f"{at}.{milliseconds:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "event": _event(message),
        }
        if fields := _fields(record):
            line["fields"] = fields
        line["message"] = _text(message, TEXT_CHARS_MAX)
        if record.exc_info:
            line["trace"] = _text(self.formatException(record.exc_info), TEXT_CHARS_MAX)
        return json.dumps(line)  # in ASCII: what ends a line elsewhere (U+2028) does not here


def _event(message: str) -> str:
    """Return the words before the first value: `accept paused` of `accept paused port=1`."""
    found = _EVENT.match(message)
    return _text(found[0] if found else message, VALUE_CHARS_MAX)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the values of a line by the names that stand before them."""
    if not isinstance(record.args, tuple) or not isinstance(record.msg, str):
        return {}
    fields, values = {}, iter(record.args)
    for found in _CONVERSION.finditer(record.msg):
        if found[0].endswith("%%"):
            continue
        value = next(values, None)
        if found[1] is not None:
            fields[found[1]] = value if _is_plain(value) else _text(value, VALUE_CHARS_MAX)
    return fields


def _is_plain(value: object) -> bool:
    """Whether JSON has such values; it has no infinite ones."""
    return isinstance(value, _PLAIN) and (not isinstance(value, float) or isfinite(value))


def _text(value: object, chars_max: int) -> str:
    """Return a text that can be encoded, and no more of it than that."""
    text = str(value)
    if len(text) > chars_max:
        text = f"{text[:chars_max]}... ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
