"""Whatever bytes lie in a store's files, opening it ends well or with a clear error."""

import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.disks.logs import opened, send, small
from support.examples import examples

from aerobee.remoting.message.record import decode_record
from aerobee.storage import dump
from aerobee.storage.errors import StoreError
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

SEGMENT = 8192
FILES = (
    f"commitlog/{0:020d}",
    f"commitlog/{SEGMENT:020d}",
    f"consumequeue/orders/0/{0:020d}",
    f"consumequeue/orders/1/{0:020d}",
    "checkpoint",
    "aerobee.progress",
    "aerobee.written",
    "abort",
)
INTERESTING = st.one_of(
    st.binary(min_size=1, max_size=24),
    st.sampled_from(
        [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", bytes(20), b"\xcb\xd4\x31\x94",
         b"\xda\xa3\x20\xa7", b"\x00\x00\x00\x5b", b"\x80" + bytes(7)]
    ),
)  # fmt: skip
DAMAGE = st.tuples(
    st.sampled_from(FILES), st.one_of(st.integers(0, 120), st.integers(0, SEGMENT)), INTERESTING
)


def template(root: Path) -> None:
    """A small clean store."""
    store = opened(small(root, segment_bytes=SEGMENT))
    for number in range(60):
        send(store, queue_id=number % 2, body=b"%d" % number + bytes(100), tags=f"t{number % 3}")
        store.poll()
    store.close()


FOLDER = tempfile.TemporaryDirectory()  # gone when the interpreter ends
TEMPLATE = Path(FOLDER.name)
template(TEMPLATE)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damages=st.lists(DAMAGE, min_size=1, max_size=6), bulk=st.booleans())
def test_damage_never_surprises(damages: list[tuple[str, int, bytes]], bulk: bool) -> None:
    """Open, read everything, verify and dump: messages or errors of ours, nothing else."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        shutil.copytree(TEMPLATE, root)
        for name, at, data in damages:
            path = root / name
            content = bytearray(path.read_bytes()) if path.exists() else bytearray(at)
            content[at : at + len(data)] = data
            path.write_bytes(content[:SEGMENT] if name.startswith("commitlog") else content)
        config = small(root, segment_bytes=SEGMENT)
        verify_quietly(config)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            dump.main([str(path) for path in sorted(root.rglob("*")) if path.is_file()])
        try:
            store = opened(config)
        except StoreError:
            return
        for queue_id in range(2):
            queue = store.find_queue("orders", queue_id)
            for offset in range(-1, 62):
                store.read(queue, offset, 32, 1 << 20, frozenset({0}) if bulk else None)
        stored = store.record_at(send(store, body=b"still here"))
        assert stored is not None and decode_record(stored).body == b"still here"
        store.close()


def verify_quietly(config: StoreSettings) -> None:
    """Verify; an error of ours is an answer, too."""
    with suppress(StoreError):
        verify(config)
