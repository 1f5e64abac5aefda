"""An audit log: who changed what, or was refused to, a line of JSON each, in rotated files.

A line is written by a thread, after the change and without a sync: nobody waits for it. A change is
answered even where the disk is full and its line is lost: whoever has to make room there is an
operator. What is lost is counted, and told by the next line that is not.
"""

import inspect
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aerobee.remoting import fastjson
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.config.secret_keys import HIDDEN, is_secret, without_secrets
from aerobee.remoting.errors import ProtocolError, RequestError
from aerobee.remoting.net.access.changes import BODY, CHANGES, PROPERTIES
from aerobee.remoting.net.access.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.logs.log_files import LogFile
from aerobee.remoting.net.routes import Outcome, Processor, Reply, Request, Routes

if TYPE_CHECKING:
    from aerobee.remoting.net.access.keys import AccessKeys

C = TypeVar("C")

BODY_BYTES_MAX: Final = 16 << 10
"""Of a body that is noted; of a longer one its length is."""
VALUE_CHARS_MAX: Final = 500
VALUES_MAX: Final = 100
DEPTH_MAX: Final = 8
REFUSED_PER_MINUTE: Final = 60
"""Refusals that are noted; more would have whoever is refused push out what others did."""
_PERIOD_S: Final = 60.0
_SIGNING: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})

Who = Callable[[Connection, Command], tuple[str, bool]]
"""The user whom a request is from, and whether he has proved it."""


def claimed(connection: Connection, command: Command) -> tuple[str, bool]:
    """Return whom a request says that it is from, where nobody is asked."""
    return command.ext.get(ACCESS_KEY, ""), False


