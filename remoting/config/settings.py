"""How a server gets its settings: RocketMQ's properties files, environment variables, options.

A process has one subclass of `ServerSettings` (in its own `settings.py`). A field's RocketMQ key
is its camel-cased name, or its `validation_alias` where the attribute says units and the key does
not:

    class BrokerSettings(ServerSettings):
        broker_name: str = "broker-a"  # key brokerName, option --broker-name
        segment_bytes: int = Field(
            default=1 << 30, gt=0, validation_alias="mappedFileSizeCommitLog"
        )

`AtStart[int]` marks a field whose change works after a restart only, `Guarded[int]` one that could
destroy or expose, which not everybody may change from afar.

Values come from, the stronger first: options, `AEROBEE_` variables, the file, the defaults. A key
is recognised in any spelling that differs only in case, dots, dashes and underscores: `listenPort`,
`listen-port` and `AEROBEE_LISTEN_PORT` are one. Where a value is a secret the key with `File`
behind it names a file that has it, and systemd may hand one over (sources.py).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Self,
    TypeAlias,
    TypeVar,
)  # fmt: skip

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    ValidationError,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from aerobee.remoting.config.allowed_values import allowed_values
from aerobee.remoting.config.promises import Promise
from aerobee.remoting.config.secret_keys import HIDDEN, is_secret, plain_key, without_secrets
from aerobee.remoting.config.sources import (
    ENV_PREFIX,
    Given,
    SettingPlaces,
    SourceError,
    sources,
    with_secrets,
)
from aerobee.remoting.errors import AerobeeError

NUMBER_MAX: Final = 1 << 53  # a thousand times that, for milliseconds, fits into 64 bits
SHOWN_CHARS_MAX: Final = 200  # of a value that is refused


class SettingsError(AerobeeError):
    """The settings cannot be used; the text names each key, its value, and what is allowed.

    After that it has the `warnings` about the same settings: a misspelt key is often the reason.
    """

    def __init__(self, text: str, warnings: Sequence[str] = ()) -> None:
        super().__init__("\n".join((text, *warnings)))
        self.warnings = tuple(warnings)


def _named(value: Any) -> Any:
    """Refuse an empty path, which would be the folder that the process happens to run in.

    And a default below a home that is not known.
    """
    if isinstance(value, str) and not value.strip():
        raise ValueError("allowed: a path, or no such line for the default")
    if isinstance(value, Path) and below_home(str(value)) == value and value.parts[:1] == ("~",):
        raise ValueError(f"{value} is in the home of a user who has none: set HOME, or give a path")
    return value


def below_home(path: str) -> Path:
    """Return a path with the user's home in place of its `~`, as it is where no home is known."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


class Trait(Enum):
    """What a field says of its key beside type and limits."""

    AT_START = "a change works after a restart"
    GUARDED = "a change could destroy or expose"


T = TypeVar("T")
AtStart: TypeAlias = Annotated[T, Trait.AT_START]
Guarded: TypeAlias = Annotated[T, Trait.GUARDED]

GivenPath = Annotated[Path, BeforeValidator(_named)]


@dataclass
class _Origins:
    """Where values come from, which makes no settings different from others of the same values."""

    elsewhere: dict[str, str] = field(default_factory=dict, compare=False)


