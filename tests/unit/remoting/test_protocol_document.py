"""The examples of PROTOCOL.md are true."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.structs import fields
from support.code_names import REQUEST_NAMES, RESPONSE_NAMES

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.command import LANGUAGE_NAMES, Codec, Command
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.message.message_id import parse_offset_message_id
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.net.limits import NetLimits

TEXT = Path(__file__).parents[3].joinpath("remoting", "PROTOCOL.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "codec"),
    [("JSON", Codec.JSON), ("binary", Codec.ROCKETMQ), ("msgpack", Codec.MSGPACK)],
)
def test_the_frames_are_real(name: str, codec: int) -> None:
    """Each of the three examples is the frame of the request that the text names."""
    example = re.search(rf"^{name} +((?:[0-9a-f]{{2}} )*.*(?:\n {{9}}.*)*)", TEXT, re.MULTILINE)
    assert example is not None
    words = example[1].split()
    json_at = next((at for at, word in enumerate(words) if word.startswith("{")), len(words))
    wire = bytes.fromhex("".join(words[:json_at])) + "".join(words[json_at:]).encode()
    command = Command(14, {"topic": "t"}, opaque=7, codec=codec)
    assert wire == encode_frame(command)
    reader = FrameReader()
    reader.feed(wire)
    assert list(reader) == [command]


def test_codes_have_the_names_that_are_given() -> None:
    """The tables of requests name no code wrongly."""
    rows = re.findall(r"^\| (\d+) \| ([A-Z_0-9]+)", TEXT, re.MULTILINE)
    assert len(rows) > 25
    for code, name in rows:
        assert name in (REQUEST_NAMES.get(int(code)), RESPONSE_NAMES.get(int(code)))


def test_languages_ids_and_hashes() -> None:
    """The numbers in running text."""
    for number, name in LANGUAGE_NAMES.items():
        assert re.search(rf"\b{name} {number}\b", TEXT)
    assert parse_offset_message_id("0A01020300002A9F0000001CBE991A14") == (
        "10.1.2.3",
        10911,
        123456789012,
    )
    for tag, value in re.findall(r'`"(\w+)"` is (-?\d+)', TEXT):
        assert java_string_hash(tag) == int(value)


UNITS = {"MiB": 1 << 20, "KiB": 1 << 10}
OPERATORS = ("log_file", "audit_file", "console_")
"""How keys begin whose limits who runs a server meets, and no peer."""


def limits() -> list[tuple[str, int, str, str]]:
    """Return what the tables of limits say: what, value, of which server, where it stands."""
    text = TEXT[TEXT.index("## 15. Limits") : TEXT.index("## 16. SQL92")]
    row = r"^\| (.+?) \| ([\d,]+)(?: (\w+))? \| (broker |nameserver )?`([\w.]+)`.* \|$"
    return [
        (what, int(value.replace(",", "")) * UNITS.get(unit, 1), server.strip(), where)
        for what, value, unit, server, where in re.findall(row, text, re.MULTILINE)
    ]


def in_code(server: str, where: str) -> int:
    """Return what a setting or a constant is."""
    if server:
        settings = BrokerSettings if server == "broker" else NamesrvSettings
        name = re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), where)
        return int(settings.model_fields[name].default)
    module, _, name = where.rpartition(".")
    owner: object = (
        NetLimits() if module.endswith(".NetLimits") else import_module(f"aerobee.{module}")
    )
    return int(getattr(owner, name))


def test_limits_are_those_of_the_code() -> None:
    """Each number of the tables, and each limit of a server that its peers can meet."""
    rows = limits()
    assert len(rows) > 40
    for what, value, server, where in rows:
        assert in_code(server, where) == value, what
    named = {(server, where) for _, _, server, where in rows}
    of_network = {each.name for each in fields(NetLimits)}  # which net/limits.py describes
    for server, settings in (("broker", BrokerSettings), ("nameserver", NamesrvSettings)):
        for name in settings.model_fields:
            if name.endswith("_max") and not name.startswith(OPERATORS) and name not in of_network:
                key = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
                assert (server, key) in named, f"{server} {key} is missing in the tables"