class AuditLog:
    """Notes changes; `server` names who writes in each line, `who` knows users.

    Raises OSError where the file cannot be opened.
    """

    def __init__(
        self,
        settings: "AccessKeys",
        server: str,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.audit_file is not None, "it is not wanted"
        self.lines = 0
        self.who: Who = claimed
        self._server = server
        self._file = LogFile(
            settings.audit_file.expanduser(),
            settings.audit_file_bytes_max,
            settings.audit_files_max,
            private=True,
            lost_line=lambda count: self._line("LINES_LOST", {"count": count}),
        )
        self._refused = 0
        self._clock_s = clock_s
        self._since_s = clock_s()

    @property
    def lost(self) -> int:
        """How many lines are not in the files, because of the disk, or of too many at once."""
        return self._file.lost

    def around(self, families: Iterable[Routes[C]]) -> list[Routes[C]]:
        """Return families of processors whose changes are noted, with what became of each."""
        return [self._around(family) for family in families]

    def refused(self, connection: Connection, command: Command, error: RequestError) -> None:
        """Note a change that was refused before it was looked at; of many only how many."""
        if command.code not in CHANGES:
            return
        now_s = self._clock_s()
        if now_s - self._since_s >= _PERIOD_S:
            if (more := self._refused - REFUSED_PER_MINUTE) > 0:
                self._write(self._line("REFUSED", {"more": more}))
            self._refused, self._since_s = 0, now_s
        self._refused += 1
        if self._refused <= REFUSED_PER_MINUTE:
            read = len(command.body) <= BODY_BYTES_MAX  # nobody has read it, and he may be anybody
            self._note(connection, command, error.code, error.remark, read=read)

    def close(self) -> None:
        """Write what waits, if the disk takes it in time."""
        self._file.close()

    def _around(self, family: Routes[C]) -> Routes[C]:
        made: Routes[C] = Routes(family.family)
        made.table.update(
            (code, (header, self._noted(processor) if code in CHANGES else processor))
            for code, (header, processor) in family.table.items()
        )
        return made

    def _noted(self, processor: Processor[C]) -> Processor[C]:
        def serve(context: C, request: Request[Any]) -> Outcome | Coroutine[Any, Any, Outcome]:
            try:
                outcome = processor(context, request)
            except Exception as error:
                self._failed(request, error)
                raise
            if inspect.iscoroutine(outcome):
                return self._finish(request, outcome)
            self._done(request, outcome)  # type: ignore[arg-type]
            return outcome

        return serve

    async def _finish(
        self, request: Request[Any], waiting: Coroutine[Any, Any, Outcome]
    ) -> Outcome:
        try:
            outcome = await waiting
        except Exception as error:
            self._failed(request, error)
            raise
        self._done(request, outcome)
        return outcome

    def _done(self, request: Request[Any], outcome: Outcome) -> None:
        code = outcome.code if isinstance(outcome, Reply) else ResponseCode.SUCCESS
        remark = outcome.remark if isinstance(outcome, Reply) else None
        self._note(request.connection, request.command, code, remark)

    def _failed(self, request: Request[Any], error: Exception) -> None:
        code: int = ResponseCode.SYSTEM_ERROR
        remark = type(error).__name__
        if isinstance(error, RequestError):
            code, remark = error.code, error.remark
        self._note(request.connection, request.command, code, remark)

    def _note(
        self,
        connection: Connection,
        command: Command,
        result: int,
        remark: str | None,
        *,
        read: bool = True,
    ) -> None:
        action, resource = CHANGES[command.code]
        user, proven = self.who(connection, command)
        fields = {key: value for key, value in command.ext.items() if key not in _SIGNING}
        content = _content(command.code, bytes(command.body)) if command.body and read else None
        named = _Named((key, value) for key, value in fields.items() if not key.startswith(BODY))
        if isinstance(content, dict):
            named |= {f"{BODY}{key}": value for key, value in content.items()}
        elif command.body and BODY in resource:
            named.clear()  # the header does not say it
        said: dict[str, Any] = {
            "user": user,
            "authenticated": proven,
            "address": connection.remote,
            "code": command.code,
            "resource": resource.format_map(named),
            "fields": fields,
        }
        if command.body:
            size = len(command.body)
            shown = content is not None and size <= BODY_BYTES_MAX
            said["body"] = content if shown else {"bytes": size}
        said["result"] = result
        if remark:
            said["remark"] = remark
        self._write(self._line(action, _shown(said)))

    def _line(self, action: str, values: Mapping[str, Any]) -> str:
        seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        line = {"time": f"{at}.{milliseconds:03}Z", "server": self._server, "action": action}
        return json.dumps(line | dict(values))  # in ASCII, so that nothing in it ends a line

    def _write(self, line: str) -> None:
        self.lines += 1
        self._file.handle(logging.makeLogRecord({"msg": line}))


class _Named(dict[str, Any]):
    """What a request names; of `a|b` the first that is there, "?" where none is."""

    def __missing__(self, key: str) -> Any:
        return next((self[each] for each in key.split("|") if self.get(each)), "?")


def _content(code: int, data: bytes) -> Any:
    """Return what a body says to whoever serves it, None where it says nothing."""
    try:
        if code in PROPERTIES:
            if len(data) > BODY_BYTES_MAX:
                return None
            return without_secrets(parse_java_properties(data.decode()))
        return fastjson.loads(data)
    except (ProtocolError, ValueError, RecursionError):
        return None


def _shown(value: Any, key: str = "", depth: int = 0) -> Any:
    """Return a value as it may stand in a line: no secret, bounded, and JSON."""
    if is_secret(key) and value:
        return HIDDEN
    if isinstance(value, dict | list) and depth >= DEPTH_MAX:
        return "..."
    if isinstance(value, dict):
        some = list(value.items())[:VALUES_MAX]
        return {_text(str(name)): _shown(each, str(name), depth + 1) for name, each in some}
    if isinstance(value, list):
        return [_shown(each, key, depth + 1) for each in value[:VALUES_MAX]]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    if len(text) > VALUE_CHARS_MAX:
        text = f"{text[:VALUE_CHARS_MAX]}... ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
