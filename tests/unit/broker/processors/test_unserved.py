"""Every request code is served, or it stands in the list with a reason."""

from pathlib import Path

from support.code_names import REQUEST_NAMES
from support.servers.brokers import running_broker

from aerobee.broker.processors.families import FAMILIES, SERVED_BY_CONNECTION
from aerobee.broker.processors.unserved import UNSERVED


async def test_every_code_is_served_or_explained(tmp_path: Path) -> None:
    """Codes, processors, features and the list agree; nothing is in two of them."""
    async with running_broker(tmp_path) as broker:
        features = [room.answers for room in broker.rooms if room.answers is not None]
    served = set(SERVED_BY_CONNECTION)
    for family in (*FAMILIES, *features):
        assert not served & set(family.table), f"{family.family} serves a code twice"
        served |= set(family.table)
    assert not served & set(UNSERVED)
    missing = {code: REQUEST_NAMES[code] for code in set(REQUEST_NAMES) - served - set(UNSERVED)}
    assert not missing
    assert served | set(UNSERVED) <= set(REQUEST_NAMES)
    assert all(reason.strip() for reason in UNSERVED.values())
