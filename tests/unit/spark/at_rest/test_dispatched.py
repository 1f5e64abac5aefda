"""From where on the log is read for what the files of queues do not have yet."""

from pathlib import Path

import pytest
from support.disks.logs import opened, send, settle, small

from aerobee.spark.at_rest.dispatched import dispatched_end
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import find_stores
from aerobee.storage.layout import MENDING


def found(root: Path) -> int:
    """What a query would find."""
    return dispatched_end(StoreState.look(find_stores(str(root))[0]))


@pytest.mark.parametrize("killed", [False, True])
def test_a_broker_of_ours_says_it_in_its_checkpoint(tmp_path: Path, *, killed: bool) -> None:
    """Some queues have written out what came later, others have not: none of that counts."""
    store = opened(small(tmp_path))
    send(store)
    assert found(tmp_path) == 0, "nothing was written out yet"
    settle(store)
    proven = store.commit_log.committed
    for number in range(200):
        send(store, queue_id=number % 40 and 1)
    queue = store.queue("orders", 1)
    assert 0 < queue.written < queue.max_offset
    if killed:
        store.abandon()
    assert found(tmp_path) == proven
    if killed:
        store = opened(small(tmp_path))
        settle(store)
    end = store.commit_log.committed
    store.close()
    assert found(tmp_path) == end, "a store at rest has all"


def test_nothing_is_left_to_queues_one_of_which_has_lost_its_file(tmp_path: Path) -> None:
    """As long as it has not been written again; the file that is gone tells nobody."""
    store = opened(small(tmp_path))
    send(store)
    send(store, "bills")
    settle(store)
    next((tmp_path / "consumequeue/orders/0").iterdir()).unlink()
    send(store)
    settle(store)
    assert (tmp_path / MENDING).exists() and found(tmp_path) == 0
    store.close()
    assert found(tmp_path) == 0
    store = opened(small(tmp_path))
    settle(store)
    end = store.commit_log.committed
    store.close()
    assert found(tmp_path) == end
