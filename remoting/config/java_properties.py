"""The text format of `java.util.Properties`: settings files and the bodies of codes 25 and 26."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_KEY: Final = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_java_properties(text: str) -> dict[str, str]:
    """Read `key=value` lines with Java's comments, escapes and continued lines.

    The last of several equal keys wins. A malformed `\\u` escape raises ValueError naming the line,
    as Java refuses it (java.util.Properties.load). Time and memory are linear in the text.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None, "every part of the pattern may be empty"
        found[_unescape(match[1], number)] = _unescape(match[2], number)
    return found


def format_java_properties(values: Mapping[str, str]) -> str:
    """Write one `key=value` line per entry, which Java and `parse_java_properties` read back."""
    lines = (f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in values.items())
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) with comments and blank lines gone and continued lines joined."""
    parts: list[str] = []
    start = 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = natural.lstrip(" \t\f")
        if not parts:
            start = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield start, "".join([*parts, line])
        parts = []
    if parts:
        yield start, "".join(parts)


def _unescape(text: str, number: int) -> str:
    """Replace the backslash sequences of one key or value."""

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] != "u":
            return _CONTROLS.get(escape, escape)
        if not re.fullmatch(r"u[0-9a-fA-F]{4}", escape):
            raise ValueError(f"line {number}: \\{escape} is no \\uXXXX escape")
        return chr(int(escape[1:], 16))

    found = _ESCAPE.sub(replaced, text)
    if "\\u" not in text:
        return found
    # escapes count UTF-16 units, so a character outside the basic plane comes as two of them
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    """Put backslashes where Java's reader would otherwise see syntax."""
    for plain, escaped in (
        ("\\", "\\\\"),
        ("\t", "\\t"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\f", "\\f"),
    ):
        text = text.replace(plain, escaped)
    if key:
        text = re.sub(r"([ =:#!])", r"\\\1", text)
    elif text.startswith(" "):
        text = "\\" + text
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return "".join(chr(n) if 0x20 <= n <= 0x7E else f"\\u{n:04X}" for n in numbers)
