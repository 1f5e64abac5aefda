"""The numbers of the protocol by their names."""

from typing import Final

from aerobee.remoting.codes import RequestCode, ResponseCode


def _names(table: type) -> dict[int, str]:
    """Turn a table of constants around: number to name."""
    # Python 3.13 adds a number of its own to every class, __firstlineno__
    return {value: name for name, value in vars(table).items() if name.isupper()}


REQUEST_NAMES: Final[dict[int, str]] = _names(RequestCode)
RESPONSE_NAMES: Final[dict[int, str]] = _names(ResponseCode)
