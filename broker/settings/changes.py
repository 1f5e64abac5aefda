"""Settings that change while the broker runs: codes 25 and 26 (Configuration.java).

A change is checked as a whole, then written to the settings file the broker was started with (its
other lines and comments stay), then applied. Keys that only matter at start are kept for the next
one; without a file nothing could keep them, so they are refused, and so are those that an option or
the environment gives at each start, whatever the file says. Some keys can never be changed from
afar: what CVE-2023-33246 abused, and what an operator adds with `configBlackList`.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.remoting.bodies import DataVersion
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.config.java_properties import format_java_properties, parse_java_properties
from aerobee.remoting.config.kept_files import replace_file
from aerobee.remoting.config.secret_keys import (
    HIDDEN,
    is_secret,
    plain_key,
    without_secrets,
)
from aerobee.remoting.config.settings import SettingsError, Trait
from aerobee.remoting.config.sources import FILE_BYTES_MAX
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.keys import AccessKeys
from aerobee.remoting.net.settings import NetSettings

log = logging.getLogger(__name__)

_NO_FILE: Final = "start it with -c FILE to have changes kept"
NEVER_CHANGED: Final = ("brokerConfigPath", "rocketmqHome", "configBlackList")
_ACCESS: Final = {
    plain_key(key): key
    for name, key in BrokerSettings.keys().items()
    if name in {*AccessKeys.model_fields, "migrate_auth_from_v1_enabled", "plain_acl_path"}
    and name not in NetSettings.model_fields
}
"""What stays as it is, or one who may change settings makes himself a super user."""
_AT_START: Final = BrokerSettings.having(Trait.AT_START)
_GUARDED: Final = BrokerSettings.having(Trait.GUARDED)


async def _nothing(settings: BrokerSettings) -> None:
    pass


class SettingsChanges:
    """Changes settings as an operator asks from afar, and keeps them in the broker's file.

    Who holds `live` has a change when `update` returns; what works after a restart is in `kept`.
    `prepare` is waited for before a change: what it needs may take a while to import.
    """

    def __init__(
        self,
        live: Live,
        file: Path | None,
        now_ms: Callable[[], int],
        steady_clock_ms: Callable[[], int] = steady_clock_ms,
        prepare: Callable[[BrokerSettings], Awaitable[None]] = _nothing,
    ) -> None:
        self.live = live
        self._complaints = Complaints(steady_clock_ms, log)
        self.kept: dict[str, str] = {}  # RocketMQ key to the value of the next start
        self.data_version = DataVersion(timestamp=now_ms())
        self._file = file
        self._now_ms = now_ms
        self._turn = asyncio.Lock()
        self._prepare = prepare

    async def update(self, properties: Mapping[str, str], stranger: str = "") -> str:
        """Change settings; return which keys work at once, and which after a restart.

        `stranger` is the address of a peer that may not change what could destroy or expose, ""
        for others. A secret as it is shown, in asterisks, stays what it is: tools write back what
        they have read. Raises RequestError, and changes nothing: NO_PERMISSION for a key that it,
        or nobody, may change, INVALID_PARAMETER for a value that is not allowed or a key that needs
        a restart where no file keeps it for that, SYSTEM_ERROR when the file cannot be written.
        """
        self._check_allowed(properties)
        async with self._turn:
            settings = self.live.current
            names = {plain_key(key): (name, key) for name, key in settings.keys().items()}
            unknown = [key for key in properties if plain_key(key) not in names]
            known = {
                names[plain_key(key)]: value
                for key, value in properties.items()
                if plain_key(key) in names
            }
            stays = {key for (_, key), value in known.items() if is_secret(key) and value == HIDDEN}
            asked = {
                key: value
                for key, value in properties.items()
                if not (is_secret(key) and value == HIDDEN)
            }
            wanted = self._checked(settings, self.kept | asked)
            if stranger:
                self._check_guarded(wanted, stranger)
                stays |= {key for name, key in known if name in _GUARDED}
            given = {each: value.strip() for each, value in known.items() if each[1] not in stays}
            later = {key: value for (name, key), value in given.items() if name in _AT_START}
            now = {key: value for (_, key), value in given.items() if key not in later}
            changed = self._checked(settings, now)
            self._check_unkept(wanted, changed)
            await self._prepare(changed)
            if self._file is not None and given:
                await self._write(self._file, now | later)
                self.kept.update(later)
            self.data_version = msgspec.structs.replace(
                self.data_version, timestamp=self._now_ms(), counter=self.data_version.counter + 1
            )
            log.info("settings_changed keys=%s at_next_start=%s", sorted(now), sorted(later))
            self.live.change(changed)
        elsewhere = {key for name, key in given if name in settings.elsewhere}
        return self._told(sorted(now), sorted(later), sorted(unknown), sorted(stays), elsewhere)

    @staticmethod
    def _checked(settings: BrokerSettings, changes: Mapping[str, str]) -> BrokerSettings:
        """Return settings with changes; raise INVALID_PARAMETER where they are not allowed."""
        try:
            return settings.changed(changes)
        except SettingsError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None

    def _check_allowed(self, properties: Mapping[str, str]) -> None:
        """Refuse the whole change for one key that nobody may change from afar."""
        listed = self.live.current.config_black_list.split(";")
        forbidden = {plain_key(key) for key in (*NEVER_CHANGED, *listed)}
        shown = without_secrets(dict(self.live.current.items()))
        access = {
            key
            for key, value in properties.items()
            if (name := _ACCESS.get(plain_key(key))) and value.strip() != shown[name]
        }
        if access or any(plain_key(key) in forbidden for key in properties):
            raise RequestError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")

    def _check_guarded(self, wanted: BrokerSettings, stranger: str) -> None:
        """Refuse another value of what could destroy or expose than the next start would use."""
        keys, kept = wanted.keys(), self.live.current.changed(self.kept)
        touched = [
            keys[name]
            for name in keys
            if name in _GUARDED and getattr(wanted, name) != getattr(kept, name)
        ]
        if touched:
            self._complaints.tell(
                "settings_change_refused keys=%s by=%s", sorted(touched), stranger
            )
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"{', '.join(touched)} could destroy or expose what the broker holds; it is changed"
                " from the broker's own machine or from a network that adminAllowedNetworks names,"
                f" and {stranger} is neither",
            )

    def _told(
        self,
        now: list[str],
        later: list[str],
        unknown: list[str],
        stays: list[str],
        elsewhere: Collection[str],
    ) -> str:
        """Say of each key what became of it; `elsewhere` are those that no file decides on."""
        until = "" if self._file else f" until the broker stops ({_NO_FILE})"
        passing = [key for key in now if self._file and key in elsewhere]
        again = [key for key in later if self._file and key not in elsewhere]
        parts = (
            (f"works now{until}", [key for key in now if key not in passing]),
            (
                "works now until the broker stops, an option or the environment decides at starts",
                passing,
            ),
            ("works after a restart", again),
            ("works already, as they are", [key for key in later if key not in again]),
            ("means nothing here", unknown),
            ("stays as it is", stays),
        )
        return "; ".join(f"{what}: {', '.join(keys)}" for what, keys in parts if keys)

    def _check_unkept(self, wanted: BrokerSettings, changed: BrokerSettings) -> None:
        """Refuse what only a start could change when no start will read it."""
        keys, elsewhere = wanted.keys(), wanted.elsewhere
        names = [name for name in keys if getattr(wanted, name) != getattr(changed, name)]
        if self._file is None and names:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"{', '.join(keys[name] for name in names)} cannot change without a restart, and"
                " the broker was started without -c FILE, where the change could be kept",
            )
        if given := [f"{keys[name]} ({elsewhere[name]})" for name in names if name in elsewhere]:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"{', '.join(given)} cannot change without a restart, which would get the value as"
                " said in brackets, not from the file where the change could be kept: change it"
                " there",
            )

    def text(self) -> str:
        """Return all settings as a properties file, the kept ones included, secrets hidden."""
        return format_java_properties(without_secrets(dict(self.live.current.items()) | self.kept))

    async def _write(self, file: Path, changes: Mapping[str, str]) -> None:
        try:
            new = _merged(await asyncio.to_thread(_read, file), changes).encode()
            if len(new) > FILE_BYTES_MAX:
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER,
                    f"{file} would have {len(new)} bytes, a start reads up to {FILE_BYTES_MAX}",
                )
            await asyncio.to_thread(replace_file, file, new)
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
    lines = re.split(r"\r\n|\n|\r", text)  # not splitlines: that knows ends which Java does not
    for line in lines if lines[-1] else lines[:-1]:
        if not continued:
            stripped = line.lstrip(" \t\f")
            comment = not stripped or stripped[0] in "#!"
            dropped = not comment and plain_key(_key_of(line)) in wanted
        continued = not comment and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if not dropped:
            kept.append(line)
    if continued:
        kept.append("")  # or the last value would go on
    return "".join(line + "\n" for line in kept) + format_java_properties(changes)


def _key_of(line: str) -> str:
    return next(iter(parse_java_properties(line.rstrip("\\"))), "")