class ServerSettings(BaseModel):
    """Frozen settings of one process, named in RocketMQ's way outside and in ours inside.

    The constructor takes attribute names or RocketMQ keys and looks nowhere else, so an embedded
    server is what its maker says; only `load` reads files and the environment.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # it may be a secret
        validate_default=True,
        defer_build=True,  # what only lends its fields to others is never built
    )

    promises: ClassVar[Mapping[str, Promise]] = {}
    """Keys of RocketMQ without a field here that are refused rather than passed over."""
    variables: ClassVar[Mapping[str, str]] = {}
    """Variables that RocketMQ reads where nothing else says so, each with its key."""

    _origins: _Origins = PrivateAttr(default_factory=_Origins)

    @field_validator("*")
    @classmethod
    def _usable(cls, value: Any) -> Any:
        """Refuse what no call of the system and no compiled code takes: it would end what runs."""
        if isinstance(value, int) and value > NUMBER_MAX:
            raise ValueError(f"allowed: a whole number up to {NUMBER_MAX}")
        if isinstance(value, str | Path) and "\0" in str(value):
            raise ValueError("allowed: text without the character 0")
        return value

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> tuple[Self, list[str]]:
        """Gather the settings of a process; return them with warnings to show to the operator.

        `options` maps keys in any spelling to text; `environ` is `os.environ` unless given. Raises
        SettingsError where the file cannot be read, a value is not allowed, or a key promises what
        is not kept.
        """
        known = {plain_key(key): name for name, key in cls.keys().items()}
        known |= {plain_key(name): name for name in cls.model_fields}
        given: dict[str, Given] = {}
        warnings: list[str] = []
        idle: list[str] = []
        unkept: list[str] = []
        places = SettingPlaces(file, os.environ if environ is None else environ, options or {})
        try:
            found = list(sources(places, known, cls.variables))
        except SourceError as error:
            raise SettingsError(str(error)) from None
        for key, value in with_secrets(file, found, known, warnings, unkept):
            if (name := known.get(plain_key(key))) is not None:
                given[name] = value
            elif (problem := cls._unkept(key, value)) is not None:
                unkept.append(problem)
            elif _is_rocketmq_key(key):
                if not value.origin.startswith(ENV_PREFIX):  # one environment serves all servers
                    idle.append(key)
            else:
                warnings.append(cls._unknown(key, value.origin))
        if idle:
            warnings.append(f"no effect here, though RocketMQ knows them: {', '.join(idle)}")
        try:
            made = cls(**{name: value.value.strip() for name, value in given.items()})
        except ValidationError as error:
            problems = (*cls._problems(error, given), *unkept)
            raise SettingsError("\n".join(problems), warnings) from None
        if unkept:
            raise SettingsError("\n".join(unkept), warnings)
        made._origins.elsewhere.update(
            (name, value.origin) for name, value in given.items() if value.outweighs_file
        )
        return made, warnings

    def changed(self, changes: Mapping[str, str]) -> Self:
        """Return these settings with some keys changed; keys that nobody knows change nothing.

        Raises SettingsError that names each value that is not allowed, and each promise.
        """
        asked = ((key, Given(value, "changed while it runs")) for key, value in changes.items())
        if unkept := [text for key, value in asked if (text := self._unkept(key, value))]:
            raise SettingsError("\n".join(unkept))
        known = {plain_key(key): name for name, key in self.keys().items()}
        given = {
            known[plain_key(key)]: Given(value, "changed while it runs")
            for key, value in changes.items()
            if plain_key(key) in known
        }
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        values |= {name: value.value.strip() for name, value in given.items()}
        try:
            made = type(self)(**values)
        except ValidationError as error:
            raise SettingsError("\n".join(self._problems(error, given))) from None
        made._origins.elsewhere.update(self._origins.elsewhere)
        return made

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what a text of these settings shows: secrets hidden."""
        for name, value in super().__repr_args__():
            yield name, HIDDEN if value and name is not None and is_secret(name) else value

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """The attributes that an option or the environment sets, and which of them does.

        The settings file says nothing about these, also at the next start.
        """
        return self._origins.elsewhere

    @classmethod
    def having(cls, trait: Trait) -> frozenset[str]:
        """Name the attributes whose fields are marked with a trait."""
        return frozenset(name for name, info in cls.model_fields.items() if trait in info.metadata)

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Return the RocketMQ key of every attribute, in the order of declaration."""
        return {name: _key(name, info) for name, info in cls.model_fields.items()}

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield every RocketMQ key with its value as a properties file would hold it."""
        for name, key in self.keys().items():
            value = getattr(self, name)
            text = "" if value is None else str(value)
            yield key, text.lower() if isinstance(value, bool) else text

    def chosen(self) -> dict[str, str]:
        """Return the keys whose values are not the defaults, secrets hidden."""
        defaults = {
            key: info.get_default(call_default_factory=True)
            for key, info in zip(
                self.keys().values(), type(self).model_fields.values(), strict=True
            )
        }
        chosen = [key for name, key in self.keys().items() if getattr(self, name) != defaults[key]]
        texts = dict(self.items())
        return without_secrets({key: texts[key] for key in chosen})

    @classmethod
    def _unkept(cls, key: str, value: Given) -> str | None:
        """Say why a key cannot be passed over, None where it can."""
        promises = {plain_key(known): known for known in cls.promises}
        if (name := promises.get(plain_key(key))) is None:
            return None
        return cls.promises[name].problem(name, value.value, value.origin)

    @classmethod
    def _unknown(cls, key: str, origin: str) -> str:
        """Say that a key means nothing, and which one may have been meant."""
        import difflib  # late: most settings are known

        by_plain = {plain_key(known): known for known in cls.keys().values()}
        near = difflib.get_close_matches(plain_key(key), by_plain, n=1, cutoff=0.6)
        hint = f"did you mean {by_plain[near[0]]}?" if near else "no known key resembles it"
        shown = key if key and key.isprintable() else repr(key)
        return f"unknown key {shown} ({origin}) is ignored: {hint}"

    @classmethod
    def _problems(cls, error: ValidationError, given: Mapping[str, Given]) -> Iterator[str]:
        """Turn each complaint of the validation into a sentence for the operator."""
        names = {key: name for name, key in cls.keys().items()}
        for problem in error.errors():
            where = str(problem["loc"][0]) if problem["loc"] else ""
            name = names.get(where, where)
            if name not in given:  # two values that do not go together, or a default: its own words
                of = f"{cls.keys()[name]}: " if name in cls.model_fields else ""
                yield of + str(problem["msg"]).removeprefix("Value error, ")
                continue
            value, origin, _ = given[name]
            if problem["type"] == "value_error":
                allowed = str(problem["msg"]).removeprefix("Value error, ")
            else:
                allowed = "allowed: " + allowed_values(cls.model_fields[name])
            key = cls.keys()[name]
            swallowed = "=" in value and is_secret(value)  # the line after a \\ at the end of one
            shown = HIDDEN if is_secret(key) or swallowed else value.strip()
            if len(shown) > SHOWN_CHARS_MAX:
                shown = f"{shown[:SHOWN_CHARS_MAX]}..."
            yield f"{key} cannot be {shown!r} ({origin}): {allowed}"


def _key(name: str, info: FieldInfo) -> str:
    """Return the RocketMQ key of one field."""
    alias = info.validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else to_camel(name)


def _is_rocketmq_key(key: str) -> bool:
    """Whether RocketMQ's own servers know the key; loaded late, most files have none of them."""
    from aerobee.remoting.config.settings_keys import ROCKETMQ_KEYS

    return any(plain_key(key) == plain_key(known) for known in ROCKETMQ_KEYS)
