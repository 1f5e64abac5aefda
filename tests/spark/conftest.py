"""One Spark session and one store for all tests in this folder."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.disks.stores import Stored, StoreWriter, properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
FIRST_MS = 1_760_000_000_000


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores, as `aerobee.spark.session` makes it."""
    pytest.importorskip("pyspark")
    from aerobee.spark import session

    spark = session("local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 2,000 messages of every shape over three days, in several files."""
    chance = random.Random(7)
    writer = StoreWriter(tmp_path_factory.mktemp("spark") / "store", 1 << 17)
    topics = ["orders", "payments", "%RETRY%billing", "t" * 200]
    for number in range(2000):
        pairs = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"order-{number} k", "TAGS": "a"}
        if number % 5 == 0:
            pairs = {"RETRY_TOPIC": "orders"}
        body = chance.randbytes(chance.randrange(200))
        packed = number % 7 == 0
        writer.append(
            Stored(
                topic=topics[number % 10] if number % 10 < 4 else "orders",
                queue_id=number % 3,
                body=zlib.compress(body) if packed else body,
                properties=properties(pairs, closed=number % 2 == 0),
                sys_flag=1 if packed else 0,
                born_host=("2001:db8::7", 4) if number % 11 == 0 else ("10.0.0.7", number),
                store_timestamp=FIRST_MS + number * 3 * DAY_MS // 2000,
                reconsume_times=number % 4,
            )
        )
    return writer.close(spare_segments=1)
