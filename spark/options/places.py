"""What a path means: a folder of this machine, or a mounted one, and nothing else in silence.

Spark's users write `s3://bucket/lake` where it wants a place. To `open` that is the folder `s3:`
beside the program; so every path that a user names goes through here, and is refused by name.
"""

from __future__ import annotations

import re

from aerobee.spark.errors import OptionError

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_MACHINE = re.compile(r"//(?:localhost)?(?=/)", re.IGNORECASE)  # this one


def local_path(path: str, what: str = "option path", instead: str = "") -> str:
    """The path without `file:` before it, as Spark and its users write it.

    `what` names the option in an OptionError, `instead` says how else to get there. Raised for
    any other scheme (s3:, hdfs:, dbfs:), a file of another machine, a `~` that no shell has
    replaced, a zero byte, and nothing at all. A relative path with a colon begins with `./`.
    """
    if not path.strip():
        raise OptionError(f"{what} is empty: name a folder (was a variable of the shell unset?)")
    if "\0" in path:
        raise OptionError(f"{what}: {path!r} has a zero byte in it, and names no folder")
    if path.strip() == "~" or path.lstrip().startswith("~/"):
        raise OptionError(
            f"{what}: {path!r} was not replaced by a shell: write the home folder in full, or"
            f" ./{path} for a folder of that name"
        )
    found = _SCHEME.fullmatch(path)
    if found is None:
        return path
    scheme, rest = found[1].lower(), found[2]
    if scheme != "file":
        raise OptionError(
            f"{what}: {path!r} lies in a storage called {scheme}:, and only folders of local or"
            f" mounted file systems can be used{instead}; write ./{path} for a folder of that name"
        )
    local = _MACHINE.sub("", rest, count=1)
    if not local.startswith("/") or (local == rest and rest.startswith("//")):
        raise OptionError(
            f"{what}: {path!r} names another machine's file, or no whole path: what follows file:"
            " begins with a slash, as in file:/data or file:///data"
        )
    return local


def store_path(path: str) -> str:
    """A store's folder, as the option `path` names it. Raises OptionError."""
    return local_path(path, instead=" (or brokers over the network, by the option namesrv)")


def lake_path(path: str) -> str:
    """An export's folder. Raises OptionError."""
    return local_path(path, "out_dir (--to)", "; export to one and copy it, or mount the storage")


def spelled_once(uri: str) -> str:
    """A folder's URI in the one spelling that stands for all: no `file:`, no slash too many."""
    found = _SCHEME.fullmatch(uri)
    if found is None or found[1].lower() == "file":
        local = _MACHINE.sub("", found[2], count=1) if found else uri
        return re.sub("/+", "/", local).rstrip("/") or "/"
    return f"{found[1].lower()}:{found[2].rstrip('/')}"
