"""A RocketMQ-compatible cluster for tests: in this process, in a thread, or as child processes."""

import importlib
from typing import TYPE_CHECKING, Any

from aerobee.remoting.extras import need

if TYPE_CHECKING:
    from aerobee.testing.cluster import EmbeddedCluster
    from aerobee.testing.processes import ClusterProcesses
    from aerobee.testing.thread import ClusterThread

__all__ = ["ClusterProcesses", "ClusterThread", "EmbeddedCluster"]

_HOMES = {
    "ClusterProcesses": "processes",
    "ClusterThread": "thread",
    "EmbeddedCluster": "cluster",
}


def __getattr__(name: str) -> Any:
    """Load a class when it is asked for: every pytest run imports this package for its plugin."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("broker", f"aerobee.testing.{name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
