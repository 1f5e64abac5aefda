"""A repair that is killed at any step, of a store that was broken in any way, is done again."""

import shutil
import tempfile
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from property.test_store_repair import (
    BREAKAGE,
    SOUND,
    TEMPLATE,
    at,
    broken,
    configured,
    served,
)
from support.disks.logs import opened
from unit.storage.tools.test_repair import DyingFiles, Killed

from aerobee.remoting.message.record import decode_record
from aerobee.storage import repair
from aerobee.storage.errors import StoreError
from aerobee.storage.tools.repairing import Repairer
from aerobee.storage.verify import verify

STEPS_MAX = 90  # effects of most repairs of such stores


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    breakages=st.lists(BREAKAGE, min_size=1, max_size=4),
    steps=st.lists(st.integers(0, STEPS_MAX), min_size=1, max_size=2),
    start=st.booleans(),
)
def test_a_killed_repair_is_done_again(
    breakages: list[tuple[str, str, int, bytes]], steps: list[int], start: bool
) -> None:
    """Killed once or twice, and a broker may start in between: mended, and nothing sound gone."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        shutil.copytree(TEMPLATE, root)
        broken(root, breakages)
        config = configured(root)
        whole = {place for place, data in SOUND.items() if at(root, place, len(data)) == data}
        try:
            verify(config)
        except StoreError:
            event("the verifier cannot read it")
            return
        for step in steps:
            with suppress(Killed):
                Repairer(config, DyingFiles(step)).run()
                event("the repair ended before")
        if start:
            opened(config).abandon()
        with redirect_stdout(StringIO()) as out:
            repair.repair(config)
            report = verify(config)
        assert not report.problems, (report.problems, out.getvalue())
        for place in whole:
            assert at(root, place, len(SOUND[place])) == SOUND[place], place
        store = opened(config)
        assert store.damage == ()
        read = served(store)
        store.close()
        for place in whole:
            record = decode_record(SOUND[place])
            assert read.get((record.queue_id, record.queue_offset)) == record.body, place
