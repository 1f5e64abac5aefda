"""The value that every frame carries: a request or a reply, its header fields and its body."""

import itertools
from collections.abc import Mapping
from typing import Final

import msgspec

VERSION: Final = 513  # MQVersion.Version.V5_5_0.ordinal(); peers choose what they send by it
VERSION_NAME: Final = "V5_5_0"

INT32_MIN: Final = -0x8000_0000  # the numbers of a header are Java ints, whatever its codec
INT32_MAX: Final = 0x7FFF_FFFF

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2


class Codec:
    """How a header is encoded: the top byte of the second word of a frame."""

    JSON: Final = 0
    ROCKETMQ: Final = 1
    MSGPACK: Final = 2  # ours alone, used after both sides have agreed on it


class Language:
    """Which client library speaks (LanguageCode.java)."""

    JAVA: Final = 0
    CPP: Final = 1
    DOTNET: Final = 2
    PYTHON: Final = 3
    DELPHI: Final = 4
    ERLANG: Final = 5
    RUBY: Final = 6
    OTHER: Final = 7
    HTTP: Final = 8
    GO: Final = 9
    PHP: Final = 10
    OMS: Final = 11
    RUST: Final = 12
    NODE_JS: Final = 13


LANGUAGE_NAMES: Final[dict[int, str]] = {
    number: name for name, number in vars(Language).items() if name.isupper()
}
_LANGUAGE_NUMBERS: Final = {name: number for number, name in LANGUAGE_NAMES.items()}


def language_name(number: int) -> str:
    """Return the name that stands for a language in JSON; OTHER for one that has none."""
    return LANGUAGE_NAMES.get(number, "OTHER")


def language_number(name: str) -> int:
    """Return the number of a language name; that of OTHER for a name nobody knows."""
    return _LANGUAGE_NUMBERS.get(name, Language.OTHER)


_opaques = itertools.count(1)


def next_opaque() -> int:
    """Return a request number that comes again after a billion calls; above are those of lanes."""
    return next(_opaques) & 0x3FFF_FFFF


class Command(msgspec.Struct, frozen=True, gc=False):
    """One request or reply as it travels (RemotingCommand.java).

    `ext` holds the header fields as strings, never anything else; `opaque` pairs a reply with its
    request on one connection; `codec` says how the header was, or is to be, encoded.
    """

    code: int
    ext: dict[str, str] = {}
    body: bytes | memoryview = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int = Language.PYTHON
    version: int = VERSION
    codec: int = Codec.JSON

    @property
    def is_response(self) -> bool:
        """Tell a reply from a request."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no reply, not even an error."""
        return bool(self.flag & FLAG_ONEWAY)

    def reply(
        self,
        code: int = 0,
        ext: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        remark: str | None = None,
    ) -> "Command":
        """Answer this request: same opaque, same codec, response bit set."""
        return Command(
            code=code,
            ext=dict(ext) if ext else {},
            body=body,
            opaque=self.opaque,
            flag=FLAG_RESPONSE,
            remark=remark,
            codec=self.codec,
        )
