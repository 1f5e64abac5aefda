"""Settings that change while the broker runs: codes 25 and 26 (Configuration.java).

A change is checked as a whole, then written to the settings file the broker was started with (its
other lines and comments stay), then applied. Keys that only matter at start are kept for the next
one; without a file nothing could keep them, so they are refused. Some keys can never be changed
from afar: what CVE-2023-33246 abused, and what an operator adds with `configBlackList`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.settings import NEEDS_RESTART, BrokerSettings
from aerobee.remoting.bodies import DataVersion
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.java_properties import format_java_properties, parse_java_properties
from aerobee.remoting.kept_files import replace_file
from aerobee.remoting.settings import SettingsError, plain_key, without_secrets

log = logging.getLogger(__name__)

NEVER_CHANGED: Final = ("brokerConfigPath", "rocketmqHome", "configBlackList")
_NOT_KEPT: Final = "in force until the broker stops; start it with -c FILE to have changes kept"


class LiveSettings:
    """The settings in force, those kept for the next start, and the file of both."""

    def __init__(
        self,
        settings: BrokerSettings,
        file: Path | None,
        now_ms: Callable[[], int],
        apply: Callable[[BrokerSettings], None],
    ) -> None:
        self.current = settings
        self.kept: dict[str, str] = {}  # RocketMQ key to the value of the next start
        self.data_version = DataVersion(timestamp=now_ms())
        self._file = file
        self._now_ms = now_ms
        self._apply = apply
        self._turn = asyncio.Lock()

    async def update(self, properties: Mapping[str, str]) -> str | None:
        """Change settings; say what does not work at once, or not after a restart.

        Raises RequestError, and changes nothing: NO_PERMISSION for a key that may not be changed,
        INVALID_PARAMETER for a value that is not allowed or a key that needs a restart where there
        is no file to keep it, SYSTEM_ERROR when the file cannot be written.
        """
        forbidden = {
            plain_key(key) for key in (*NEVER_CHANGED, *self.current.config_black_list.split(";"))
        }
        if any(plain_key(key) in forbidden for key in properties):
            raise RequestError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        names = {plain_key(key): (name, key) for name, key in self.current.keys().items()}
        known = {
            names[plain_key(key)]: value
            for key, value in properties.items()
            if plain_key(key) in names
        }
        later = {key: value for (name, key), value in known.items() if name in NEEDS_RESTART}
        async with self._turn:
            try:
                wanted = self.current.changed(properties)
                changed = self.current.changed(
                    {key: value for (_, key), value in known.items() if key not in later}
                )
            except SettingsError as error:
                raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
            if self._file is None:
                self._check_unkept(wanted, changed)
            elif known:
                await self._write(self._file, {key: value for (_, key), value in known.items()})
                self.kept.update(later)
            self.current = changed
        self.data_version = msgspec.structs.replace(
            self.data_version, timestamp=self._now_ms(), counter=self.data_version.counter + 1
        )
        log.info("settings_changed keys=%s at_next_start=%s", sorted(properties), sorted(later))
        self._apply(changed)
        if self._file is None:
            at_once = sorted(key for _, key in known if key not in later)
            return f"{', '.join(at_once)}: {_NOT_KEPT}" if at_once else None
        return f"kept for the next start: {', '.join(sorted(later))}" if later else None

    @staticmethod
    def _check_unkept(wanted: BrokerSettings, changed: BrokerSettings) -> None:
        """Refuse what only a start could change when no start will read it."""
        keys = wanted.keys()
        lost = [keys[name] for name in keys if getattr(wanted, name) != getattr(changed, name)]
        if lost:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"{', '.join(lost)} cannot change without a restart, and the broker was started"
                " without -c FILE, where the change could be kept",
            )

    def text(self) -> str:
        """Return all settings as a properties file, the kept ones included, secrets hidden."""
        return format_java_properties(without_secrets(dict(self.current.items()) | self.kept))

    async def _write(self, file: Path, changes: Mapping[str, str]) -> None:
        try:
            old = await asyncio.to_thread(_read, file)
            await asyncio.to_thread(replace_file, file, _merged(old, changes).encode())
        except OSError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"cannot write {file}: {error.strerror}"
            ) from None


def _read(file: Path) -> str:
    data = file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _merged(text: str, changes: Mapping[str, str]) -> str:
    """Replace the lines of the changed keys, append those of keys that had none."""
    wanted = {plain_key(key): key for key in changes}
    kept, continued = [], False
    for line in text.splitlines():
        if not continued:
            stripped = line.lstrip()
            comment = not stripped or stripped[0] in "#!"
            dropped = not comment and plain_key(_key_of(line)) in wanted
        continued = not comment and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if not dropped:
            kept.append(line)
    return "".join(line + "\n" for line in kept) + format_java_properties(changes)


def _key_of(line: str) -> str:
    return next(iter(parse_java_properties(line.rstrip("\\"))), "")
