"""Aerobee: a broker, a nameserver and a client that speak Apache RocketMQ's protocol.

    from aerobee.client import Message, Producer

Programs import `aerobee.client` (send and consume), `aerobee.spark` (the log as rows) and
`aerobee.testing` (a cluster for tests); this package has its version alone, `aerobee.__version__`.
`python -m aerobee` is the command `aerobee`.

Two distributions have files below this name: `aerobee`, which is the client, and `aerobee-server`,
which the extras `broker`, `spark` and `export` bring. They may lie in different folders of the
path; last of all comes what stands for the modules that are not installed, and says so.
"""

from pkgutil import extend_path

__all__ = ["__version__"]

__path__ = [*extend_path(__path__, __name__), f"{__path__[0]}/absent"]


def __getattr__(name: str) -> str:
    """Return the version of what is installed, looked up when somebody asks."""
    if name != "__version__":
        from importlib import import_module

        if name in import_module("aerobee.client").__all__:  # Python words an AttributeError anew
            raise ImportError(f"write: from aerobee.client import {name}", name=name)
        raise AttributeError(f"module 'aerobee' has no attribute {name!r}; see aerobee.client")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("aerobee")
    except PackageNotFoundError:  # a source tree on the path
        return "unknown"
