"""Cuts a filter expression into tokens, one at a time, as RocketMQ's does (SelectorParser.jj).

The longest token wins, wherever it stands. A line comment needs the end of its line, else its
dashes are minus signs.
"""

import re
from collections.abc import Iterator
from typing import Final

from lark import Token

from aerobee.broker.features.sql92.errors import ExpressionError

KEYWORDS: Final = frozenset(
    {
        "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS",
        "STARTSWITH", "ENDSWITH",
    }
)  # fmt: skip
SIGNS: Final = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    ">": "GREATER",
    ">=": "GREATER_EQUAL",
    "<": "LESS",
    "<=": "LESS_EQUAL",
    "(": "OPEN",
    ")": "CLOSE",
    ",": "COMMA",
    "+": "PLUS",
    "-": "MINUS",
}
_EXPONENT: Final = r"[eE][+-]?[0-9]+"
_TOKEN: Final = re.compile(
    rf"""
    (?P<BLANK>   [ \t\n\r\f]+ | /\*(?s:.*?)\*/ )
  | (?P<FLOAT>   [0-9]+\.[0-9]*(?:{_EXPONENT})? | \.[0-9]+(?:{_EXPONENT})? | [0-9]+{_EXPONENT} )
  | (?P<DECIMAL> 0 | [1-9][0-9]*[lL]? )
  | (?P<STRING>  '(?:''|[^'])*' )
  | (?P<ID>      [a-zA-Z_$][a-zA-Z0-9_$]* )
  | (?P<SIGN>    <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def tokens(expression: str) -> Iterator[Token]:
    """Yield the tokens; raises ExpressionError where none begins.

    A token's type is the name of its keyword or sign, or DECIMAL, FLOAT, STRING, ID.
    """
    at, end = 0, len(expression)
    last_line_at = max(expression.rfind("\n"), expression.rfind("\r"))  # or each dash would look
    while at < end:
        if at < last_line_at and expression.startswith("--", at):
            line_end = _LINE_END.search(expression, at)
            assert line_end is not None, "one was found from the other side"
            at = line_end.end()
            continue
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ExpressionError(f"Lexical error at {place(expression, at)}: {expression[at]!r}")
        kind, text = found.lastgroup, found.group()
        assert kind is not None, "every alternative has a name"
        if kind == "SIGN":
            yield Token(SIGNS[text], text, at)
        elif kind == "ID" and text.upper() in KEYWORDS:
            yield Token(text.upper(), text, at)
        elif kind != "BLANK":
            yield Token(kind, text, at)
        at = found.end()


def place(expression: str, at: int) -> str:
    """Say where a character stands, both numbers from 1."""
    before = expression[:at].replace("\r\n", "\n").replace("\r", "\n")
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def string_value(token: str) -> str:
    """Return what a string token stands for: without its quotes, '' as one."""
    return token[1:-1].replace("''", "'")
