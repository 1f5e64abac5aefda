"""Values as RocketMQ compares them: Java's numbers read from text, Java's order of doubles.

Text is bytes here, as a record holds it. An integer constant knows whether it fits into 32 bits,
because the other side of a comparison is then read as such a number, and fails beyond them
(ComparisonExpression.java).
"""

import math
from typing import Final, Never

from aerobee.broker.features.sql92.errors import EvaluationError

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 19  # of a 64-bit number
_DIGITS_ALWAYS_FIT: Final = 9  # into 32 bits
_SHOWN_BYTES_MAX: Final = 60
_DECIMAL_CHARS: Final = frozenset(b"0123456789+-.eE")
_HEX_CHARS: Final = frozenset(b"0123456789abcdefABCDEFxXpP+-.")
_JAVA_BLANKS: Final = bytes(range(33))  # String.trim
_NAMED: Final = {b"NaN": math.nan, b"Infinity": math.inf}


def read_int32(text: bytes) -> int:
    """Read a number as Integer.valueOf does; raises EvaluationError for what is none."""
    if text.isdigit() and len(text) <= _DIGITS_ALWAYS_FIT:
        return int(text)
    value = read_int64(text)
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        _no_number(text)
    return value


def read_int64(text: bytes) -> int:
    """Read a number as Long.valueOf does; raises EvaluationError for what is none."""
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    if not digits.isdigit():
        return _read_foreign_digits(text)
    if len(digits) > DIGITS_MAX and len(digits.lstrip(b"0")) > DIGITS_MAX:
        _no_number(text)
    value = int(digits[-DIGITS_MAX:])
    if text[:1] == b"-":
        value = -value
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        _no_number(text)
    return value


def _read_foreign_digits(text: bytes) -> int:
    """Read digits of other scripts, which Java takes too, one UTF-16 unit each."""
    decoded = text.decode("utf-8", "replace")
    digits = decoded[1:] if decoded[:1] in ("-", "+") else decoded
    if not digits.isdecimal() or max(digits) > "\uffff":
        _no_number(text)
    ascii_digits = "".join(str(int(digit)) for digit in digits)
    return read_int64(decoded[: len(decoded) - len(digits)].encode() + ascii_digits.encode())


def read_double(text: bytes) -> float:
    """Read a number as Double.valueOf does; raises EvaluationError for what is none."""
    number = text.strip(_JAVA_BLANKS)
    if number[-1:] in (b"d", b"D", b"f", b"F") and not _is_hex(number, exponent=False):
        number = number[:-1]
    if _DECIMAL_CHARS.issuperset(number):
        try:
            return float(number)
        except ValueError:
            _no_number(text)
    sign, name = (number[:1], number[1:]) if number[:1] in (b"-", b"+") else (b"", number)
    if name in _NAMED:
        return -_NAMED[name] if sign == b"-" else _NAMED[name]
    if _is_hex(number, exponent=True) and _HEX_CHARS.issuperset(number):
        try:
            return float.fromhex(number.decode())
        except OverflowError:
            return -math.inf if sign == b"-" else math.inf
        except ValueError:
            pass
    _no_number(text)


def _is_hex(number: bytes, *, exponent: bool) -> bool:
    """Whether this is 0x..., where d and f are digits; Java demands an exponent."""
    lower = number.lower()
    return lower.lstrip(b"+-").startswith(b"0x") and (b"p" in lower) == exponent


def read_bool(text: bytes) -> bool:
    """Read a truth value as Boolean.valueOf does: everything but "true" is false."""
    return text.lower() == b"true"


def order_doubles(left: float, right: float) -> int:
    """Compare as Double.compareTo does: -0.0 is before 0.0, NaN after all and like itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0.0:
        return 0
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    """Order what numbers cannot: -0.0, 0.0 and NaN; any other number when NaN is the other side."""
    if math.isnan(value):
        return 2
    return -1 if value == 0.0 and math.copysign(1.0, value) < 0 else 0


def _no_number(text: bytes) -> Never:
    raise EvaluationError(f"not such a number: {text[:_SHOWN_BYTES_MAX]!r}")
