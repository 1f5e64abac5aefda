"""Templates: everything in them is escaped, and nothing in them asks a broker."""

import math
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aerobee.console.assets import Assets

FOLDER: Final = Path(__file__).with_name("templates")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def make_environment(assets: Assets) -> Environment:
    """Return what renders the templates; an unknown name in one is an error, not a blank."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(asset=assets.url, integrity=assets.integrity)
    environment.filters.update(
        count=count, size=size, rate=rate, moment=moment, ago=ago, percent=percent, urlencode=part
    )
    return environment


def part(text: str) -> str:
    """Write a name as a part of an address; Jinja2's own leaves slashes, which names may have."""
    return quote(str(text), safe="")


def count(value: int | None) -> str:
    """Write a whole number in groups of three: 12,345; a dash where it is not known."""
    return "–" if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Write messages per second: 0.2, 17, 12,345."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Write bytes: 1.5 GiB."""
    if value is None:
        return "–"
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"


def percent(ratio: str) -> str:
    """Write a share that a broker tells as "0.42": 42 %; a dash for what is none."""
    try:
        share = float(ratio)
    except ValueError:
        return "–"
    return f"{share * 100:.0f} %" if math.isfinite(share) else "–"


def moment(value_ms: int | None) -> str:
    """Write a time in ms since 1970, in UTC; a dash for none."""
    if not value_ms or value_ms < 0 or value_ms > 253_402_300_799_000:
        return "–"
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value_ms // 1000))
    return f"{text}.{value_ms % 1000:03d} UTC"


def ago(value_ms: int | None, now_ms: int | None = None) -> str:
    """Write how long ago a time in ms since 1970 is: 5 s, 3 min, 2 h, 4 d."""
    if not value_ms or value_ms < 0:
        return "–"
    seconds = (
        max(0, ((time.time_ns() // 1_000_000 if now_ms is None else now_ms) - value_ms)) / 1000
    )
    for limit, unit, length in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


Values = dict[str, Any]
"""What a template is given."""
