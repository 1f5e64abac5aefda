"""Databases in files, of both kinds of engine, and a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """Serve for the tests of a module; each has topics of its own."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Give an engine over a file."""
    made = create_engine(f"sqlite:///{tmp_path}/effects.db")
    yield made
    made.dispose()


@pytest.fixture
def async_engine(engine: Engine, tmp_path: Path) -> AsyncEngine:
    """Give an async engine over the same file."""
    return create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/effects.db")
