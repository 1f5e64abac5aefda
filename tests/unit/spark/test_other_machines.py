"""What tasks on other machines say where these are not as the driver's."""

from __future__ import annotations

import pickle
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import Stored, StoreWriter

from aerobee.spark.errors import OptionError, StoreUnreadable, VersionsDiffer
from aerobee.spark.reading import versions

pytest.importorskip("pyspark")


def reader(store: Path, **options: str) -> Any:
    """The reader of a query, as the driver makes it."""
    from aerobee.spark.source import RocketMQSource

    source = RocketMQSource({"path": str(store), **options})
    return source.reader(source.schema())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three messages."""
    writer = StoreWriter(tmp_path / "store")
    for _ in range(3):
        writer.append(Stored())
    return writer.close()


@pytest.mark.parametrize("columns", ["topic", "body"])
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_store_that_is_not_mounted_is_no_lost_data(
    store: Path, columns: str, fail_on_data_loss: str
) -> None:
    """Of the log and of the queues: the folder and the machine are named, nothing is left out."""
    query = reader(store, columns=columns, failOnDataLoss=fail_on_data_loss)
    partitions = query.partitions()
    assert sum(batch.num_rows for each in partitions for batch in query.read(each)) == 3
    shutil.rmtree(store)
    for partition in partitions:
        with pytest.raises(StoreUnreadable, match=rf"commitlog on {socket.gethostname()}: every"):
            list(query.read(partition))


def test_another_version_is_refused_by_name(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver packed is unpacked by the same version alone."""
    packed = pickle.dumps(reader(store, columns="body"))
    query = pickle.loads(packed)
    assert [batch.num_rows for each in query.partitions() for batch in query.read(each)] == [3]
    monkeypatch.setattr(versions, "own_version", lambda: "0.0.9")
    with pytest.raises(VersionsDiffer, match=r"aerobee 0\.0\.9 on .* but \d.* on the driver"):
        pickle.loads(packed)


def test_sessions_of_clusters_are_not_made_with_this_machines_files() -> None:
    """The helper for one machine says what to do instead."""
    from aerobee.spark import session

    with pytest.raises(OptionError, match=r"not on 'spark://m:7077': submit the job by"):
        session("spark://m:7077")
